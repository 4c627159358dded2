// Gates and norms, LANES numbers at a time, computed in float32.
#pragma once

#include "tile.h"

namespace {

// act(x), and act'(x) where asked for.
template <bool TANH>
INLINE F activation(F x, F* slope = nullptr) {
    if (TANH) {
        const F far = 2.f / (1.f + exp(-2.f * x)) - 1.f;
        const F x2 = x * x;  // near 0 that cancels: the continued fraction of tanh does not
        const F near = x * (((x2 + 105.f) * x2 + 945.f) / ((15.f * x2 + 420.f) * x2 + 945.f));
        const F y = x2 >= 0.5f ? far : near;
        if (slope) *slope = 1.f - y * y;
        return y;
    }
    const F s = inverse(1.f + exp(-x)), y = x * s;
    if (slope) *slope = y * (1.f - s) + s;
    return y;
}

// The product of a row of sums, half of them gates, half ups; where `kept`, these too, `inner` numbers apart.
template <bool TANH>
INLINE void put_gated(const F* gates, number* product, number* kept, long inner) {
    const F* ups = gates + VECTORS / 2;
    for (int v = 0; v < VECTORS / 2; v++) put(product + LANES * v, activation<TANH>(gates[v]) * ups[v]);
    for (int v = 0; kept && v < VECTORS / 2; v++) put(kept + LANES * v, gates[v]), put(kept + inner + LANES * v, ups[v]);
}

struct Slopes {
    F gate, up, product;
};

// The gradients of gate and up from that of act(gate) · up, and act(gate) · up again.
template <bool TANH>
INLINE Slopes slopes(F d, F gate, F up) {
    F slope;
    const F a = activation<TANH>(gate, &slope);
    return {d * up * slope, d * a, a * up};
}

// scale · (x + y) in place of y, scale = 1/√(mean (x + y)² + eps), of a row of D numbers.
INLINE float norm_row(const number* x, number* y, long D, float eps) {
    F squares{};
    for (long n = 0; n < D; n += LANES) {
        const F h = at(x + n) + at(y + n);
        squares += h * h;
    }
    const float scale = 1.f / __builtin_sqrtf(total(squares) * (1.f / D) + eps);
    for (long n = 0; n < D; n += LANES) put(y + n, scale * (at(x + n) + at(y + n)));
    return scale;
}

// dh = scale · (dy − y · mean(y · dy)) of a row.
template <class X>
INLINE void norm_row_backward(const X* dy, const number* y, number* dh, long D, float scale) {
    F sum{};
    for (long n = 0; n < D; n += LANES) sum += at(dy + n) * at(y + n);
    const float along = total(sum) * (1.f / D);
    for (long n = 0; n < D; n += LANES) put(dh + n, scale * (at(dy + n) - along * at(y + n)));
}

}  // namespace
