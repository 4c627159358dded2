// Products of bfloat16 matrices by tiles, on CPUs with AVX-512 BF16.
//
// A product is a sum of tiles of up to 6 rows of A by 64 columns of B, which stay in registers. A is read by pairs of
// neighbours in a row; B is packed in panels (K/2, 64, 2), the pairs of 64 columns beside each other, as the instruction
// wants them. Sums are float32.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>

#define INLINE inline __attribute__((always_inline))

namespace {

using bf16 = uint16_t;
constexpr long WIDTH = 64, VECTORS = WIDTH / 16, ROWS = 6;  // of a tile

struct Free {
    void operator()(bf16* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<bf16[], Free>;

inline Buffer buffer(long count) {
    const size_t bytes = (size_t(count) * sizeof(bf16) + 63) / 64 * 64;
    return Buffer(static_cast<bf16*>(std::aligned_alloc(64, bytes)));
}

INLINE __m512 wide(__m256i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }
INLINE __m256i narrow(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }
INLINE __m256i load(const bf16* x) { return _mm256_loadu_si256((const __m256i*)x); }
INLINE void put(bf16* x, __m256i value) { _mm256_storeu_si256((__m256i*)x, value); }
// 32 numbers to an aligned line that is not read soon, past the caches.
INLINE void stream(bf16* x, __m512 low, __m512 high) { _mm512_stream_si512((__m512i*)x, (__m512i)_mm512_cvtne2ps_pbh(high, low)); }
INLINE __m512 constant(float x) { return _mm512_set1_ps(x); }
INLINE __m512i zipped(__m256i even, __m256i odd) {
    return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

// Asks for the lines of a tile of bf16 that are read, or written, after its product, which takes longer than memory.
template <int M, int WRITTEN>
INLINE void prefetch(const bf16* x, long stride) {
    for (int m = 0; m < M; m++)
        for (int line = 0; line < 2; line++) __builtin_prefetch(x + m * stride + 32 * line, WRITTEN, 2);
}

template <int M, int V = VECTORS>
struct Tile {
    __m512 sum[M][V];

    INLINE void clear() {
        for (auto& row : sum)
            for (auto& each : row) each = _mm512_setzero_ps();
    }

    // Of M rows at `a`, `stride` numbers apart, and a panel of B, over K numbers (even).
    INLINE void product(const bf16* a, long stride, const bf16* panel, long K) {
        clear();
        add(a, stride, panel, K);
    }

    // The same, on top of what is there.
    INLINE void add(const bf16* a, long stride, const bf16* panel, long K) {
        for (long k = 0; k < K; k += 2, panel += 2 * WIDTH) {
            __m512bh b[V];
            for (int v = 0; v < V; v++) b[v] = (__m512bh)_mm512_load_si512(panel + 32 * v);
#pragma GCC unroll 12
            for (int m = 0; m < M; m++) {
                int32_t pair;
                std::memcpy(&pair, a + m * stride + k, sizeof pair);
                const __m512bh both = (__m512bh)_mm512_set1_epi32(pair);
                for (int v = 0; v < V; v++) sum[m][v] = _mm512_dpbf16_ps(sum[m][v], both, b[v]);
            }
        }
    }

    INLINE void store(bf16* y, long stride, long columns) const {
#pragma GCC unroll 12
        for (int m = 0; m < M; m++)
#pragma GCC unroll 4
            for (int v = 0; v < V; v++)
                if (16 * v < columns) put(y + m * stride + 16 * v, narrow(sum[m][v]));
    }
};

// Calls f with the rows of every tile of `rows`, as a constant, and its first row.
template <class F>
INLINE void in_tiles(long rows, F f) {
    long row = 0;
    for (; row + ROWS <= rows; row += ROWS) f(std::integral_constant<int, 6>(), row);
    switch (rows - row) {
        case 5: return f(std::integral_constant<int, 5>(), row);
        case 4: return f(std::integral_constant<int, 4>(), row);
        case 3: return f(std::integral_constant<int, 3>(), row);
        case 2: return f(std::integral_constant<int, 2>(), row);
        case 1: return f(std::integral_constant<int, 1>(), row);
    }
}

inline long even(long k) { return k + k % 2; }
inline long panels(long columns) { return (columns + WIDTH - 1) / WIDTH; }

// y (rows, N) = A (rows, K) · B, in panels.
inline void multiply(long rows, long K, long N, const bf16* a, long stride, const bf16* packed, bf16* y, long y_stride) {
    const auto product = [&](auto tile, long row, long n) {
        tile.product(a + row * stride, stride, packed + n * K, K);
        tile.store(y + row * y_stride + n, y_stride, N - n);
    };
    for (long n = 0; n < N; n += WIDTH)
        if (N - n > WIDTH / 2) in_tiles(rows, [&](auto m, long row) { product(Tile<m>(), row, n); });
        else {  // half as wide, twice as high: as many sums
            long row = 0;
            for (; row + 2 * ROWS <= rows; row += 2 * ROWS) product(Tile<2 * ROWS, VECTORS / 2>(), row, n);
            in_tiles(rows - row, [&](auto m, long rest) { product(Tile<m, VECTORS / 2>(), row + rest, n); });
        }
}

// The columns of a panel from `at` on, whose pairs (k, k + 1) are neighbours at w[n·across + k].
inline void pack_pairs(const bf16* w, long K, long columns, long across, bf16* panel, long at = 0) {
    for (long n = 0; n < columns; n++)
        for (long k = 0; k < K; k += 2) std::memcpy(panel + k * WIDTH + 2 * (at + n), w + n * across + k, 4);
}

// A panel of the matrix whose row k lies at w[k·down]; columns come in multiples of 16, what lies beyond its edge is 0.
inline void pack_rows(const bf16* w, long K, long columns, long down, bf16* panel) {
    const __m256i none = _mm256_setzero_si256();
    for (long k = 0; k < K; k += 2)
        for (long n = 0; n < WIDTH; n += 16, panel += 32) {
            const __m256i first = n < columns ? load(w + k * down + n) : none;
            const __m256i second = n < columns && k + 1 < K ? load(w + (k + 1) * down + n) : none;
            _mm512_store_si512(panel, zipped(first, second));
        }
}

// Row k of a panel, 16 columns from 16·v on.
INLINE __m512 packed(const bf16* panel, long k, int v) {
    const __m512i pairs = _mm512_load_si512(panel + k / 2 * 2 * WIDTH + 32 * v);
    return _mm512_castsi512_ps(k % 2 ? _mm512_and_si512(pairs, _mm512_set1_epi32(~0xffff)) : _mm512_slli_epi32(pairs, 16));
}

// The matrix (rows, K) of w[row·down + k·across], K made even by a 0.
inline void pad(const bf16* w, long rows, long K, long down, long across, bf16* out) {
    for (long row = 0; row < rows; row++)
        for (long k = 0; k < even(K); k++) *out++ = k < K ? w[row * down + k * across] : 0;
}

}  // namespace
