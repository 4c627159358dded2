// A whole supervision step of a reasoner that mixes along a puzzle's structure, forward and backward.
// One puzzle at a time: its states, sums and messages stay in L2. Called by reason/extensions/kernels/step.py.
//
// A block is rms(h + out(act(gate) * up)), (gate, up) = own·[h at the taps] + Σ_r W_r·(scale · Σ of the group's members)
// + Σ_p A_p·(what an instance answers to its place p). Groups have one tap, the position itself, and relations r; a grid has
// the neighbours as taps and no relation; values that have an order have two, themselves and the sum of all lower ones. A
// step is a table of stages (block, registers that are added up, register that is written); registers are z_H, z_L and x.

#include <vector>

#include "pointwise.h"

namespace {

constexpr int REGISTERS = 3;
constexpr long PARTS = 8;  // partial sums of weights' gradients: no digit depends on the number of threads

// What sums of positions are sent through: the groups of a relation (one place, no numbers, nothing between sum and
// message), or a kind of constraint (reason/nn/relations.py), whose P places an instance answers through its own gate.
struct Channel {
    long P, matrix, read;             // A_0 among the matrices; how many numbers a row reads
    bool thinks;                      // a kind; the rest is of kinds
    long numbers, stride, instances, columns;  // a row of its table for every number: `stride` of each
    long begin, sums, back;           // its first instance; its own weights, and packed to go back
};

struct Step {
    long B, S, D, I, R, T, blocks, stages, K, values, idle, total;
    float eps;
    std::vector<Channel> channels;       // R of groups, then the kinds
    long Q, heads;                     // matrices of groups and places; all weights of kinds
    const number* registers[REGISTERS];  // (B, S, D) each
    const uint8_t* open;               // (B, S): the positions that are read; where `idle`, the others take no part
    const int32_t *ids, *counts;       // (R, S) the group of each position, (R) groups
    const float* scale;                // of every group, relation after relation
    const int32_t* taps;               // (T, S), -1: nothing there
    const number *weights, *out;         // (blocks, Q·2I·D + 2I·T·D + heads), (blocks, D, I)
    const int32_t* table;              // (stages, 3): block, registers as bits, register
    const int32_t* instances;          // (B, total): of each kind (instances, columns), numbers and then cells, -1: none
    long own() const { return 2 * I * T * D; }
    long related() const { return 2 * I * D; }
    long tail() const { return Q * related() + own(); }
    long block() const { return tail() + heads; }
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

// The groups with a member, or the instances, that a puzzle has. An instance reads a row for each of K symbols.
struct Company {
    long rows, first;          // its messages begin at `first`: `rows` of every place
    std::vector<int> numbers;  // rows of the table, `numbers` for each instance
    std::vector<float> scale;  // (rows·P): 1/√n of n cells
    Lists members;             // (rows·P): who is summed up there, and hears the answer
};

// The positions of a puzzle that take part, and what each of them hears.
struct Members {
    std::vector<int> rows;   // positions: n in company, then those alone in every group, whose mix is 0
    std::vector<int> tap;    // (T, n), with several taps: the row of each neighbour, -1: none
    std::vector<uint64_t> mask;  // (n): bit t % 64 where there is one
    std::vector<Company> companies;  // of every channel
    Lists heard;                     // (n): the messages to each position
    std::vector<int> row;              // (S): the row of each position, -1: it takes no part
    long n = 0, N = 0, messages = 0;
    std::vector<int> count, place, alone;
    std::vector<uint64_t> bits, order;

