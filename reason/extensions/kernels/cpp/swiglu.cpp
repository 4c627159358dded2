// rms(x + down(act(gate) * up)) and its gradients: the gate is computed in the registers that hold
// its products, the norm while its rows are in cache. Called by reason/nn/fused_swiglu.py.
//
// "Rows" mixes the columns D of x (R, D): gate_up (2I, D), down (D, I). "Columns" mixes the rows S of x (S, N), N = B·D:
// gate_up (2I, S), down (S, I). I is a multiple of 64, D and N of 16.

#include "pointwise.h"
#include "tile.h"

namespace {

constexpr long BLOCK = 192 / sizeof(number);  // rows that a thread takes at a time: their gates stay in L2

struct Forward {
    long outer, width, inner;  // R, D, I or S, N, I
    float eps;
    int threads;
    const number *x, *gate_up, *down;
    number *y, *kept;  // kept: gate and up, (R, 2I) or by panels (N/WIDTH, 2I, WIDTH)
    float* scale;    // of the norm, (R) or (N); neither of the two where nothing is kept
};

struct Backward {
    long outer, width, inner;
    int threads;
    const number *dy, *y, *kept;
    const float* scale;
    const number *gate_up, *down;
    number *dh, *dx, *d_kept, *product;  // gradients of x + f(x), of x, of `kept`; act(gate) · up
};

template <bool TANH>
void rows_forward(const Forward& a) {
    const long R = a.outer, D = a.width, I = a.inner;
    const Buffer in = buffer(2 * I * D), out = buffer(panels(D) * WIDTH * I);
#pragma omp parallel num_threads(a.threads)
    {
        const Buffer product = buffer(BLOCK * I);
#pragma omp for
        for (long i = 0; i < I; i += HALF) {
            pack_columns(a.gate_up + i * D, D, HALF, D, &in[2 * i * D]);
            pack_columns(a.gate_up + (I + i) * D, D, HALF, D, &in[2 * i * D], HALF);
        }
#pragma omp for
        for (long n = 0; n < D; n += WIDTH) pack_columns(a.down + n * I, I, std::min(WIDTH, D - n), I, &out[n * I]);
#pragma omp for
        for (long first = 0; first < R; first += BLOCK) {
            const long rows = std::min(BLOCK, R - first);
            const number* x = a.x + first * D;
            number *y = a.y + first * D, *kept = a.kept ? a.kept + first * 2 * I : nullptr;
            for (long i = 0; i < I; i += HALF)
                in_tiles(rows, [&](auto m, long row) {
                    Tile<m> tile;
                    tile.product(x + row * D, D, &in[2 * i * D], D);
#pragma GCC unroll 8
                    for (int r = 0; r < m; r++)
                        put_gated<TANH>(tile.sum[r], &product[(row + r) * I + i], kept ? kept + (row + r) * 2 * I + i : nullptr, I);
                });
            multiply(rows, I, D, product.get(), I, out.get(), y, D);
            for (long row = 0; row < rows; row++) {
                const float scale = norm_row(x + row * D, y + row * D, D, a.eps);
                if (a.scale) a.scale[first + row] = scale;
            }
        }
        _mm_sfence();  // what was streamed is there for every thread
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
            const number* kept = a.kept + first * 2 * I;
            number *dh = a.dh + first * D, *dx = a.dx + first * D, *d_kept = a.d_kept + first * 2 * I;
            number* product = a.product + first * I;
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
                            const long of = begin + r * 2 * I + LANES * v;
                            const Slopes s = slopes<TANH>(tile.sum[r][v], at(kept + of), at(kept + of + I));
                            put(d_kept + of, s.gate);
                            put(d_kept + of + I, s.up);
                            put(product + (row + r) * I + i + LANES * v, s.product);
                        }
                });
            multiply(rows, 2 * I, D, d_kept, 2 * I, out.get(), dx, D);
            for (long n = 0; n < rows * D; n += LANES) put(dx + n, at(dx + n) + at(dh + n));
        }
    }
}

