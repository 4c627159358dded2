// rms(x + down(act(gate) * up)) of bfloat16 numbers, and its gradients: the gate is computed in the registers that hold
// its products, the norm while its rows are in cache. Called by reason/nn/fused_swiglu.py.
//
// "Rows" mixes the columns D of x (R, D): gate_up (2I, D), down (D, I). "Columns" mixes the rows S of x (S, N), N = B·D:
// gate_up (2I, S), down (S, I). I is a multiple of 64, D and N of 16.

#include "tile.h"

namespace {

constexpr long BLOCK = 96;  // rows that a thread takes at a time: their gates stay in L2

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
        const __m512 y = _mm512_fmsub_ps(constant(2.f), sigmoid<true>(_mm512_add_ps(x, x)), constant(1.f));
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

// scale · (x + y) in place of y, scale = 1/√(mean (x + y)² + eps), of a row of D numbers.
INLINE float norm_row(const bf16* x, bf16* y, long D, float eps) {
    __m512 squares = _mm512_setzero_ps();
    for (long n = 0; n < D; n += 16) {
        const __m512 h = _mm512_add_ps(at(x + n), at(y + n));
        squares = _mm512_fmadd_ps(h, h, squares);
    }
    const __m512 all = mean(constant(_mm512_reduce_add_ps(squares)), D);
    const __m512 scale = inverse_root(_mm512_add_ps(all, constant(eps)));
    for (long n = 0; n < D; n += 16) put(y + n, narrow(_mm512_mul_ps(scale, _mm512_add_ps(at(x + n), at(y + n)))));
    return _mm512_cvtss_f32(scale);
}

// dh = scale · (dy − y · mean(y · dy)) of a row.
INLINE void norm_row_backward(const bf16* dy, const bf16* y, bf16* dh, long D, float scale) {
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

struct Forward {
    long outer, width, inner;  // R, D, I or S, N, I
    float eps;
    int threads;
    const bf16 *x, *gate_up, *down;
    bf16 *y, *kept;  // kept: gate and up, (R, 2I) or by panels (N/64, 2I, 64)
    float* scale;    // of the norm, (R) or (N); neither of the two where nothing is kept
};

struct Backward {
    long outer, width, inner;
    int threads;
    const bf16 *dy, *y, *kept;
    const float* scale;
    const bf16 *gate_up, *down;
    bf16 *dh, *dx, *d_kept, *product;  // gradients of x + f(x), of x, of `kept`; act(gate) · up
};

template <bool TANH>
void rows_forward(const Forward& a) {
    constexpr long HALF = WIDTH / 2;  // columns of a panel are the gate's, the others those of `up`
    const long R = a.outer, D = a.width, I = a.inner;
    const Buffer in = buffer(2 * I * D), out = buffer(panels(D) * WIDTH * I);
#pragma omp parallel num_threads(a.threads)
    {
        const Buffer product = buffer(BLOCK * I);
#pragma omp for
        for (long i = 0; i < I; i += HALF) {
            pack_pairs(a.gate_up + i * D, D, HALF, D, &in[2 * i * D]);
            pack_pairs(a.gate_up + (I + i) * D, D, HALF, D, &in[2 * i * D], HALF);
        }
#pragma omp for
        for (long n = 0; n < D; n += WIDTH) pack_pairs(a.down + n * I, I, std::min(WIDTH, D - n), I, &out[n * I]);
#pragma omp for
        for (long first = 0; first < R; first += BLOCK) {
            const long rows = std::min(BLOCK, R - first);
            const bf16* x = a.x + first * D;
            bf16 *y = a.y + first * D, *kept = a.kept ? a.kept + first * 2 * I : nullptr;
            for (long i = 0; i < I; i += HALF)
                in_tiles(rows, [&](auto m, long row) {
                    Tile<m> tile;
                    tile.product(x + row * D, D, &in[2 * i * D], D);
#pragma GCC unroll 8
                    for (int r = 0; r < m; r++) {
                        const __m512* sum = tile.sum[r];
                        put(&product[(row + r) * I + i], gated<TANH>(sum[0], sum[2]));
                        put(&product[(row + r) * I + i + 16], gated<TANH>(sum[1], sum[3]));
                        if (kept) {
                            stream(kept + (row + r) * 2 * I + i, sum[0], sum[1]);
                            stream(kept + (row + r) * 2 * I + I + i, sum[2], sum[3]);
                        }
                    }
                });
            multiply(rows, I, D, product.get(), I, out.get(), y, D);
            for (long row = 0; row < rows; row++) {
                const float scale = norm_row(x + row * D, y + row * D, D, a.eps);
                if (a.scale) a.scale[first + row] = scale;
            }
        }
    }
}

template <bool TANH>
void rows_backward(const Backward& a) {
    const long R = a.outer, D = a.width, I = a.inner;
    const Buffer in = buffer(I * D), out = buffer(panels(D) * WIDTH * 2 * I);
#pragma omp parallel num_threads(a.threads)
    {
#pragma omp for
        for (long i = 0; i < I; i += WIDTH) pack_rows(a.down + i, D, WIDTH, I, &in[i * D]);
#pragma omp for
        for (long n = 0; n < D; n += WIDTH) pack_rows(a.gate_up + n, 2 * I, D - n, D, &out[2 * n * I]);
#pragma omp for
        for (long first = 0; first < R; first += BLOCK) {
            const long rows = std::min(BLOCK, R - first);
            const bf16* kept = a.kept + first * 2 * I;
            bf16 *dh = a.dh + first * D, *dx = a.dx + first * D, *d_kept = a.d_kept + first * 2 * I;
            bf16* product = a.product + first * I;
            for (long row = 0; row < rows; row++) {
                const long begin = (first + row) * D;
                norm_row_backward(a.dy + begin, a.y + begin, a.dh + begin, D, a.scale[first + row]);
            }
            for (long i = 0; i < I; i += WIDTH)
                in_tiles(rows, [&](auto m, long row) {
                    const long begin = row * 2 * I + i;
                    prefetch<m, 0>(kept + begin, 2 * I), prefetch<m, 0>(kept + begin + I, 2 * I);
                    prefetch<m, 1>(d_kept + begin, 2 * I), prefetch<m, 1>(d_kept + begin + I, 2 * I);
                    prefetch<m, 1>(product + row * I + i, I);
                    Tile<m> tile;
                    tile.product(dh + row * D, D, &in[i * D], D);
#pragma GCC unroll 8
                    for (int r = 0; r < m; r++)
#pragma GCC unroll 4
                        for (int v = 0; v < VECTORS; v++) {
                            const long of = begin + r * 2 * I + 16 * v;
                            const Slopes s = slopes<TANH>(tile.sum[r][v], load(kept + of), load(kept + of + I));
                            put(d_kept + of, s.gate);
                            put(d_kept + of + I, s.up);
                            put(product + (row + r) * I + i + 16 * v, s.product);
                        }
                });
            multiply(rows, 2 * I, D, d_kept, 2 * I, out.get(), dx, D);
            for (long n = 0; n < rows * D; n += 16) put(dx + n, narrow(_mm512_add_ps(at(dx + n), at(dh + n))));
        }
    }
}

template <bool TANH>
void columns_forward(const Forward& a) {
    const long S = a.outer, N = a.width, I = a.inner, K = even(S);
    const Buffer in = buffer(2 * I * K);
    for (long i = 0; i < I; i += 2) {  // two rows of the gate, then the two of `up`: a tile
        pad(a.gate_up + i * S, 2, S, S, 1, &in[2 * i * K]);
        pad(a.gate_up + (I + i) * S, 2, S, S, 1, &in[2 * (i + 1) * K]);
    }
#pragma omp parallel num_threads(a.threads)
    {
        const Buffer panel = buffer(K * WIDTH), product = buffer(I * WIDTH), f = buffer(S * WIDTH);
#pragma omp for
        for (long n = 0; n < N; n += WIDTH) {
            const long columns = std::min(WIDTH, N - n);
            pack_rows(a.x + n, S, columns, N, panel.get());
            for (long i = 0; i < I; i += 2) {
                Tile<4> tile;
                tile.product(&in[2 * i * K], K, panel.get(), K);
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; v++)
                    _mm512_store_si512(&product[i * WIDTH + 32 * v], zipped(gated<TANH>(tile.sum[0][v], tile.sum[2][v]),
                                                                            gated<TANH>(tile.sum[1][v], tile.sum[3][v])));
                if (a.kept)
#pragma GCC unroll 4
                    for (int r = 0; r < 4; r++) {
                        bf16* to = a.kept + 2 * I * n + (r / 2 * I + i + r % 2) * WIDTH;
                        stream(to, tile.sum[r][0], tile.sum[r][1]);
                        stream(to + 32, tile.sum[r][2], tile.sum[r][3]);
                    }
            }
            multiply(S, I, WIDTH, a.down, I, product.get(), f.get(), WIDTH);
            norm_columns(panel.get(), f.get(), a.y + n, S, N, columns, a.eps, a.scale ? a.scale + n : nullptr);
        }
    }
}

template <bool TANH>
void columns_backward(const Backward& a) {
    const long S = a.outer, N = a.width, I = a.inner, K = even(S), J = I * N;
    const Buffer in = buffer(I * K), out = buffer(S * 2 * I);
    pad(a.down, I, S, 1, I, in.get());
    pad(a.gate_up, S, 2 * I, 1, S, out.get());
#pragma omp parallel num_threads(a.threads)
    {
        const Buffer panel = buffer(K * WIDTH), d_panel = buffer(2 * I * WIDTH), d = buffer(S * WIDTH);
#pragma omp for
        for (long n = 0; n < N; n += WIDTH) {
            const long columns = std::min(WIDTH, N - n);
            norm_columns_backward(a.dy + n, a.y + n, a.dh + n, S, N, columns, a.scale + n);
            pack_rows(a.dh + n, S, columns, N, panel.get());
            for (long i = 0; i < I; i += 4) {
                const long begin = i * N + n;
                const bf16* kept = a.kept + 2 * I * n + i * WIDTH;
                prefetch<4, 1>(a.d_kept + begin, N), prefetch<4, 1>(a.d_kept + begin + J, N);
                prefetch<4, 1>(a.product + begin, N);
                Tile<4> tile;
                tile.product(&in[i * K], K, panel.get(), K);
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; v++)
                    if (16 * v < columns)
#pragma GCC unroll 2
                        for (int r = 0; r < 4; r += 2) {
                            Slopes s[2];
#pragma GCC unroll 2
                            for (int odd = 0; odd < 2; odd++) {
                                const long of = begin + (r + odd) * N + 16 * v;
                                const bf16* gate = kept + (r + odd) * WIDTH + 16 * v;
                                s[odd] = slopes<TANH>(tile.sum[r + odd][v], load(gate), load(gate + I * WIDTH));
                                put(a.d_kept + of, s[odd].gate);
                                put(a.d_kept + of + J, s[odd].up);
                                put(a.product + of, s[odd].product);
                            }
                            _mm512_store_si512(&d_panel[(i + r) * WIDTH + 32 * v], zipped(s[0].gate, s[1].gate));
                            _mm512_store_si512(&d_panel[(I + i + r) * WIDTH + 32 * v], zipped(s[0].up, s[1].up));
                        }
            }
            multiply(S, 2 * I, WIDTH, out.get(), 2 * I, d_panel.get(), d.get(), WIDTH);
            for (long s = 0; s < S; s++)
                for (int v = 0; v < VECTORS; v++)
                    if (16 * v < columns)
                        put(a.dx + s * N + n + 16 * v,
                            narrow(_mm512_add_ps(packed(panel.get(), s, v), wide(load(&d[s * WIDTH + 16 * v])))));
        }
    }
}

}  // namespace

extern "C" void swiglu_forward(int columns, int tanh, long outer, long width, long inner, float eps, int threads,
                               const bf16* x, const bf16* gate_up, const bf16* down, bf16* y, bf16* kept, float* scale) {
    const auto run = columns ? (tanh ? columns_forward<true> : columns_forward<false>)
                             : (tanh ? rows_forward<true> : rows_forward<false>);
    run({outer, width, inner, eps, threads, x, gate_up, down, y, kept, scale});
}

extern "C" void swiglu_backward(int columns, int tanh, long outer, long width, long inner, int threads, const bf16* dy,
                                const bf16* y, const bf16* kept, const float* scale, const bf16* gate_up,
                                const bf16* down, bf16* dh, bf16* dx, bf16* d_kept, bf16* product) {
    const auto run = columns ? (tanh ? columns_backward<true> : columns_backward<false>)
                             : (tanh ? rows_backward<true> : rows_backward<false>);
    run({outer, width, inner, threads, dy, y, kept, scale, gate_up, down, dh, dx, d_kept, product});
}
