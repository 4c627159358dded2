// A whole supervision step of a reasoner that mixes along a puzzle's structure, forward and backward.
// One puzzle at a time: its states, sums and messages stay in L2. Called by reason/nn/fused_step.py.
//
// A block is rms(h + out(act(gate) * up)), (gate, up) = own·[h at the taps] + Σ_r W_r·(scale · Σ of the group's members):
// groups have one tap, the position itself, and relations r; a grid has the neighbours as taps and no relation. A step is a
// table of stages (block, registers that are added up, register that is written); registers are z_H, z_L and x.

#include <vector>

#include "pointwise.h"
#include "tile.h"

namespace {

constexpr int REGISTERS = 3;
constexpr long PARTS = 8;  // partial sums of weights' gradients: no digit depends on the number of threads

struct Step {
    long B, S, D, I, R, T, blocks, stages;
    float eps;
    const number* registers[REGISTERS];  // (B, S, D) each
    const uint8_t* open;               // (B, S): with relations the positions that take part, else those that are read
    const int32_t *ids, *counts;       // (R, S) the group of each position, (R) groups
    const float* scale;                // of every group, relation after relation
    const int32_t* taps;               // (T, S), -1: nothing there
    const number *weights, *out;         // (blocks, R·2I·D + 2I·T·D), (blocks, D, I)
    const int32_t* table;              // (stages, 3): block, registers as bits, register
    long own() const { return 2 * I * T * D; }
    long related() const { return 2 * I * D; }
    long block() const { return R * related() + own(); }
};

struct Kept {          // of N positions of all puzzles, stage by stage within a puzzle
    number *states;      // (N, stages, 2, D): what each stage read and wrote
    number *gates;       // (N, stages, 2I)
    float* norms;      // (N, stages)
};

template <class X>
struct Room {  // grows, never shrinks
    X* p = nullptr;
    long size = 0;
    X* of(long count) {
        if (count > size) {
            std::free(p);
            size = count + count / 4;
            p = (X*)std::aligned_alloc(64, (size * sizeof(X) + 63) / 64 * 64);
        }
        return p;
    }
    ~Room() { std::free(p); }
};

// The positions of a puzzle that take part, and what each of them hears.
struct Members {
    std::vector<int> rows;   // positions: n in company, then those alone in every group, whose mix is 0
    std::vector<int> group;  // (R, n)
    std::vector<long> first; // (R + 1) groups of each relation with a member
    std::vector<float> scale; // (G)
    std::vector<int> begin, of; // (G + 1), (R·n): the members of each group, one group after the other
    std::vector<int> tap;    // (T, n), with several taps
    long n = 0, N = 0, G = 0;
    std::vector<int> count, place, alone;