template <bool TANH>
void columns_forward(const Forward& a) {
    const long S = a.outer, N = a.width, I = a.inner, K = whole(S);
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
                    pack(&product[0], i, v, gated<TANH>(tile.sum[0][v], tile.sum[2][v]), gated<TANH>(tile.sum[1][v], tile.sum[3][v]));
                if (a.kept)
#pragma GCC unroll 4
                    for (int r = 0; r < 4; r++) {
                        number* to = a.kept + 2 * I * n + (r / 2 * I + i + r % 2) * WIDTH;
                        stream(to, tile.sum[r]);
                        stream(to + HALF, tile.sum[r] + VECTORS / 2);
                    }
            }
            multiply(S, I, WIDTH, a.down, I, product.get(), f.get(), WIDTH);
            norm_columns(panel.get(), f.get(), a.y + n, S, N, columns, a.eps, a.scale ? a.scale + n : nullptr);
        }
        _mm_sfence();
    }
}

template <bool TANH>
void columns_backward(const Backward& a) {
    const long S = a.outer, N = a.width, I = a.inner, K = whole(S), J = I * N;
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
                const number* kept = a.kept + 2 * I * n + i * WIDTH;
                prefetch<4, 1>(a.d_kept + begin, N), prefetch<4, 1>(a.d_kept + begin + J, N);
                prefetch<4, 1>(a.product + begin, N);
                Tile<4> tile;
                tile.product(&in[i * K], K, panel.get(), K);
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; v++)
                    if (LANES * v < columns)
#pragma GCC unroll 2
                        for (int r = 0; r < 4; r += 2) {
                            Slopes s[2];
#pragma GCC unroll 2
                            for (int odd = 0; odd < 2; odd++) {
                                const long of = begin + (r + odd) * N + LANES * v;
                                const number* gate = kept + (r + odd) * WIDTH + LANES * v;
                                s[odd] = slopes<TANH>(tile.sum[r + odd][v], at(gate), at(gate + I * WIDTH));
                                put(a.d_kept + of, s[odd].gate);
                                put(a.d_kept + of + J, s[odd].up);
                                put(a.product + of, s[odd].product);
                            }
                            pack(&d_panel[0], i + r, v, s[0].gate, s[1].gate);
                            pack(&d_panel[0], I + i + r, v, s[0].up, s[1].up);
                        }
            }
            multiply(S, 2 * I, WIDTH, out.get(), 2 * I, d_panel.get(), d.get(), WIDTH);
            for (long s = 0; s < S; s++)
                for (int v = 0; v < VECTORS; v++)
                    if (LANES * v < columns)
                        put(a.dx + s * N + n + LANES * v, row_of(panel.get(), s, v) + at(&d[s * WIDTH + LANES * v]));
        }
    }
}

}  // namespace

extern "C" void swiglu_forward(int columns, int tanh, long outer, long width, long inner, float eps, int threads,
                               const number* x, const number* gate_up, const number* down, number* y, number* kept, float* scale) {
    const auto run = columns ? (tanh ? columns_forward<true> : columns_forward<false>)
                             : (tanh ? rows_forward<true> : rows_forward<false>);
    run({outer, width, inner, eps, threads, x, gate_up, down, y, kept, scale});
}

extern "C" void swiglu_backward(int columns, int tanh, long outer, long width, long inner, int threads, const number* dy,
                                const number* y, const number* kept, const float* scale, const number* gate_up,
                                const number* down, number* dh, number* dx, number* d_kept, number* product) {
    const auto run = columns ? (tanh ? columns_backward<true> : columns_backward<false>)
                             : (tanh ? rows_backward<true> : rows_backward<false>);
    run({outer, width, inner, threads, dy, y, kept, scale, gate_up, down, dh, dx, d_kept, product});
}
