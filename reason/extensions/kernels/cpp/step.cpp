// A whole supervision step of a reasoner that mixes along a puzzle's structure, forward and backward.
// One puzzle at a time: its states, sums and messages stay in L2. Called by reason/extensions/kernels/step.py.
//
// A block is rms(h + out(act(gate) * up)), (gate, up) = own·[h at the taps] + Σ_r W_r·(scale · Σ of the group's members).
// In place of the sums attention within the groups may come before it (attention.h): h is then its result.
// Groups have one tap, the position itself, and relations r; a grid has the neighbours as taps and no relation. A step is
// a table of stages (block, registers that are added up, register that is written); registers are z_H, z_L and x.

#include <cmath>
#include <vector>

#include "pointwise.h"

namespace {

constexpr int REGISTERS = 3;
constexpr long PARTS = 8;  // partial sums of weights' gradients: no digit depends on the number of threads

struct Step {
    long B, S, D, I, R, T, blocks, stages, idle, head;  // head: the width of attention within groups, 0: sums
    float eps;
    const number* registers[REGISTERS];  // (B, S, D) each
    const uint8_t* open;               // (B, S): the positions that are read; where `idle`, the others take no part
    const int32_t *ids, *counts;       // (R, S) the group of each position, (R) groups
    const float* scale;                // of every group, relation after relation
    const int32_t* taps;               // (T, S), -1: nothing there
    const number *weights, *out;         // (blocks, attention's 4·R·head·D or R·2I·D, then 2I·T·D), (blocks, D, I)
    const int32_t* table;              // (stages, 3): block, registers as bits, register
    long own() const { return 2 * I * T * D; }
    long related() const { return 2 * I * D; }
    long middle() const { return D + 3 * R * head; }
    long sums() const { return head ? 0 : R; }  // the relations whose sums the gates read
    long attention() const { return 4 * R * head * D; }
    long block() const { return attention() + sums() * related() + own(); }
};

struct Kept {          // of N positions of all puzzles, stage by stage within a puzzle
    number *states;      // (N, stages, 2, D): what each stage read and wrote
    number *gates;       // (N, stages, 2I)
    float* norms;      // (stages, N), with attention (stages, 2, N): those of u first
    number* middle;    // (N, stages, D + 3·R·head), with attention: u, and qkv
};

template <class X>
struct Room {  // grows, never shrinks
    X* p = nullptr;
    long size = 0;
    explicit Room(long count = 0) { of(count); }
    X& operator[](long i) { return p[i]; }
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

// Lists of numbers, one after the other.
struct Lists {
    std::vector<int> begin, of, next;
    std::vector<std::pair<int, int>> pairs;  // list and number, put into `of` by `close`
    void close(long count) {
        begin.assign(count + 1, 0), of.resize(pairs.size());
        for (const auto& pair : pairs) begin[pair.first + 1]++;
        for (long i = 0; i < count; i++) begin[i + 1] += begin[i];
        next.assign(begin.begin(), begin.end());
        for (const auto& pair : pairs) of[next[pair.first]++] = pair.second;
        pairs.clear();
    }
};

// The groups of a relation with a member in a puzzle.
struct Company {
    long rows, first;          // its messages begin at `first`
    std::vector<float> scale;  // (rows): 1/√n of n cells
    Lists members;             // (rows): who is summed up there, and hears the answer
};

// The positions of a puzzle that take part, and what each of them hears.
struct Members {
    std::vector<int> rows;   // positions: n in company, then those alone in every group, whose mix is 0
    std::vector<int> tap;    // (T, n), with several taps: the row of each neighbour, -1: none
    std::vector<uint64_t> mask;  // (n): bit t % 64 where there is one
    std::vector<Company> companies;  // of every relation
    Lists heard;                     // (n): the messages to each position
    std::vector<int> row;              // (S): the row of each position, -1: it takes no part
    long n = 0, N = 0, messages = 0;
    std::vector<int> count, place, alone;
    std::vector<uint64_t> bits, order;