    void find(const Step& s, long b) {
        const uint8_t* open = s.open + b * s.S;
        rows.clear(), alone.clear();
        if (s.idle && std::find(open, open + s.S, 0) != open + s.S) {
            std::vector<int> company(s.S, !s.R || long(s.channels.size()) > s.R);
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
        row.assign(s.S, -1), companies.resize(s.channels.size()), messages = 0;
        for (long k = 0; k < n; k++) row[rows[k]] = int(k);
        long groups = 0;
        for (size_t j = 0; j < companies.size(); j++) {
            const Channel& channel = s.channels[j];
            Company& to = companies[j];
            to.rows = 0, to.first = messages, to.numbers.clear(), to.scale.clear();
            if (channel.thinks) relate(s, channel, s.instances + b * s.total + channel.begin, to);
            else {
                place.assign(s.counts[j], -1);
                for (long k = 0; k < n; k++) {
                    const int id = s.ids[j * s.S + rows[k]];
                    if (place[id] < 0) place[id] = int(to.rows++), to.scale.push_back(s.scale[groups + id]);
                    to.members.pairs.push_back({place[id], int(k)});
                }
                groups += s.counts[j];
            }
            for (const auto& [list, k] : to.members.pairs)
                heard.pairs.push_back({k, int(to.first + list % channel.P * to.rows + list / channel.P)});
            to.members.close(to.rows * channel.P);
            messages += to.rows * channel.P;
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

    void relate(const Step& s, const Channel& kind, const int32_t* of, Company& to) {
        for (long m = 0; m < kind.instances; m++, of += kind.columns) {
            const int32_t *cells = of + kind.numbers, *end = of + kind.columns;
            if (std::all_of(cells, end, [](int cell) { return cell < 0; })) continue;
            for (long c = 0; c < kind.numbers; c++) to.numbers.push_back(int(c * kind.stride) + of[c] + 1);
            for (long k = 0; k < s.K; k++, to.rows++)
                for (long p = 0; p < kind.P; p++) {  // of several places each has one cell
                    long found = 0;
                    for (const int32_t* cell = kind.P > 1 ? cells + p : cells; cell < (kind.P > 1 ? cells + p + 1 : end); cell++)
                        if (*cell >= 0) {
                            found++;
                            if (const int here = row[*cell * s.K + k]; here >= 0) to.members.pairs.push_back({int(to.rows * kind.P + p), here});
                        }
                    to.scale.push_back(1.f / __builtin_sqrtf(std::max<float>(1, found)));
                }
        }
    }
};

struct Work {
    Members members;
    Room<float> messages, dh, grads[REGISTERS];
    Room<number> states[REGISTERS], h, around, product, t, d_gates, d_messages, moved, left, right;
    Room<number> reads, thoughts, acts, d_acts;
};

INLINE void add(float* to, F x) { put(to, at(to) + x); }

// What the own product reads, (n, T·D): h itself, or the rows of h at the taps side by side, or h and the lower values.
const number* heard(const Step& s, Work& w, const number* h) {
    if (!s.taps && !s.values) return h;
    const Members& m = w.members;
    number* to = w.around.of((m.n + ROWS) * s.T * s.D);
    if (s.values) {
        const float scale = 1.f / __builtin_sqrtf(s.K);
        for (long first = 0; first < m.n; first += s.K)
            for (long d = 0; d < s.D; d += LANES) {
                F lower{};
                for (long k = first; k < first + s.K; k++) {
                    const F each = at(h + k * s.D + d);
                    put(to + 2 * k * s.D + d, each), put(to + (2 * k + 1) * s.D + d, scale * lower);
                    lower += each;
                }
            }
        return to;
    }
    for (long k = 0; k < m.n; k++)
        for (long t = 0; t < s.T; t++) {
            const int from = m.tap[t * m.n + k];
            number* row = to + (k * s.T + t) * s.D;
            if (from < 0) std::memset(row, 0, s.D * sizeof(number));
            else std::memcpy(row, h + from * s.D, s.D * sizeof(number));
        }
    return to;
}

// scale · Σ of the members' rows of x (n, width), width a multiple of LANES, at every `stride` of `to`; without `scale` the sums.
void pooled(const Company& m, const number* x, long width, bool scaled, number* to, long stride) {
    for (size_t list = 0; list < m.scale.size(); list++)
        for (long d = 0; d < width; d += LANES) {
            F sum{};
            for (int i = m.members.begin[list]; i < m.members.begin[list + 1]; i++) sum += at(x + m.members.of[i] * width + d);
            put(to + list * stride + d, scaled ? m.scale[list] * sum : sum);
        }
}

struct Head {  // the weights of a kind
    const number *sums, *table;  // in panels; a row of 2D for every number
};

std::vector<Head> heads_of(const Step& s, Room<number>& packed) {
    long size = 0;
    for (const Channel& channel : s.channels) size += panels(2 * s.D) * WIDTH * channel.read;
    number* to = packed.of(s.blocks * size);
    std::vector<Head> heads;
    for (long block = 0; block < s.blocks; block++)
        for (const Channel& kind : s.channels) {
            const number* from = s.weights + block * s.block() + kind.sums;
            heads.push_back({to, from + 2 * s.D * kind.read});
            for (long n = 0; kind.thinks && n < 2 * s.D; n += WIDTH, to += WIDTH * kind.read)
                pack_columns(from + n * kind.read, kind.read, std::min(WIDTH, 2 * s.D - n), kind.read, to);
        }
    return heads;
}

// What goes out through a channel before the matrix of each place, `acts` (rows, D): the sums of a group; of an instance its
// gate of the sums (rows, read) and of its numbers, where both halves of the gate stay in w.thoughts (rows, 2D).
template <bool TANH>
void think(const Step& s, Work& w, size_t j, const number* h, const Head& head, number* acts) {
    const Channel& kind = s.channels[j];
    const Company& all = w.members.companies[j];
    const long D = s.D, parts = s.values ? 3 : 1;
    if (!kind.thinks) return pooled(all, h, D, true, acts, D);
    number *reads = w.reads.of((all.rows + ROWS) * kind.read), *gates = w.thoughts.of((all.rows + ROWS) * 2 * D);
    pooled(all, h, D, true, reads, parts * D);
    const float scale = 1.f / __builtin_sqrtf(s.K);
    for (long row = 0; s.values && row < all.rows; row += s.K)
        for (long p = 0; p < kind.P; p++)
            for (long d = 0; d < D; d += LANES) {
                number* to = reads + row * kind.read + p * parts * D + d;
                F lower{};  // at last the sum of all values
                for (long k = 0; k < s.K; k++) put(to + k * kind.read + D, scale * lower), lower += at(to + k * kind.read);
                for (long k = 0; k < s.K; k++) put(to + k * kind.read + 2 * D, scale * lower);
            }
    multiply(all.rows, kind.read, 2 * D, reads, kind.read, head.sums, gates, 2 * D);
    for (long row = 0; row < all.rows; row++)
        for (long d = 0; d < D; d += LANES) {
            F gate = at(gates + row * 2 * D + d), up = at(gates + row * 2 * D + D + d);
            for (long c = 0; c < kind.numbers; c++) {
                const number* of = head.table + all.numbers[row / s.K * kind.numbers + c] * 2 * D + d;
                gate += at(of), up += at(of + D);
            }
            put(gates + row * 2 * D + d, gate), put(gates + row * 2 * D + D + d, up);
            put(acts + row * D + d, activation<TANH>(gate) * up);
        }
}

// f (N, D) = rms(h + mix(h)) of one block, whose weights are packed in `in`, `heads` (of every kind) and `last`.
template <bool TANH>
void block(const Step& s, Work& w, const number* h, const number* in, const Head* heads, const number* last, number* f, number* gates,
           float* norms) {
    const Members& m = w.members;
    const long D = s.D, I = s.I, K = s.T * D;
    const number *own = heard(s, w, h), *in_own = in + s.Q * s.related();
    float* messages = w.messages.of((m.messages + ROWS) * WIDTH);
    number* acts = w.acts.of((m.messages + ROWS) * D);  // of a channel from the row of its first message on
    for (size_t j = 0; j < s.channels.size(); j++) think<TANH>(s, w, j, h, heads[j], acts + m.companies[j].first * D);
    number* product = w.product.of((m.n + ROWS) * I);
    for (long i = 0; i < I; i += HALF) {
        for (size_t j = 0; j < s.channels.size(); j++)
            for (long p = 0, rows = m.companies[j].rows, first = m.companies[j].first; p < s.channels[j].P; p++)
                in_tiles(rows, [&](auto M, long row) {
                    Tile<M> tile;
                    tile.product(acts + (first + row) * D, D, in + (s.channels[j].matrix + p) * s.related() + 2 * i * D, D);
                    tile.store(messages + (first + p * rows + row) * WIDTH, WIDTH, WIDTH);
                });
        in_tiles(m.n, [&](auto M, long row) {
            Tile<M> tile;
            if (s.taps) {
                tile.clear();
                for (long t = 0; t < s.T; t++)
                    if (m.hears(row, M, t, t)) tile.add(own + row * K + t * D, K, in_own + (2 * i * s.T + t * WIDTH) * D, D);
            } else tile.product(own + row * K, K, in_own + 2 * i * K, K);
#pragma GCC unroll 8
            for (int q = 0; q < M; q++)
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
    Room<number> in(s.blocks * s.tail()), last(s.blocks * LAST), packed;
    const std::vector<Head> heads = heads_of(s, packed);
#pragma omp parallel num_threads(threads)
    {
        Work w;
#pragma omp for collapse(2)
        for (long block = 0; block < s.blocks; block++)
            for (long i = 0; i < I; i += HALF) {
                for (long r = 0; r <= s.Q; r++) {
                    const long k = r < s.Q ? D : K;
                    const number* from = s.weights + block * s.block() + r * s.related();
                    number* to = &in[block * s.tail() + r * s.related() + 2 * i * k];
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
                block<TANH>(s, w, h, &in[entry[0] * s.tail()], heads.data() + entry[0] * s.channels.size(), &last[entry[0] * LAST], f,
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

// dh of the values and, of the sums of all lower ones, of every value below.
void lower_back(const Step& s, const number* moved, long n, float* dh) {
    const float scale = 1.f / __builtin_sqrtf(s.K);
    for (long first = 0; first < n; first += s.K)
        for (long d = 0; d < s.D; d += LANES) {
            F higher{};
            for (long k = first + s.K - 1; k >= first; k--) {
                add(dh + k * s.D + d, at(moved + 2 * k * s.D + d) + scale * higher);
                higher += at(moved + (2 * k + 1) * s.D + d);
            }
        }
}

// The gradients through a channel, of d (n, 2I): to dh, and to the weights' in `mine`.
template <bool TANH>
void think_back(const Step& s, Work& w, size_t j, const number* h, const number* d, const Head& head, const number* back, float* dh,
                float* mine) {
    const Channel& kind = s.channels[j];
    const Company& all = w.members.companies[j];
    const long D = s.D, I = s.I, rows = all.rows, wide = kind.P * 2 * I, parts = s.values && kind.thinks ? 3 : 1;
    const long RELATED = panels(D) * WIDTH * 2 * I;
    if (!rows) return;
    number *acts = w.acts.of((rows + ROWS) * D), *d_acts = w.d_acts.of((rows + ROWS) * D);
    number* d_messages = w.d_messages.of((rows + ROWS) * wide);
    think<TANH>(s, w, j, h, head, acts);
    pooled(all, d, 2 * I, false, d_messages, 2 * I);
    multiply(rows, wide, D, d_messages, wide, back + kind.matrix * RELATED, d_acts, D);
    for (long p = 0; p < kind.P; p++)
        outer(D, 2 * I, rows, acts, D, d_messages + p * 2 * I, wide, w, mine + (kind.matrix + p) * s.related(), 2 * I);
    const number* d_reads = d_acts;
    if (kind.thinks) {
        number *reads = w.reads.p, *gates = w.thoughts.p;
        for (long row = 0; row < rows; row++)
            for (long v = 0; v < D; v += LANES) {
                number* gate = gates + row * 2 * D + v;
                const Slopes x = slopes<TANH>(at(d_acts + row * D + v), at(gate), at(gate + D));
                put(gate, x.gate), put(gate + D, x.up);
                for (long c = 0; c < kind.numbers; c++) {
                    float* to = mine + kind.sums + (kind.read + all.numbers[row / s.K * kind.numbers + c]) * 2 * D + v;
                    add(to, x.gate), add(to + D, x.up);
                }
            }
        outer(kind.read, 2 * D, rows, reads, kind.read, gates, 2 * D, w, mine + kind.sums, 2 * D);
        multiply(rows, 2 * D, kind.read, gates, 2 * D, back + (s.Q + s.T) * RELATED + kind.back, reads, kind.read);
        const float scale = 1.f / __builtin_sqrtf(s.K);
        for (long row = 0; s.values && row < rows; row += s.K)
            for (long p = 0; p < kind.P; p++)
                for (long v = 0; v < D; v += LANES) {
                    number* of = reads + row * kind.read + p * parts * D + v;
                    F every{}, higher{};
                    for (long k = 0; k < s.K; k++) every += at(of + k * kind.read + 2 * D);
                    for (long k = s.K - 1; k >= 0; k--) {
                        put(of + k * kind.read, at(of + k * kind.read) + scale * (higher + every));
                        higher += at(of + k * kind.read + D);
                    }
                }
        d_reads = reads;
    }
    for (size_t list = 0; list < all.scale.size(); list++)
        for (long v = 0; v < D; v += LANES) {
            const F sum = at(d_reads + list * parts * D + v);
            for (int e = all.members.begin[list]; e < all.members.begin[list + 1]; e++)
                add(dh + all.members.of[e] * D + v, all.scale[list] * sum);
        }
}

// The gradients of one block: `dh` (N, D) in place of what was there, weights' added to `mine`.
template <bool TANH>
void block_back(const Step& s, Work& w, const float* dy, const number* h, const number* y, const number* gates, const float* norms,
                const number* in, const number* back, const Head* heads, float* dh, float* mine, float* mine_out) {
    const Members& m = w.members;
    const long D = s.D, I = s.I, K = s.T * D, n = m.n;
    const number* own = heard(s, w, h);
    number *t = w.t.of((m.N + ROWS) * D), *d = w.d_gates.of((n + ROWS) * 2 * I), *product = w.product.of((n + ROWS) * I);
    for (long k = 0; k < m.N; k++) norm_row_backward(dy + k * D, y + k * D, t + k * D, D, norms[k]);
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
    number* moved = w.moved.of((n + ROWS) * K);
    const long RELATED = panels(D) * WIDTH * 2 * I;
    multiply(n, 2 * I, K, d, 2 * I, back + s.Q * RELATED, moved, K,
             [&](long row, int rows, long column) { return !s.taps || m.hears(row, rows, column / D, (std::min(column + WIDTH, K) - 1) / D); });
    for (long k = 0; k < m.N; k++)
        for (long v = 0; v < D; v += LANES) {
            const F through = at(t + k * D + v);
            put(dh + k * D + v, !s.taps && !s.values && k < n ? through + at(moved + k * D + v) : through);
        }
    const auto channel = [&](size_t j) { think_back<TANH>(s, w, j, h, d, heads[j], back, dh, mine); };
    for (long r = 0; r < s.R; r++) channel(r);
    for (long k = 0; s.taps && k < n; k++)
        for (long tap = 0; tap < s.T; tap++)
            for (long v = 0, to = m.tap[tap * n + k]; to >= 0 && v < D; v += LANES)
                add(dh + to * D + v, at(moved + (k * s.T + tap) * D + v));
    if (s.values) lower_back(s, moved, n, dh);
    outer(K, 2 * I, n, own, K, d, 2 * I, w, mine + s.Q * s.related(), 2 * I);
    outer(D, I, n, t, D, product, I, w, mine_out, I);
    for (size_t j = s.R; j < s.channels.size(); j++) channel(j);
}

template <bool TANH>
void backward(const Step& s, int threads, const long* base, const number* const* d_results, const Kept& kept, number* const* d_registers,
              float* d_weights, float* d_out) {
    const long D = s.D, I = s.I, K = s.T * D, RELATED = panels(D) * WIDTH * 2 * I;
    long BACK = (s.Q + s.T) * RELATED;
    for (const Channel& kind : s.channels) BACK += kind.thinks ? panels(kind.read) * WIDTH * 2 * D : 0;
    const long W = s.blocks * s.block(), O = s.blocks * D * I, parts = std::min(PARTS, s.B);
    const long IN = panels(I) * WIDTH * D;
    Room<number> in(s.blocks * IN), back(s.blocks * BACK), packed;
    const std::vector<Head> heads = heads_of(s, packed);
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
            const number* weights = s.weights + block * s.block();
            turned(weights + s.Q * s.related(), 2 * I, K, s.Q * RELATED);
            for (const Channel& channel : s.channels) {
                turned(weights + channel.matrix * s.related(), channel.P * 2 * I, D, channel.matrix * RELATED);
                if (channel.thinks) turned(weights + channel.sums, 2 * D, channel.read, (s.Q + s.T) * RELATED + channel.back);
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
                                     &in[entry[0] * IN], &back[entry[0] * BACK], heads.data() + entry[0] * s.channels.size(), dh, mine + entry[0] * s.block(),
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
    Step s{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11], eps};
    for (int i = 0; i < REGISTERS; i++) s.registers[i] = (const number*)in[i];
    s.open = (const uint8_t*)in[3], s.ids = (const int32_t*)in[4], s.counts = (const int32_t*)in[5];
    s.scale = (const float*)in[6], s.taps = (const int32_t*)in[7], s.instances = (const int32_t*)in[8];
    s.weights = (const number*)in[10], s.out = (const number*)in[11], s.table = (const int32_t*)in[12];
    for (long r = 0; r < s.R; r++) s.channels.push_back({1, r, s.D, false});
    s.Q = s.R;
    long begin = 0, back = 0;
    for (long j = 0; j < n[12]; j++) {
        const long* of = (const long*)in[9] + 5 * j;  // places, numbers, rows of the table for each, instances, columns
        s.channels.push_back({of[0], s.Q, of[0] * (s.values ? 3 : 1) * s.D, true, of[1], of[2], of[3], of[4], begin, 0, back});
        s.Q += of[0], begin += of[3] * of[4], back += panels(s.channels.back().read) * WIDTH * 2 * s.D;
    }
    for (Channel& kind : s.channels)
        if (kind.thinks) {
            kind.sums = s.tail() + s.heads;
            s.heads += 2 * s.D * (kind.read + kind.numbers * kind.stride);
        }
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
