// Gates and norms of bfloat16 numbers, sixteen at a time, computed in float32.
#pragma once

#include "tile.h"

namespace {

// 1 / (1 + exp(-x)), 2^f by a polynomial of degree 4: to a relative 3e-6 where EXACT, else 7e-5, a thirtieth of what
// bfloat16 rounds.
template <bool EXACT>
INLINE __m512 sigmoid(__m512 x) {
    const __m512 t = _mm512_mul_ps(x, constant(-1.44269504f));
    const __m512 f = _mm512_reduce_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // t - floor(t)
    __m512 p = constant(0.0135341678f);
    for (float c : {0.0520114608f, 0.241442757f, 0.693003834f, 1.00000259f}) p = _mm512_fmadd_ps(p, f, constant(c));
    const __m512 d = _mm512_add_ps(_mm512_scalef_ps(p, t), constant(1.f));
    return EXACT ? _mm512_div_ps(constant(1.f), d) : _mm512_rcp14_ps(d);
}

// act(x), and act'(x) where asked for.
template <bool TANH>
INLINE __m512 activation(__m512 x, __m512* slope = nullptr) {
    if (TANH) {
        const __m512 far = _mm512_fmsub_ps(constant(2.f), sigmoid<true>(_mm512_add_ps(x, x)), constant(1.f));
        const __m512 x2 = _mm512_mul_ps(x, x);  // near 0 that cancels: the continued fraction of tanh does not
        const __m512 over = _mm512_fmadd_ps(_mm512_add_ps(x2, constant(105.f)), x2, constant(945.f));
        const __m512 under = _mm512_fmadd_ps(_mm512_fmadd_ps(constant(15.f), x2, constant(420.f)), x2, constant(945.f));
        const __mmask16 near = _mm512_cmp_ps_mask(x2, constant(0.5f), _CMP_LT_OQ);
        const __m512 y = _mm512_mask_mul_ps(far, near, x, _mm512_div_ps(over, under));
        if (slope) *slope = _mm512_fnmadd_ps(y, y, constant(1.f));
        return y;
    }
    const __m512 s = sigmoid<false>(x), y = _mm512_mul_ps(x, s);
    if (slope) *slope = _mm512_fmadd_ps(y, _mm512_sub_ps(constant(1.f), s), s);
    return y;
}

template <bool TANH>
INLINE __m256i gated(__m512 gate, __m512 up) {
    return narrow(_mm512_mul_ps(activation<TANH>(gate), up));
}

struct Slopes {
    __m256i gate, up, product;
};

// The gradients of gate and up from that of act(gate) · up, and act(gate) · up again.
template <bool TANH>
INLINE Slopes slopes(__m512 d, __m256i gate, __m256i up) {
    __m512 slope;
    const __m512 u = wide(up), a = activation<TANH>(wide(gate), &slope);
    return {narrow(_mm512_mul_ps(_mm512_mul_ps(d, u), slope)), narrow(_mm512_mul_ps(d, a)), narrow(_mm512_mul_ps(a, u))};
}

INLINE __m512 inverse_root(__m512 x) { return _mm512_div_ps(constant(1.f), _mm512_sqrt_ps(x)); }
INLINE __m512 mean(__m512 sum, long count) { return _mm512_mul_ps(sum, constant(1.f / count)); }
INLINE __m512 at(const bf16* x) { return wide(load(x)); }
INLINE __m512 at(const float* x) { return _mm512_loadu_ps(x); }

// scale · (x + y) in place of y, scale = 1/√(mean (x + y)² + eps), of a row of D numbers.
INLINE float norm_row(const bf16* x, bf16* y, long D, float eps) {
    __m512 squares = _mm512_setzero_ps();
    for (long n = 0; n < D; n += 16) {
        const __m512 h = _mm512_add_ps(at(x + n), at(y + n));
        squares = _mm512_fmadd_ps(h, h, squares);
    }
    const __m128 all = _mm_set_ss(_mm512_reduce_add_ps(squares) * (1.f / D) + eps);
    const __m512 scale = constant(1.f / _mm_cvtss_f32(_mm_sqrt_ss(all)));
    for (long n = 0; n < D; n += 16) put(y + n, narrow(_mm512_mul_ps(scale, _mm512_add_ps(at(x + n), at(y + n)))));
    return _mm512_cvtss_f32(scale);
}

// dh = scale · (dy − y · mean(y · dy)) of a row.
template <class X>
INLINE void norm_row_backward(const X* dy, const bf16* y, bf16* dh, long D, float scale) {
    __m512 sum = _mm512_setzero_ps();
    for (long n = 0; n < D; n += 16) sum = _mm512_fmadd_ps(at(dy + n), at(y + n), sum);
    const __m512 along = mean(constant(_mm512_reduce_add_ps(sum)), D);
    for (long n = 0; n < D; n += 16)
        put(dh + n, narrow(_mm512_mul_ps(constant(scale), _mm512_fnmadd_ps(along, at(y + n), at(dy + n)))));
}

// The same of up to 64 columns, S numbers each: x in a panel, f (S, 64), y (S, N).
INLINE void norm_columns(const bf16* panel, const bf16* f, bf16* y, long S, long N, long columns, float eps, float* scale) {
    __m512 squares[VECTORS] = {}, r[VECTORS];
    for (long s = 0; s < S; s++)
        for (int v = 0; v < VECTORS; v++) {
            const __m512 h = _mm512_add_ps(packed(panel, s, v), at(f + s * WIDTH + 16 * v));
            squares[v] = _mm512_fmadd_ps(h, h, squares[v]);
        }
    for (int v = 0; v < VECTORS; v++) {
        r[v] = inverse_root(_mm512_add_ps(mean(squares[v], S), constant(eps)));
        if (scale && 16 * v < columns) _mm512_storeu_ps(scale + 16 * v, r[v]);
    }
    for (long s = 0; s < S; s++)
        for (int v = 0; v < VECTORS; v++) {
            const __m512 h = _mm512_add_ps(packed(panel, s, v), at(f + s * WIDTH + 16 * v));
            if (16 * v < columns) put(y + s * N + 16 * v, narrow(_mm512_mul_ps(r[v], h)));
        }
}

INLINE void norm_columns_backward(const bf16* dy, const bf16* y, bf16* dh, long S, long N, long columns, const float* scale) {
    __m512 sum[VECTORS] = {};
    for (long s = 0; s < S; s++)
        for (int v = 0; v < VECTORS; v++)
            if (16 * v < columns) sum[v] = _mm512_fmadd_ps(at(dy + s * N + 16 * v), at(y + s * N + 16 * v), sum[v]);
    for (long s = 0; s < S; s++)
        for (int v = 0; v < VECTORS; v++)
            if (16 * v < columns) {
                const long n = s * N + 16 * v;
                const __m512 moved = _mm512_fnmadd_ps(mean(sum[v], S), at(y + n), at(dy + n));
                put(dh + n, narrow(_mm512_mul_ps(_mm512_loadu_ps(scale + 16 * v), moved)));
            }
}

}  // namespace