    void find(const Step& s, long b) {
        const uint8_t* open = s.open + b * s.S;
        rows.clear(), alone.clear();
        if (s.R) {
            std::vector<int> company(s.S, 0);
            for (long r = 0; r < s.R; r++) {
                const int32_t* id = s.ids + r * s.S;
                count.assign(s.counts[r], 0);
                for (long p = 0; p < s.S; p++) count[id[p]] += open[p];
                for (long p = 0; p < s.S; p++) company[p] |= count[id[p]] > 1;
            }
            for (long p = 0; p < s.S; p++)
                if (open[p]) (company[p] ? rows : alone).push_back(int(p));
        } else
            for (long p = 0; p < s.S; p++) rows.push_back(int(p));
        n = long(rows.size());
        group.resize(s.R * n), first.assign(s.R + 1, 0), scale.clear(), begin.assign(1, 0), of.resize(s.R * n);
        long next = 0, offset = 0;
        for (long r = 0; r < s.R; r++) {
            first[r] = next;
            place.assign(s.counts[r], -1);
            for (long k = 0; k < n; k++) {
                int& to = place[s.ids[r * s.S + rows[k]]];
                if (to < 0) {
                    to = int(next++);
                    scale.push_back(s.scale[offset + s.ids[r * s.S + rows[k]]]);
                    begin.push_back(0);
                }
                group[r * n + k] = to;
                begin[to + 1]++;
            }
            for (long g = first[r]; g < next; g++) begin[g + 1] += begin[g];
            place.assign(begin.begin() + first[r], begin.begin() + next);
            for (long k = 0; k < n; k++) of[place[group[r * n + k] - first[r]]++] = int(k);
            offset += s.counts[r];
        }
        first[s.R] = G = next;
        tap.resize(s.T * n);
        for (long t = 0; s.T > 1 && t < s.T; t++)
            for (long k = 0; k < n; k++) {
                const int from = s.taps[t * s.S + k];
                tap[t * n + k] = from >= 0 && open[from] ? from : -1;
            }
        rows.insert(rows.end(), alone.begin(), alone.end());
        N = long(rows.size());
    }
};

struct Work {
    Members members;
    Room<float> messages, dh, grads[REGISTERS];
    Room<number> states[REGISTERS], h, around, sums, product, t, d_gates, d_messages, moved, sent, left, right;
};

INLINE void add(float* to, F x) { put(to, at(to) + x); }

// What the own product reads, (n, T·D): h itself, or the rows of h at the taps side by side.
const number* heard(const Step& s, Work& w, const number* h) {
    if (s.T == 1) return h;
    const Members& m = w.members;
    number* to = w.around.of((m.n + ROWS) * s.T * s.D);
    for (long k = 0; k < m.n; k++)
        for (long t = 0; t < s.T; t++) {
            const int from = m.tap[t * m.n + k];
            number* row = to + (k * s.T + t) * s.D;
            if (from < 0) std::memset(row, 0, s.D * sizeof(number));
            else std::memcpy(row, h + from * s.D, s.D * sizeof(number));
        }
    return to;
}

// to (G, width): scale · Σ of the members' rows of x (n, width), width a multiple of LANES; without `scale` the sums.
void pooled(const Members& m, const number* x, long width, const float* scale, number* to) {
    for (long g = 0; g < m.G; g++)
        for (long d = 0; d < width; d += LANES) {
            F sum{};
            for (int i = m.begin[g]; i < m.begin[g + 1]; i++) sum += at(x + m.of[i] * width + d);
            put(to + g * width + d, scale ? scale[g] * sum : sum);
        }
}

const number* sums_of(const Step& s, Work& w, const number* h) {
    number* sums = w.sums.of((w.members.G + ROWS) * s.D);
    pooled(w.members, h, s.D, w.members.scale.data(), sums);
    return sums;
}

// f (N, D) = rms(h + mix(h)) of one block, whose weights are packed in `in` and `last`.
template <bool TANH>
void block(const Step& s, Work& w, const number* h, const number* in, const number* last, number* f, number* gates, float* norms) {
    const Members& m = w.members;
    const long D = s.D, I = s.I, K = s.T * D;
    const number *own = heard(s, w, h), *sums = sums_of(s, w, h);
    const number* in_own = in + s.R * s.related();
    float* messages = w.messages.of((m.G + ROWS) * WIDTH);
    number* product = w.product.of((m.n + ROWS) * I);
    for (long i = 0; i < I; i += HALF) {
        for (long r = 0; r < s.R; r++)
            in_tiles(m.first[r + 1] - m.first[r], [&](auto M, long row) {
                const long g = m.first[r] + row;
                Tile<M> tile;
                tile.product(sums + g * D, D, in + r * s.related() + 2 * i * D, D);
#pragma GCC unroll 8
                for (int q = 0; q < M; q++)
                    for (int v = 0; v < VECTORS; v++) put(messages + (g + q) * WIDTH + LANES * v, tile.sum[q][v]);
            });
        in_tiles(m.n, [&](auto M, long row) {
            Tile<M> tile;
            tile.product(own + row * K, K, in_own + 2 * i * K, K);
#pragma GCC unroll 8
            for (int q = 0; q < M; q++)
                for (long r = 0; r < s.R; r++) {
                    const float* from = messages + m.group[r * m.n + row + q] * WIDTH;
                    for (int v = 0; v < VECTORS; v++) tile.sum[q][v] += at(from + LANES * v);
                }
#pragma GCC unroll 8
            for (int q = 0; q < M; q++)
                put_gated<TANH>(tile.sum[q], product + (row + q) * I + i, gates ? gates + (row + q) * 2 * I + i : nullptr, I);
        });
    }
    multiply(m.n, I, D, product, I, last, f, D);
    std::memset(f + m.n * D, 0, (m.N - m.n) * D * sizeof(number));
    for (long k = 0; k < m.N; k++) {
        const float norm = norm_row(h + k * D, f + k * D, D, s.eps);
        if (norms) norms[k] = norm;
    }
}

// The rows of `registers` that a stage adds up.
INLINE void add_up(const Step& s, long N, int bits, number* const* registers, number* h) {
    const number* from[REGISTERS];
    int count = 0;
    for (int i = 0; i < REGISTERS; i++)
        if (bits >> i & 1) from[count++] = registers[i];
    for (long i = 0; i < N * s.D; i += LANES) {
        F sum = at(from[0] + i);
        for (int c = 1; c < count; c++) sum += at(from[c] + i);
        put(h + i, sum);
    }
}

template <bool TANH>
void forward(const Step& s, int threads, const long* base, number* const* results, const Kept* kept) {
    const long D = s.D, I = s.I, K = s.T * D, LAST = panels(D) * WIDTH * I;
    const Buffer in = buffer(s.blocks * s.block()), last = buffer(s.blocks * LAST);
#pragma omp parallel num_threads(threads)
    {
        Work w;
#pragma omp for collapse(2)
        for (long block = 0; block < s.blocks; block++)
            for (long i = 0; i < I; i += HALF) {
                for (long r = 0; r <= s.R; r++) {
                    const long k = r < s.R ? D : K, first = block * s.block() + r * s.related();
                    const number* from = s.weights + first;
                    pack_columns(from + i * k, k, HALF, k, &in[first + 2 * i * k]);
                    pack_columns(from + (I + i) * k, k, HALF, k, &in[first + 2 * i * k], HALF);
                }
            }
#pragma omp for
        for (long block = 0; block < s.blocks; block++)
            for (long n = 0; n < D; n += WIDTH)
                pack_columns(s.out + (block * D + n) * I, I, std::min(WIDTH, D - n), I, &last[block * LAST + n * I]);
#pragma omp for schedule(dynamic)
        for (long b = 0; b < s.B; b++) {
            w.members.find(s, b);
            const Members& m = w.members;
            number* registers[REGISTERS];
            for (int i = 0; i < REGISTERS; i++) {
                registers[i] = w.states[i].of((m.N + ROWS) * D);
                for (long k = 0; s.registers[i] && k < m.N; k++)
                    std::memcpy(registers[i] + k * D, s.registers[i] + (b * s.S + m.rows[k]) * D, D * sizeof(number));
            }
            for (long stage = 0; stage < s.stages; stage++) {
                const int32_t* entry = s.table + 3 * stage;
                const long first = kept ? base[b] * s.stages + stage * m.N : 0;
                number* h = kept ? kept->states + first * 2 * D : w.h.of((m.N + ROWS) * D);
                number* f = kept ? h + m.N * D : registers[entry[2]];
                add_up(s, m.N, entry[1], registers, h);
                block<TANH>(s, w, h, &in[entry[0] * s.block()], &last[entry[0] * LAST], f,
                            kept ? kept->gates + first * 2 * I : nullptr, kept ? kept->norms + first : nullptr);
                if (kept) std::memcpy(registers[entry[2]], f, m.N * D * sizeof(number));
            }
            for (int i = 0; i < 2; i++)
                if (results[i]) {
                    number* to = results[i] + b * s.S * D;
                    if (m.N < s.S) std::memset(to, 0, s.S * D * sizeof(number));
                    for (long k = 0; k < m.N; k++) std::memcpy(to + m.rows[k] * D, registers[i] + k * D, D * sizeof(number));
                }
        }
        _mm_sfence();
    }
}

// sum (rows, N) += aᵀ · x of a (K, rows), x (K, N), rows of either `a_stride` and `x_stride` apart.
void outer(long rows, long N, long K, const number* a, long a_stride, const number* x, long x_stride, Work& w, float* sum, long stride) {
    number* right = w.right.of(whole(K) * WIDTH);
    number* left = w.left.of(whole(K) * panels(rows) * WIDTH);
    for (long r = 0; r < rows; r += WIDTH) pack_rows(a + r, K, std::min(WIDTH, rows - r), a_stride, left + r * whole(K));
    for (long n = 0; n < N; n += WIDTH) {
        const long columns = std::min(WIDTH, N - n);
        pack_rows(x + n, K, columns, x_stride, right);
        for (long r = 0; r < rows; r += WIDTH)
            in_tiles(std::min(WIDTH, rows - r), [&](auto M, long row) {
                Tile<M> tile;
                tile.product(left + r * whole(K) + STEP * row, STEP, right, whole(K), WIDTH);
#pragma GCC unroll 8
                for (int q = 0; q < M; q++)
                    for (int v = 0; v < VECTORS; v++)
                        if (LANES * v < columns) add(sum + (r + row + q) * stride + n + LANES * v, tile.sum[q][v]);
            });
    }
}

// The gradients of one block: `dh` (N, D) in place of what was there, weights' added to `mine`.
template <bool TANH>
void block_back(const Step& s, Work& w, const float* dy, const number* h, const number* y, const number* gates, const float* norms,
                const number* in, const number* back, float* dh, float* mine, float* mine_out) {
    const Members& m = w.members;
    const long D = s.D, I = s.I, K = s.T * D, n = m.n, G = m.G;
    const number *own = heard(s, w, h), *sums = sums_of(s, w, h);
    number *t = w.t.of((m.N + ROWS) * D), *d = w.d_gates.of((n + ROWS) * 2 * I), *product = w.product.of((n + ROWS) * I);
    number* d_messages = w.d_messages.of((G + ROWS) * 2 * I);
    for (long k = 0; k < m.N; k++) norm_row_backward(dy + k * D, y + k * D, t + k * D, D, norms[k]);
    for (long i = 0; i < I; i += WIDTH) {
        const long columns = std::min(WIDTH, I - i);
        in_tiles(n, [&](auto M, long row) {
            const long begin = row * 2 * I + i;
            prefetch<M, 0>(gates + begin, 2 * I), prefetch<M, 0>(gates + begin + I, 2 * I);
            Tile<M> tile;
            tile.product(t + row * D, D, in + i * D, D);
#pragma GCC unroll 8
            for (int q = 0; q < M; q++)
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; v++) {
                    if (LANES * v >= columns) break;
                    const long of = begin + q * 2 * I + LANES * v;
                    const Slopes x = slopes<TANH>(tile.sum[q][v], at(gates + of), at(gates + of + I));
                    put(d + of, x.gate);
                    put(d + of + I, x.up);
                    put(product + (row + q) * I + i + LANES * v, x.product);
                }
        });
    }
    pooled(m, d, 2 * I, nullptr, d_messages);
    number* moved = w.moved.of((n + ROWS) * K);
    const long RELATED = panels(D) * WIDTH * 2 * I;
    multiply(n, 2 * I, K, d, 2 * I, back + s.R * RELATED, moved, K);
    number* sent = w.sent.of((G + ROWS) * D);
    for (long r = 0; r < s.R; r++)
        multiply(m.first[r + 1] - m.first[r], 2 * I, D, d_messages + m.first[r] * 2 * I, 2 * I, back + r * RELATED, sent + m.first[r] * D, D);
    for (long k = 0; k < m.N; k++)
        for (long v = 0; v < D; v += LANES) {
            F sum = at(t + k * D + v);
            if (s.T == 1 && k < n) sum += at(moved + k * D + v);
            for (long r = 0; r < s.R && k < n; r++) {
                const long g = m.group[r * n + k];
                sum += m.scale[g] * at(sent + g * D + v);
            }
            put(dh + k * D + v, sum);
        }
    for (long k = 0; s.T > 1 && k < n; k++)
        for (long tap = 0; tap < s.T; tap++)
            for (long v = 0, to = m.tap[tap * n + k]; to >= 0 && v < D; v += LANES)
                add(dh + to * D + v, at(moved + (k * s.T + tap) * D + v));
    outer(K, 2 * I, n, own, K, d, 2 * I, w, mine + s.R * s.related(), 2 * I);
    outer(D, I, n, t, D, product, I, w, mine_out, I);
    for (long r = 0; r < s.R; r++)
        outer(D, 2 * I, m.first[r + 1] - m.first[r], sums + m.first[r] * D, D, d_messages + m.first[r] * 2 * I, 2 * I, w,
              mine + r * s.related(), 2 * I);
}