    void find(const Step& s, long b) {
        const uint8_t* open = s.open + b * s.S;
        rows.clear(), alone.clear();
        if (s.idle && std::find(open, open + s.S, 0) != open + s.S) {
            std::vector<int> company(s.S, !s.R);
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
        if (s.taps) listen(s, open);
        row.assign(s.S, -1), companies.resize(s.R), messages = 0;
        for (long k = 0; k < n; k++) row[rows[k]] = int(k);
        long groups = 0;
        for (long r = 0; r < s.R; r++) {
            Company& to = companies[r];
            to.rows = 0, to.first = messages, to.scale.clear();
            place.assign(s.counts[r], -1);
            for (long k = 0; k < n; k++) {
                const int id = s.ids[r * s.S + rows[k]];
                if (place[id] < 0) place[id] = int(to.rows++), to.scale.push_back(s.scale[groups + id]);
                to.members.pairs.push_back({place[id], int(k)});
            }
            groups += s.counts[r];
            for (const auto& [list, k] : to.members.pairs) heard.pairs.push_back({k, int(to.first + list)});
            to.members.close(to.rows);
            messages += to.rows;
        }
        heard.close(n);
        rows.insert(rows.end(), alone.begin(), alone.end());
        N = long(rows.size());
    }

    // Rows with neighbours at the same taps, or at nearly the same (a Gray code), follow one another: a tile of them leaves
    // out the products of the others.
    void listen(const Step& s, const uint8_t* open) {
        const auto at = [&](long t, int position) {
            const int from = s.taps[t * s.S + position];
            return from >= 0 && open[from] ? from : -1;
        };
        bits.assign(s.S, 0), order.resize(s.S), place.resize(s.S);
        for (const int p : rows) {
            for (long t = 0; t < s.T; t++) bits[p] |= uint64_t(at(t, p) >= 0) << t % 64;
            order[p] = bits[p];
            for (int by = 1; by < 64; by *= 2) order[p] ^= order[p] >> by;
        }
        std::stable_sort(rows.begin(), rows.end(), [&](int a, int b) { return order[a] < order[b]; });
        mask.resize(n), tap.resize(s.T * n);
        for (long k = 0; k < n; k++) place[rows[k]] = int(k), mask[k] = bits[rows[k]];
        for (long t = 0; t < s.T; t++)
            for (long k = 0; k < n; k++) {
                const int from = at(t, rows[k]);
                tap[t * n + k] = from < 0 ? -1 : place[from];
            }
    }

    // Has one of `count` rows from `row` on a neighbour at one of the taps from `first` to `last`?
    bool hears(long row, int count, long first, long last) const {
        uint64_t some = 0;
        for (long k = row; k < row + count; k++) some |= mask[k];
        for (long t = first; t <= last; t++)
            if (some >> t % 64 & 1) return true;
        return false;
    }
};

struct Work {
    Members members;
    Room<float> messages, dh, grads[REGISTERS], weights, d_kv;
    Room<number> states[REGISTERS], h, around, product, t, d_gates, d_messages, moved, left, right;
    Room<number> acts, d_acts, middle, panel;
};

INLINE void add(float* to, F x) { put(to, at(to) + x); }

// What the own product reads, (n, T·D): h itself, or the rows of h at the taps side by side.
const number* heard(const Step& s, Work& w, const number* h) {
    if (!s.taps) return h;
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

// scale · Σ of the members' rows of x (n, width), width a multiple of LANES; without `scaled` the sums.
void pooled(const Company& m, const number* x, long width, bool scaled, number* to) {
    for (size_t list = 0; list < m.scale.size(); list++)
        for (long d = 0; d < width; d += LANES) {
            F sum{};
            for (int i = m.members.begin[list]; i < m.members.begin[list + 1]; i++) sum += at(x + m.members.of[i] * width + d);
            put(to + list * width + d, scaled ? m.scale[list] * sum : sum);
        }
}

// f (N, D) = rms(h + mix(h)) of one block, whose weights are packed in `in` and `last`.
template <bool TANH>
void block(const Step& s, Work& w, const number* h, const number* in, const number* last, number* f, number* gates,
           float* norms) {
    const Members& m = w.members;
    const long D = s.D, I = s.I, K = s.T * D;
    const number *own = heard(s, w, h), *in_own = in + s.sums() * s.related();
    float* messages = w.messages.of((m.messages + ROWS) * WIDTH);
    number* acts = w.acts.of((m.messages + ROWS) * D);  // of a relation from the row of its first message on
    for (long r = 0; r < s.sums(); r++) pooled(m.companies[r], h, D, true, acts + m.companies[r].first * D);
    number* product = w.product.of((m.n + ROWS) * I);
    for (long i = 0; i < I; i += HALF) {
        for (long r = 0; r < s.sums(); r++)
            in_tiles(m.companies[r].rows, [&](auto M, long row) {
                const long line = m.companies[r].first + row;
                Tile<M> tile;
                tile.product(acts + line * D, D, in + r * s.related() + 2 * i * D, D);
                tile.store(messages + line * WIDTH, WIDTH, WIDTH);
            });
        in_tiles(m.n, [&](auto M, long row) {
            Tile<M> tile;
            if (s.taps) {
                tile.clear();
                for (long t = 0; t < s.T; t++)
                    if (m.hears(row, M, t, t)) tile.add(own + row * K + t * D, K, in_own + (2 * i * s.T + t * WIDTH) * D, D);
            } else tile.product(own + row * K, K, in_own + 2 * i * K, K);
#pragma GCC unroll 8
            for (int q = 0; s.sums() && q < M; q++)
                for (int e = m.heard.begin[row + q]; e < m.heard.begin[row + q + 1]; e++) {
                    const float* from = messages + m.heard.of[e] * WIDTH;
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

// sum (rows, N) += aᵀ · x of a (K, rows), x (K, N), rows of either `a_stride` and `x_stride` apart.
void outer(long rows, long N, long K, const number* a, long a_stride, const number* x, long x_stride, Work& w, float* sum, long stride) {
    number *right = w.right.of(whole(K) * WIDTH), *left = w.left.of(whole(K) * panels(rows) * WIDTH);
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

// The gradients d (n, 2I) of gate and up from those of the output t (n, D), and their product (n, I).
template <bool TANH>
void gates_back(const Step& s, long n, const number* t, const number* gates, const number* in, number* d, number* product) {
    const long D = s.D, I = s.I;
    for (long i = 0; i < I; i += WIDTH) {
        const long columns = std::min(WIDTH, I - i);
        in_tiles(n, [&](auto M, long row) {
            const long begin = row * 2 * I + i;
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
}

}  // namespace

#include "attention.h"

namespace {

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
    const long FIRST = Parts(s).packed(), IN = FIRST + s.sums() * s.related() + s.own(), MIDDLE = s.middle();
    Room<number> in(s.blocks * IN), last(s.blocks * LAST);
#pragma omp parallel num_threads(threads)
    {
        Work w;
#pragma omp for
        for (long block = 0; block < s.blocks; block++) {
            pack_attention(s, s.weights + block * s.block(), &in[block * IN]);
            for (long i = 0; i < I; i += HALF)
                for (long r = 0; r <= s.sums(); r++) {
                    const long k = r < s.sums() ? D : K;
                    const number* from = s.weights + block * s.block() + s.attention() + r * s.related();
                    number* to = &in[block * IN + FIRST + r * s.related() + 2 * i * k];
                    pack_columns(from + i * k, k, HALF, k, to);
                    pack_columns(from + (I + i) * k, k, HALF, k, to, HALF);
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
                const number *mine = &in[entry[0] * IN], *mine_out = &last[entry[0] * LAST];
                number* gates = kept ? kept->gates + first * 2 * I : nullptr;
                float* norms = kept ? kept->norms + (s.head ? 2 : 1) * first : nullptr;
                if (s.head) {
                    number* u = kept ? kept->middle + first * MIDDLE : w.middle.of((m.N + ROWS) * MIDDLE);
                    attention(s, w, h, mine, u, u + m.N * D, norms);
                    h = u, norms += kept ? m.N : 0;
                }
                block<TANH>(s, w, h, mine + FIRST, mine_out, f, gates, norms);
                if (kept) std::memcpy(registers[entry[2]], f, m.N * D * sizeof(number));
            }
            for (int i = 0; i < 2; i++)
                if (results[i]) {
                    number* to = results[i] + b * s.S * D;
                    if (m.N < s.S) std::memset(to, 0, s.S * D * sizeof(number));
                    for (long k = 0; k < m.N; k++) std::memcpy(to + m.rows[k] * D, registers[i] + k * D, D * sizeof(number));
                }
        }
    }
}

// The gradients through the groups of relation r, of d (n, 2I): to dh, and to the weights' in `mine`.
void group_back(const Step& s, Work& w, long r, const number* h, const number* d, const number* back, float* dh, float* mine) {
    const Company& all = w.members.companies[r];
    const long D = s.D, I = s.I, rows = all.rows;
    if (!rows) return;
    number *acts = w.acts.of((rows + ROWS) * D), *d_acts = w.d_acts.of((rows + ROWS) * D);
    number* d_messages = w.d_messages.of((rows + ROWS) * 2 * I);
    pooled(all, h, D, true, acts);
    pooled(all, d, 2 * I, false, d_messages);
    multiply(rows, 2 * I, D, d_messages, 2 * I, back + r * panels(D) * WIDTH * 2 * I, d_acts, D);
    outer(D, 2 * I, rows, acts, D, d_messages, 2 * I, w, mine + r * s.related(), 2 * I);
    for (long list = 0; list < rows; list++)
        for (long v = 0; v < D; v += LANES) {
            const F sum = at(d_acts + list * D + v);
            for (int e = all.members.begin[list]; e < all.members.begin[list + 1]; e++)
                add(dh + all.members.of[e] * D + v, all.scale[list] * sum);
        }
}

// The gradients of one block: `dh` (N, D) in place of what was there, weights' added to `mine`.
template <bool TANH>
void block_back(const Step& s, Work& w, const float* dy, const number* h, const number* y, const number* gates, const float* norms,
                const number* in, const number* back, float* dh, float* mine, float* mine_out) {
    const Members& m = w.members;
    const long D = s.D, I = s.I, K = s.T * D, n = m.n;
    const number* own = heard(s, w, h);
    number *t = w.t.of((m.N + ROWS) * D), *d = w.d_gates.of((n + ROWS) * 2 * I), *product = w.product.of((n + ROWS) * I);
    for (long k = 0; k < m.N; k++) norm_row_backward(dy + k * D, y + k * D, t + k * D, D, norms[k]);
    gates_back<TANH>(s, n, t, gates, in, d, product);
    number* moved = w.moved.of((n + ROWS) * K);
    const long RELATED = panels(D) * WIDTH * 2 * I;
    multiply(n, 2 * I, K, d, 2 * I, back + s.sums() * RELATED, moved, K,
             [&](long row, int rows, long column) { return !s.taps || m.hears(row, rows, column / D, (std::min(column + WIDTH, K) - 1) / D); });
    for (long k = 0; k < m.N; k++)
        for (long v = 0; v < D; v += LANES) {
            const F through = at(t + k * D + v);
            put(dh + k * D + v, !s.taps && k < n ? through + at(moved + k * D + v) : through);
        }
    for (long r = 0; r < s.sums(); r++) group_back(s, w, r, h, d, back, dh, mine);
    for (long k = 0; s.taps && k < n; k++)
        for (long tap = 0; tap < s.T; tap++)
            for (long v = 0, to = m.tap[tap * n + k]; to >= 0 && v < D; v += LANES)
                add(dh + to * D + v, at(moved + (k * s.T + tap) * D + v));
    outer(K, 2 * I, n, own, K, d, 2 * I, w, mine + s.sums() * s.related(), 2 * I);
    outer(D, I, n, t, D, product, I, w, mine_out, I);
}

template <bool TANH>
void backward(const Step& s, int threads, const long* base, const number* const* d_results, const Kept& kept, number* const* d_registers,
              float* d_weights, float* d_out) {
    const long D = s.D, I = s.I, K = s.T * D, RELATED = panels(D) * WIDTH * 2 * I;
    const long FIRST = Parts(s).back(), BACK = FIRST + (s.sums() + s.T) * RELATED, MIDDLE = s.middle(), W = s.blocks * s.block(), O = s.blocks * D * I, parts = std::min(PARTS, s.B);
    const long IN = panels(I) * WIDTH * D;
    Room<number> in(s.blocks * IN), back(s.blocks * BACK);
    Room<float> sums(parts * (W + O));
    float* partial = sums.p;
#pragma omp parallel num_threads(threads)
    {
        Work w;
#pragma omp for
        for (long block = 0; block < s.blocks; block++) {
            for (long i = 0; i < I; i += WIDTH) pack_rows(s.out + block * D * I + i, D, std::min(WIDTH, I - i), I, &in[block * IN + i * D]);
            const auto turned = [&](const number* from, long rows, long k, long to) {
                for (long n = 0; n < k; n += WIDTH)
                    pack_rows(from + n, rows, std::min(WIDTH, k - n), k, &back[block * BACK + to + n * rows]);
            };
            const number *attention = s.weights + block * s.block(), *weights = attention + s.attention();
            pack_attention_back(s, attention, &back[block * BACK]);
            turned(weights + s.sums() * s.related(), 2 * I, K, FIRST + s.sums() * RELATED);
            for (long r = 0; r < s.sums(); r++) turned(weights + r * s.related(), 2 * I, D, FIRST + r * RELATED);
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
                    const number *gates = kept.gates + first * 2 * I, *out = &in[entry[0] * IN], *turned = &back[entry[0] * BACK];
                    float *d_in = mine + entry[0] * s.block(), *d_out = mine + W + entry[0] * D * I;
                    const number* u = s.head ? kept.middle + first * MIDDLE : h;
                    const float* norms = kept.norms + (s.head ? 2 * first + m.N : first);
                    block_back<TANH>(s, w, grads[entry[2]], u, h + m.N * D, gates, norms, out, turned + FIRST, dh, d_in + s.attention(), d_out);
                    if (s.head) attention_back(s, w, h, u, u + m.N * D, norms - m.N, turned, dh, d_in);
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
    Step s{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], eps};
    for (int i = 0; i < REGISTERS; i++) s.registers[i] = (const number*)in[i];
    s.open = (const uint8_t*)in[3], s.ids = (const int32_t*)in[4], s.counts = (const int32_t*)in[5];
    s.scale = (const float*)in[6], s.taps = (const int32_t*)in[7];
    s.weights = (const number*)in[8], s.out = (const number*)in[9], s.table = (const int32_t*)in[10];
    return s;
}

}  // namespace

extern "C" void step_forward(const long* n, float eps, int tanh, int threads, const void* const* in, const long* base, number* z_h, number* z_l,
                             number* states, number* gates, float* norms, number* middle) {
    const Step s = read(n, eps, in);
    number* const results[2] = {z_h, z_l};
    const Kept kept{states, gates, norms, middle};
    (tanh ? forward<true> : forward<false>)(s, threads, base, results, states ? &kept : nullptr);
}

extern "C" void step_backward(const long* n, float eps, int tanh, int threads, const void* const* in, const long* base, const number* dz_h,
                              const number* dz_l, number* states, number* gates, float* norms, number* middle, number* d_h, number* d_l, number* d_x,
                              float* d_weights, float* d_out) {
    const Step s = read(n, eps, in);
    const number* const d_results[2] = {dz_h, dz_l};
    number* const d_registers[3] = {d_h, d_l, d_x};
    (tanh ? backward<true> : backward<false>)(s, threads, base, d_results, {states, gates, norms, middle}, d_registers, d_weights, d_out);
}
