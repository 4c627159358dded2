// Attention within groups (reason/extensions/group_attention/mixer.py), forward and backward: u = rms(h + join · heard).
// The block of step.cpp follows, with u in place of h. A relation has one head; a member that does not take part has key
// and value 0 and counts in the softmax. Included by step.cpp, whose names it uses.
#pragma once

namespace {

// The matrices of attention: qkv (A, D), then join (D, J), J = R·d.
struct Parts {
    long A, J, D;
    explicit Parts(const Step& s) : A(3 * s.R * s.head), J(s.R * s.head), D(s.D) {}
    long packed_join() const { return panels(A) * WIDTH * D; }
    long packed() const { return packed_join() + panels(D) * WIDTH * J; }
    long back_join() const { return panels(D) * WIDTH * A; }
    long back() const { return back_join() + panels(J) * WIDTH * D; }
};

void pack_attention(const Step& s, const number* from, number* to) {
    const Parts p(s);
    for (long n = 0; n < p.A; n += WIDTH) pack_columns(from + n * p.D, p.D, std::min(WIDTH, p.A - n), p.D, to + n * p.D);
    from += p.A * p.D;
    for (long n = 0; n < p.D; n += WIDTH)
        pack_columns(from + n * p.J, p.J, std::min(WIDTH, p.D - n), p.J, to + p.packed_join() + n * p.J);
}

void pack_attention_back(const Step& s, const number* from, number* to) {
    const Parts p(s);
    const auto turned = [&](const number* w, long rows, long k, number* panel) {
        for (long n = 0; n < k; n += WIDTH) pack_rows(w + n, rows, std::min(WIDTH, k - n), k, panel + n * rows);
    };
    turned(from, p.A, p.D, to);
    turned(from + p.A * p.D, p.D, p.J, to + p.back_join());
}

// The products to[j, i] = row_j · column_i of d numbers, for the m active members of a group; `size`, m rounded up to LANES.
// Rows and columns of all positions are `down` and `across` numbers apart.
void pairs(const number* rows, long down, const number* columns, long across, long d, const int* members, long m, long size, number* panel,
           float* to) {
    for (long first = 0; first < m; first += LANES) {
        for (long i = first; i < std::min(first + LANES, m); i++)
            for (long k = 0; k < d; k += STEP)
                std::memcpy(panel + k * LANES + STEP * (i - first), columns + members[i] * across + k, STEP * sizeof(number));
        for (long j = 0; j < m; j++) {
            const number* row = rows + members[j] * down;
            F even{}, odd{};
            for (long k = 0; k < d; k += 2 * STEP) {
                even = dot(even, spread(row + k), packed(panel + k * LANES));
                odd = dot(odd, spread(row + k + STEP), packed(panel + (k + STEP) * LANES));
            }
            put(to + j * size + first, even + odd);
        }
    }
}

// The weights (m, size) of a group's active members j in what each of them, i, hears; `idle` others have key 0.
void weights_of(const number* qkv, long A, long d, const int* members, long m, long idle, long size, number* panel, float* weights) {
    const float scale = 1.f / __builtin_sqrtf(float(d));
    pairs(qkv + d, A, qkv, A, d, members, m, size, panel, weights);
    for (long i = 0; i < size; i += LANES) {
        F most = constant(idle ? 0.f : -1e30f);
        for (long j = 0; j < m; j++) {
            const F score = at(weights + j * size + i);
            most = score > most ? score : most;
        }
        F whole = idle ? float(idle) * exp(-scale * most) : F{};
        for (long j = 0; j < m; j++) {
            const F e = exp(scale * (at(weights + j * size + i) - most));
            put(weights + j * size + i, e);
            whole += e;
        }
        const F share = 1.f / whole;
        for (long j = 0; j < m; j++) put(weights + j * size + i, at(weights + j * size + i) * share);
    }
}

// Calls f for every group with its relation, its active members, their number, that of the others, and `size` of `pairs`.
template <class Do>
void in_lists(const Step& s, const Members& all, const number* qkv, Do f) {
    const long A = Parts(s).A;
    for (long r = 0; r < s.R; r++) {
        const Company& of = all.companies[r];
        for (long list = 0; list < of.rows; list++) {
            const int begin = of.members.begin[list], end = of.members.begin[list + 1];
            // The rows of the next group are far apart.
            for (int next = end; list + 1 < of.rows && next < of.members.begin[list + 2]; next++)
                for (long v = 0; v < 3 * s.head; v += 32) __builtin_prefetch(qkv + of.members.of[next] * A + 3 * r * s.head + v);
            const long m = end - begin, count = std::lround(1.f / (of.scale[list] * of.scale[list]));
            f(r, &of.members.of[begin], m, count - m, (m + LANES - 1) / LANES * LANES);
        }
    }
}

// heard (n, R·d) of qkv (n, A).
void hear(const Step& s, Work& w, const number* qkv, number* heard) {
    const Parts p(s);
    number* panel = w.panel.of(s.head * LANES);
    in_lists(s, w.members, qkv, [&](long r, const int* members, long m, long idle, long size) {
        float* weights = w.weights.of(m * size);
        const number* of = qkv + 3 * r * s.head;
        weights_of(of, p.A, s.head, members, m, idle, size, panel, weights);
        for (long i = 0; i < m; i++)
            for (long v = 0; v < s.head; v += LANES) {
                F sum{};
                for (long j = 0; j < m; j++) sum += weights[j * size + i] * at(of + members[j] * p.A + 2 * s.head + v);
                put(heard + members[i] * p.J + r * s.head + v, sum);
            }
    });
}

// u (N, D) and qkv (n, A) of h (N, D); norms (n).
void attention(const Step& s, Work& w, const number* h, const number* in, number* u, number* qkv, float* norms) {
    const Parts p(s);
    const Members& m = w.members;
    const long D = s.D;
    number* heard = w.acts.of((m.n + ROWS) * p.J);
    multiply(m.n, D, p.A, h, D, in, qkv, p.A);
    hear(s, w, qkv, heard);
    multiply(m.n, p.J, D, heard, p.J, in + p.packed_join(), u, D);
    for (long k = 0; k < m.n; k++) {
        const float norm = norm_row(h + k * D, u + k * D, D, s.eps);
        if (norms) norms[k] = norm;
    }
    std::memcpy(u + m.n * D, h + m.n * D, (m.N - m.n) * D * sizeof(number));
}

// d_qkv (n, A) and heard (n, R·d) of d_heard (n, R·d) and qkv.
void hear_back(const Step& s, Work& w, const number* qkv, const number* d_heard, number* d_qkv, number* heard) {
    const Parts p(s);
    const long d = s.head;
    const float scale = 1.f / __builtin_sqrtf(float(d));
    number* panel = w.panel.of(d * LANES);
    in_lists(s, w.members, qkv, [&](long r, const int* members, long m, long idle, long size) {
        float *weights = w.weights.of(2 * m * size), *slopes = weights + m * size, *d_kv = w.d_kv.of(2 * m * d);
        const number* of = qkv + 3 * r * d;
        std::memset(d_kv, 0, 2 * m * d * sizeof(float));
        weights_of(of, p.A, d, members, m, idle, size, panel, weights);
        pairs(of + 2 * d, p.A, d_heard + r * d, p.J, d, members, m, size, panel, slopes);
        for (long i = 0; i < size; i += LANES) {
            F along{};
            for (long j = i; j < m * size; j += size) along += at(weights + j) * at(slopes + j);
            for (long j = i; j < m * size; j += size) put(slopes + j, scale * at(weights + j) * (at(slopes + j) - along));
        }
        for (long i = 0; i < m; i++) {
            const number *dy = d_heard + members[i] * p.J + r * d, *q = of + members[i] * p.A;
            for (long v = 0; v < d; v += LANES) {
                F d_q{}, sum{};
                const F from = at(q + v), down = at(dy + v);
                for (long j = 0; j < m; j++) {
                    const number* other = of + members[j] * p.A;
                    const float slope = slopes[j * size + i], weight = weights[j * size + i];
                    d_q += slope * at(other + d + v);
                    sum += weight * at(other + 2 * d + v);
                    add(d_kv + 2 * j * d + v, slope * from);
                    add(d_kv + (2 * j + 1) * d + v, weight * down);
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

// The gradients of h in place of those of u in `dh` (N, D), weights' added to `mine`.
void attention_back(const Step& s, Work& w, const number* h, const number* u, const number* qkv, const float* norms, const number* back,
                    float* dh, float* mine) {
    const Parts p(s);
    const long D = s.D, n = w.members.n;
    number *t = w.t.of((n + ROWS) * D), *moved = w.moved.of((n + ROWS) * D);
    number *d_heard = w.acts.of((n + ROWS) * p.J), *heard = w.d_acts.of((n + ROWS) * p.J);
    number* d_qkv = w.d_messages.of((n + ROWS) * p.A);
    for (long k = 0; k < n; k++) norm_row_backward(dh + k * D, u + k * D, t + k * D, D, norms[k]);
    multiply(n, D, p.J, t, D, back + p.back_join(), d_heard, p.J);
    hear_back(s, w, qkv, d_heard, d_qkv, heard);
    outer(p.J, D, n, heard, p.J, t, D, w, mine + p.A * D, D);
    outer(D, p.A, n, h, D, d_qkv, p.A, w, mine, p.A);
    multiply(n, p.A, D, d_qkv, p.A, back, moved, D);
    for (long i = 0; i < n * D; i += LANES) put(dh + i, at(t + i) + at(moved + i));
}

}  // namespace