template <bool TANH>
void backward(const Step& s, int threads, const long* base, const number* const* d_results, const Kept& kept, number* const* d_registers,
              float* d_weights, float* d_out) {
    const long D = s.D, I = s.I, K = s.T * D, BACK = (s.R * panels(D) + panels(K)) * WIDTH * 2 * I;
    const long W = s.blocks * s.block(), O = s.blocks * D * I, parts = std::min(PARTS, s.B);
    const long IN = panels(I) * WIDTH * D;
    const Buffer in = buffer(s.blocks * IN), back = buffer(s.blocks * BACK);
    Room<float> room;
    float* partial = room.of(parts * (W + O));
#pragma omp parallel num_threads(threads)
    {
        Work w;
#pragma omp for
        for (long block = 0; block < s.blocks; block++) {
            for (long i = 0; i < I; i += WIDTH) pack_rows(s.out + block * D * I + i, D, std::min(WIDTH, I - i), I, &in[block * IN + i * D]);
            for (long r = 0; r <= s.R; r++) {
                const long k = r < s.R ? D : K;
                for (long n = 0; n < k; n += WIDTH)
                    pack_rows(s.weights + block * s.block() + r * s.related() + n, 2 * I, std::min(WIDTH, k - n), k,
                              &back[block * BACK + (r * panels(D) * WIDTH + n) * 2 * I]);
            }
        }
#pragma omp for schedule(dynamic)
        for (long part = 0; part < parts; part++) {
            float* mine = partial + part * (W + O);
            std::memset(mine, 0, (W + O) * 4);
            for (long b = part * s.B / parts; b < (part + 1) * s.B / parts; b++) {
                w.members.find(s, b);
                const Members& m = w.members;
                float* grads[REGISTERS];
                for (int i = 0; i < REGISTERS; i++) {
                    grads[i] = w.grads[i].of((m.N + ROWS) * D);
                    std::memset(grads[i], 0, m.N * D * 4);
                    for (long k = 0; i < 2 && d_results[i] && k < m.N; k++)
                        for (long v = 0; v < D; v += LANES)
                            put(grads[i] + k * D + v, at(d_results[i] + (b * s.S + m.rows[k]) * D + v));
                }
                float* dh = w.dh.of((m.N + ROWS) * D);
                for (long stage = s.stages - 1; stage >= 0; stage--) {
                    const int32_t* entry = s.table + 3 * stage;
                    const long first = base[b] * s.stages + stage * m.N;
                    const number* h = kept.states + first * 2 * D;
                    block_back<TANH>(s, w, grads[entry[2]], h, h + m.N * D, kept.gates + first * 2 * I, kept.norms + first,
                                     &in[entry[0] * IN], &back[entry[0] * BACK], dh, mine + entry[0] * s.block(),
                                     mine + W + entry[0] * D * I);
                    std::memset(grads[entry[2]], 0, m.N * D * 4);
                    for (int i = 0; i < REGISTERS; i++)
                        for (long v = 0; (entry[1] >> i & 1) && v < m.N * D; v += LANES) add(grads[i] + v, at(dh + v));
                }
                for (int i = 0; i < REGISTERS; i++)
                    if (d_registers[i]) {
                        number* to = d_registers[i] + b * s.S * D;
                        if (m.N < s.S) std::memset(to, 0, s.S * D * sizeof(number));
                        for (long k = 0; k < m.N; k++)
                            for (long v = 0; v < D; v += LANES) put(to + m.rows[k] * D + v, at(grads[i] + k * D + v));
                    }
            }
        }
#pragma omp for
        for (long i = 0; i < W + O; i += LANES) {
            F sum = at(partial + i);
            for (long part = 1; part < parts; part++) sum += at(partial + part * (W + O) + i);
            put(i < W ? d_weights + i : d_out + (i - W), sum);
        }
    }
}

