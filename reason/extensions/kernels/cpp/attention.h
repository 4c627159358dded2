// A block whose messages are attention within groups (reason/extensions/group_attention/mixer.py), forward and backward:
//     u = rms(h + join · heard), f = rms(u + out(act(gate) · up)), (gate, up) of u.
// Included by step.cpp, whose names it uses. A relation has one head; a member that does not take part has key and value
// 0 and counts in the softmax.
#pragma once

namespace {

// Where a block's matrices begin: qkv (A, D), join (D, R·d), then gate and up (2I, D).
struct Parts {
    long A, J, D, I;
    explicit Parts(const Step& s) : A(3 * s.R * s.head), J(s.R * s.head), D(s.D), I(s.I) {}
    long packed_join() const { return panels(A) * WIDTH * D; }
    long packed_up() const { return packed_join() + panels(D) * WIDTH * J; }
    long packed() const { return packed_up() + 2 * I * D; }
    long back_join() const { return panels(D) * WIDTH * A; }
    long back_up() const { return back_join() + panels(J) * WIDTH * D; }
    long back() const { return back_up() + panels(D) * WIDTH * 2 * I; }
};

void pack_attention(const Step& s, const number* from, number* to) {
    const Parts p(s);
    for (long n = 0; n < p.A; n += WIDTH) pack_columns(from + n * p.D, p.D, std::min(WIDTH, p.A - n), p.D, to + n * p.D);
    from += p.A * p.D;
    for (long n = 0; n < p.D; n += WIDTH)
        pack_columns(from + n * p.J, p.J, std::min(WIDTH, p.D - n), p.J, to + p.packed_join() + n * p.J);
    from += p.D * p.J;
    for (long i = 0; i < p.I; i += HALF) {
        number* panel = to + p.packed_up() + 2 * i * p.D;
        pack_columns(from + i * p.D, p.D, HALF, p.D, panel);
        pack_columns(from + (p.I + i) * p.D, p.D, HALF, p.D, panel, HALF);
    }
}

void pack_attention_back(const Step& s, const number* from, number* to) {
    const Parts p(s);
    const auto turned = [&](const number* w, long rows, long k, number* panel) {
        for (long n = 0; n < k; n += WIDTH) pack_rows(w + n, rows, std::min(WIDTH, k - n), k, panel + n * rows);
    };
    turned(from, p.A, p.D, to);
    turned(from + p.A * p.D, p.D, p.J, to + p.back_join());
    turned(from + p.A * p.D + p.D * p.J, 2 * p.I, p.D, to + p.back_up());
}

INLINE float inner_product(const number* a, const number* b, long d) {
    F sum{};
    for (long v = 0; v < d; v += LANES) sum += at(a + v) * at(b + v);
    return total(sum);
}

// The attention of member i of a group to the m active ones of its `size` members: weights (m, rounded up to LANES).
void weights_of(const number* qkv, long A, long d, const int* members, long m, long i, long size, float* weights) {
    const float scale = 1.f / __builtin_sqrtf(float(d));
    const number* q = qkv + members[i] * A;
    float most = size > m ? 0.f : -1e30f;
    for (long j = 0; j < m; j++) {
        weights[j] = scale * inner_product(q, qkv + members[j] * A + d, d);
        most = std::max(most, weights[j]);
    }
    for (long j = m; j % LANES; j++) weights[j] = -1e30f;
    F sum{};
    for (long j = 0; j < m; j += LANES) {
        const F e = exp(at(weights + j) - most);
        put(weights + j, e);
        sum += e;
    }
    const float whole = total(sum) + float(size - m) * exp(constant(-most))[0];
    for (long j = 0; j < m; j += LANES) put(weights + j, at(weights + j) / whole);
}

// Calls f for every group with its relation, its active members, their number, and the number of all members.
template <class Do>
void in_lists(const Step& s, const Members& all, Do f) {
    for (long r = 0; r < s.R; r++) {
        const Company& of = all.companies[r];
        for (long list = 0; list < of.rows; list++) {
            const int begin = of.members.begin[list], end = of.members.begin[list + 1];
            f(r, &of.members.of[begin], long(end - begin), std::lround(1.f / (of.scale[list] * of.scale[list])));
        }
    }
}

// heard (n, R·d) of qkv (n, A).
void hear(const Step& s, Work& w, const number* qkv, number* heard) {
    const Parts p(s);
    in_lists(s, w.members, [&](long r, const int* members, long m, long size) {
        float* weights = w.weights.of(m + LANES);
        const number* of = qkv + 3 * r * s.head;
        for (long i = 0; i < m; i++) {
            weights_of(of, p.A, s.head, members, m, i, size, weights);
            for (long v = 0; v < s.head; v += LANES) {
                F sum{};
                for (long j = 0; j < m; j++) sum += weights[j] * at(of + members[j] * p.A + 2 * s.head + v);
                put(heard + members[i] * p.J + r * s.head + v, sum);
            }
        }
    });
}

// f (N, D) of h (N, D); middle (N, D + A): u and qkv; norms (N, 2), that of u first.
template <bool TANH>
void attention_block(const Step& s, Work& w, const number* h, const number* in, const number* last, number* f, number* gates,
                     number* u, number* qkv, float* norms) {
    const Parts p(s);
    const Members& m = w.members;
    const long D = s.D, I = s.I;
    number *heard = w.acts.of((m.n + ROWS) * p.J), *product = w.product.of((m.n + ROWS) * I);
    multiply(m.n, D, p.A, h, D, in, qkv, p.A);
    hear(s, w, qkv, heard);
    multiply(m.n, p.J, D, heard, p.J, in + p.packed_join(), u, D);
    for (long k = 0; k < m.n; k++) {
        const float norm = norm_row(h + k * D, u + k * D, D, s.eps);
        if (norms) norms[2 * k] = norm;
    }
    for (long i = 0; i < I; i += HALF)
        in_tiles(m.n, [&](auto M, long row) {
            Tile<M> tile;
            tile.product(u + row * D, D, in + p.packed_up() + 2 * i * D, D);
            put_gates<TANH>(tile, row, i, I, product, gates);
        });
    multiply(m.n, I, D, product, I, last, f, D);
    std::memset(f + m.n * D, 0, (m.N - m.n) * D * sizeof(number));
    for (long k = 0; k < m.N; k++) {
        const float norm = norm_row(k < m.n ? u + k * D : h + k * D, f + k * D, D, s.eps);
        if (norms) norms[2 * k + 1] = norm;
    }
}

// d_qkv (n, A) and heard (n, R·d) of d_heard (n, R·d) and qkv.
void hear_back(const Step& s, Work& w, const number* qkv, const number* d_heard, number* d_qkv, number* heard) {
    const Parts p(s);
    const long d = s.head;
    const float scale = 1.f / __builtin_sqrtf(float(d));
    in_lists(s, w.members, [&](long r, const int* members, long m, long size) {
        float *weights = w.weights.of(2 * m + 2 * LANES), *slope = weights + m + LANES, *d_kv = w.d_kv.of(2 * m * d);
        const number* of = qkv + 3 * r * d;
        std::memset(d_kv, 0, 2 * m * d * sizeof(float));
        for (long i = 0; i < m; i++) {
            weights_of(of, p.A, d, members, m, i, size, weights);
            const number *dy = d_heard + members[i] * p.J + r * d, *q = of + members[i] * p.A;
            float along = 0;
            for (long j = 0; j < m; j++) {
                slope[j] = inner_product(dy, of + members[j] * p.A + 2 * d, d);
                along += weights[j] * slope[j];
            }
            for (long j = 0; j < m; j++) slope[j] = scale * weights[j] * (slope[j] - along);
            for (long v = 0; v < d; v += LANES) {
                F d_q{}, sum{};
                const F from = at(q + v), down = at(dy + v);
                for (long j = 0; j < m; j++) {
                    const number* other = of + members[j] * p.A;
                    d_q += slope[j] * at(other + d + v);
                    sum += weights[j] * at(other + 2 * d + v);
                    add(d_kv + 2 * j * d + v, slope[j] * from);
                    add(d_kv + (2 * j + 1) * d + v, weights[j] * down);
                }
                put(d_qkv + members[i] * p.A + 3 * r * d + v, d_q);
                put(heard + members[i] * p.J + r * d + v, sum);
            }
        }
        for (long j = 0; j < m; j++)
            for (long v = 0; v < 2 * d; v += LANES)
                put(d_qkv + members[j] * p.A + (3 * r + 1) * d + v, at(d_kv + 2 * j * d + v));
    });
}

// The gradients of an attention block: `dh` (N, D) in place of what was there, weights' added to `mine`.
template <bool TANH>
void attention_back(const Step& s, Work& w, const float* dy, const number* h, const number* y, const number* gates, const number* u,
                    const number* qkv, const float* norms, const number* in, const number* back, float* dh, float* mine, float* mine_out) {
    const Parts p(s);
    const Members& m = w.members;
    const long D = s.D, I = s.I, n = m.n;
    number *t = w.t.of((m.N + ROWS) * D), *d = w.d_gates.of((n + ROWS) * 2 * I), *product = w.product.of((n + ROWS) * I);
    for (long k = 0; k < m.N; k++) norm_row_backward(dy + k * D, y + k * D, t + k * D, D, norms[2 * k + 1]);
    gates_back<TANH>(s, n, t, gates, in, d, product);
    number* moved = w.moved.of((n + ROWS) * D);
    multiply(n, 2 * I, D, d, 2 * I, back + p.back_up(), moved, D);
    outer(D, 2 * I, n, u, D, d, 2 * I, w, mine + (p.A + p.J) * D, 2 * I);
    outer(D, I, n, t, D, product, I, w, mine_out, I);
    float* du = w.du.of((n + ROWS) * D);
    for (long i = 0; i < n * D; i += LANES) put(du + i, at(t + i) + at(moved + i));
    for (long k = 0; k < n; k++) norm_row_backward(du + k * D, u + k * D, t + k * D, D, norms[2 * k]);
    number *d_heard = w.acts.of((n + ROWS) * p.J), *heard = w.d_acts.of((n + ROWS) * p.J);
    number* d_qkv = w.d_messages.of((n + ROWS) * p.A);
    multiply(n, D, p.J, t, D, back + p.back_join(), d_heard, p.J);
    hear_back(s, w, qkv, d_heard, d_qkv, heard);
    outer(p.J, D, n, heard, p.J, t, D, w, mine + p.A * D, D);
    outer(D, p.A, n, h, D, d_qkv, p.A, w, mine, p.A);
    multiply(n, p.A, D, d_qkv, p.A, back, moved, D);
    for (long k = 0; k < m.N; k++)
        for (long v = 0; v < D; v += LANES) put(dh + k * D + v, k < n ? at(t + k * D + v) + at(moved + k * D + v) : at(t + k * D + v));
}

}  // namespace
