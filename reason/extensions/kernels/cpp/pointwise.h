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

template <bool TANH>
INLINE F gated(F gate, F up) {
    return activation<TANH>(gate) * up;
}

// The product of a row of sums, half of them gates, half ups; where `kept`, these too, `inner` numbers apart.
template <bool TANH>
INLINE void put_gated(const F* gates, number* product, number* kept, long inner) {
    const F* ups = gates + VECTORS / 2;
    for (int v = 0; v < VECTORS / 2; v++) put(product + LANES * v, gated<TANH>(gates[v], ups[v]));
    if (kept) stream(kept, gates), stream(kept + inner, ups);
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

// The same of up to WIDTH columns, S numbers each: x in a panel, f (S, WIDTH), y (S, N).
INLINE void norm_columns(const number* panel, const number* f, number* y, long S, long N, long columns, float eps, float* scale) {
    F squares[VECTORS] = {}, r[VECTORS];
    for (long s = 0; s < S; s++)
        for (int v = 0; v < VECTORS; v++) {
            const F h = row_of(panel, s, v) + at(f + s * WIDTH + LANES * v);
            squares[v] += h * h;
        }
    for (int v = 0; v < VECTORS; v++) {
        for (int lane = 0; lane < LANES; lane++) r[v][lane] = 1.f / __builtin_sqrtf(squares[v][lane] * (1.f / S) + eps);
        if (scale && LANES * v < columns) put(scale + LANES * v, r[v]);
    }
    for (long s = 0; s < S; s++)
        for (int v = 0; v < VECTORS; v++)
            if (LANES * v < columns) put(y + s * N + LANES * v, r[v] * (row_of(panel, s, v) + at(f + s * WIDTH + LANES * v)));
}

INLINE void norm_columns_backward(const number* dy, const number* y, number* dh, long S, long N, long columns, const float* scale) {
    F sum[VECTORS] = {};
    for (long s = 0; s < S; s++)
        for (int v = 0; v < VECTORS; v++)
            if (LANES * v < columns) sum[v] += at(dy + s * N + LANES * v) * at(y + s * N + LANES * v);
    for (long s = 0; s < S; s++)
        for (int v = 0; v < VECTORS; v++)
            if (LANES * v < columns) {
                const long n = s * N + LANES * v;
                put(dh + n, at(scale + LANES * v) * (at(dy + n) - sum[v] * (1.f / S) * at(y + n)));
            }
}

}  // namespace