Step read(const long* n, float eps, const void* const* in) {
    Step s{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], eps};
    for (int i = 0; i < REGISTERS; i++) s.registers[i] = (const number*)in[i];
    s.open = (const uint8_t*)in[3], s.ids = (const int32_t*)in[4], s.counts = (const int32_t*)in[5];
    s.scale = (const float*)in[6], s.taps = (const int32_t*)in[7], s.weights = (const number*)in[8];
    s.out = (const number*)in[9], s.table = (const int32_t*)in[10];
    return s;
}

}  // namespace

extern "C" void step_forward(const long* n, float eps, int tanh, int threads, const void* const* in, const long* base, number* z_h, number* z_l,
                             number* states, number* gates, float* norms) {
    const Step s = read(n, eps, in);
    number* const results[2] = {z_h, z_l};
    const Kept kept{states, gates, norms};
    (tanh ? forward<true> : forward<false>)(s, threads, base, results, states ? &kept : nullptr);
}

extern "C" void step_backward(const long* n, float eps, int tanh, int threads, const void* const* in, const long* base, const number* dz_h,
                              const number* dz_l, number* states, number* gates, float* norms, number* d_h, number* d_l, number* d_x,
                              float* d_weights, float* d_out) {
    const Step s = read(n, eps, in);
    const number* const d_results[2] = {dz_h, dz_l};
    number* const d_registers[3] = {d_h, d_l, d_x};
    (tanh ? backward<true> : backward<false>)(s, threads, base, d_results, {states, gates, norms}, d_registers, d_weights, d_out);
}
