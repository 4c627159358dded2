// Products of matrices by tiles: up to 6 rows of A by a panel of B, whose sums stay in registers.
#pragma once

#include "numbers.h"

namespace {

template <int M>
struct Tile {
    F sum[M][VECTORS];

    // Of M rows at `a`, `stride` numbers apart, and a panel of B, over K numbers (a multiple of STEP) `along` apart.
    INLINE void product(const number* a, long stride, const number* panel, long K, long along = 1) {
        clear();
        add(a, stride, panel, K, along);
    }

    INLINE void clear() {
        for (auto& row : sum)
            for (auto& each : row) each = F{};
    }

    INLINE void add(const number* a, long stride, const number* panel, long K, long along = 1) {
        for (long k = 0; k < K; k += STEP, panel += STEP * WIDTH) {
            Packed b[VECTORS];
            for (int v = 0; v < VECTORS; v++) b[v] = packed(panel + STEP * LANES * v);
#pragma GCC unroll 12
            for (int m = 0; m < M; m++) {
                const Packed row = spread(a + m * stride + k * along);
                for (int v = 0; v < VECTORS; v++) sum[m][v] = dot(sum[m][v], row, b[v]);
            }
        }
    }

    template <class X>
    INLINE void store(X* y, long stride, long columns) const {
#pragma GCC unroll 12
        for (int m = 0; m < M; m++)
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++)
                if (LANES * v < columns) put(y + m * stride + LANES * v, sum[m][v]);
    }
};

// Calls f with the rows of every tile of `rows`, as a constant, and its first row.
template <class Do>
INLINE void in_tiles(long rows, Do f) {
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

inline long whole(long k) { return (k + STEP - 1) / STEP * STEP; }
inline long panels(long columns) { return (columns + WIDTH - 1) / WIDTH; }

struct All {
    bool operator()(long, int, long) const { return true; }
};

// y (rows, N) = A (rows, K) · B, in panels; only tiles that are `wanted`, of a row, a number of rows and a column.
template <class Wanted = All>
inline void multiply(long rows, long K, long N, const number* a, long stride, const number* b, number* y, long y_stride, Wanted wanted = {}) {
    for (long n = 0; n < N; n += WIDTH)
        in_tiles(rows, [&](auto M, long row) {
            if (!wanted(row, M, n)) return;
            Tile<M> tile;
            tile.product(a + row * stride, stride, b + n * K, K);
            tile.store(y + row * y_stride + n, y_stride, N - n);
        });
}

// The columns of a panel from `first` on, whose numbers k, k + 1, … are neighbours at w[n·across + k].
inline void pack_columns(const number* w, long K, long columns, long across, number* panel, long first = 0) {
    for (long n = 0; n < columns; n++)
        for (long k = 0; k < K; k += STEP)
            std::memcpy(panel + k * WIDTH + STEP * (first + n), w + n * across + k, STEP * sizeof(number));
}

// A panel of the matrix whose row k lies at w[k·down]; columns come in multiples of LANES, what lies beyond its edge is 0.
inline void pack_rows(const number* w, long K, long columns, long down, number* panel) {
    for (long k = 0; k < K; k += STEP)
        for (long n = 0; n < WIDTH; n += LANES, panel += STEP * LANES) {
            const number* row = w + k * down + n;
            pack(panel, n < columns ? row : nullptr, n < columns && k + 1 < K ? row + down : nullptr);
        }
}

}  // namespace
