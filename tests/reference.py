"""Naive float64 versions of the formulas, written for reading: loops over rows, no batching, no tricks."""

import math

import numpy as np
import torch


def rms(x, axis=-1):
    """x / √(mean x² + 1e-5)."""
    return x / np.sqrt((x**2).mean(axis=axis, keepdims=True) + 1e-5)


def silu(x):
    return x / (1 + np.exp(-x))


def swiglu(x, gate_up, down, activation=silu):
    """(S, n) -> (S, n)."""
    both = x @ gate_up.T
    half = both.shape[-1] // 2
    return (activation(both[:, :half]) * both[:, half:]) @ down.T


def turned(x, angle):
    """One head (S, d), rotate-half: the pair (i, i + d/2) of position p turns by angle(p, i)."""
    out = np.empty_like(x)
    half = x.shape[1] // 2
    for p, i in np.ndindex(len(x), half):
        a, b, by = x[p, i], x[p, i + half], angle(p, i)
        out[p, i] = a * math.cos(by) - b * math.sin(by)
        out[p, i + half] = b * math.cos(by) + a * math.sin(by)
    return out


def rotate(x, base=10_000.0):
    """Of position p, pair i turns by p · base^(−2i/d)."""
    return turned(x, lambda p, i: p * base ** (-2 * i / x.shape[1]))


def rotate_2d(x, columns, base=10_000.0):
    """Over a grid: of the d/2 pairs the first n = d/4 turn by the row, the others by the column, times base^(−j/n)."""
    n = x.shape[1] // 4
    return turned(x, lambda p, i: divmod(p, columns)[i // n] * base ** (-(i % n) / n))


def network(h, w, name, config):
    """F(h), (S, D) -> (S, D): post-norm blocks, weights `w` under our names."""
    act = {"silu": silu, "tanh": np.tanh}[config.activation]
    turn = rotate if config.positions == "rotary" else unturned
    for _ in range(config.repeats):
        for i in range(config.num_layers):
            at = f"{name}.blocks.{i}"
            if f"{at}.attention.qkv.weight" in w:
                h = rms(h + attention(h, w, f"{at}.attention", config.num_heads, turn=turn))
            else:
                gate_up, down = w[f"{at}.mixer.gate_up.weight"], w[f"{at}.mixer.down.weight"]
                h = rms(h.T + swiglu(h.T, gate_up, down, act)).T
            h = rms(h + swiglu(h, w[f"{at}.mlp.gate_up.weight"], w[f"{at}.mlp.down.weight"], act))
    return h


def stablemax_weight(x, degree):
    """s(x), CMM eq. 35-46, with the Taylor polynomial summed term by term."""
    polynomial = sum(abs(x) ** k / math.factorial(k) for k in range(degree + 1))
    return polynomial if x >= 0 else 1 / polynomial


def cell_loss(logits, label, likelihood):
    """−log p(label) of one cell."""
    degree = {"stablemax": 1, "stablemax3": 3, "stablemax5": 5}.get(likelihood)
    weights = [math.exp(x) if degree is None else stablemax_weight(x, degree) for x in logits]
    return -math.log(weights[label] / sum(weights))


def lm_loss(logits, labels, likelihood, ignore=-100):
    """Mean over rows of the mean over labelled cells."""
    rows = []
    for row_logits, row_labels in zip(logits, labels, strict=True):
        cells = [
            cell_loss(cell, int(label), likelihood)
            for cell, label in zip(row_logits, row_labels, strict=True)
            if label != ignore
        ]
        rows.append(sum(cells) / max(len(cells), 1))
    return sum(rows) / len(rows)


def bce(logit, target):
    p = 1 / (1 + math.exp(-logit))
    return -(target * math.log(p) + (1 - target) * math.log(1 - p))


def adam_atan2(p, gradients, lr, betas, wd, eps=0.0, outside=False):
    """p after one step per gradient: p(1 − lr·wd) − lr·atan2(m̂, √v̂ + ε), or with m for m̂ and lr/(1 − β₁ᵗ) for lr."""
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(gradients, start=1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        correction, size = 1 - betas[0] ** t, np.sqrt(v / (1 - betas[1] ** t)) + eps
        move = np.arctan2(m, size) / correction if outside else np.arctan2(m / correction, size)
        p = p * (1 - lr * wd) - lr * move
    return p


def norm(x, kind, weight, bias, eps):
    """layernorm, rmsnorm or simple (layernorm without gain and bias) over the last axis."""
    if kind == "rmsnorm":
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight
    centred = x - x.mean(-1, keepdims=True)
    y = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return y if kind == "simple" else y * weight + bias


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def unturned(x):
    """One head (S, d) without positions."""
    return x


def attention(x, w, at, heads, causal=False, turn=unturned):
    """(S, D) -> (S, D), cell by cell, head by head; `turn` rotates the queries and keys of a head."""
    cells, width = x.shape
    size = width // heads
    q, k, v = np.split(x @ w[f"{at}.qkv.weight"].T + w.get(f"{at}.qkv.bias", 0), 3, axis=-1)
    mixed = np.zeros_like(x)
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        q[:, part], k[:, part] = turn(q[:, part]), turn(k[:, part])
        for i in range(cells):
            seen = range(i + 1) if causal else range(cells)
            score = np.exp([q[i, part] @ k[j, part] / math.sqrt(size) for j in seen])
            mixed[i, part] = sum(s * v[j, part] for s, j in zip(score / score.sum(), seen, strict=True))
    return mixed @ w[f"{at}.out.weight"].T + w.get(f"{at}.out.bias", 0)


def transformer_block(x, w, at, kind, placement, norm_kind, heads, causal, turn=unturned):
    """Both halves of a layer, each of STARS' four placements written out."""
    eps = 1e-5 if kind == "gpt" else 1e-6

    def feed_forward(h):
        if kind == "llama":
            return swiglu(h, w[f"{at}.mlp.gate_up.weight"], w[f"{at}.mlp.down.weight"])
        inner = gelu(h @ w[f"{at}.mlp.up.weight"].T + w[f"{at}.mlp.up.bias"])
        return inner @ w[f"{at}.mlp.down.weight"].T + w[f"{at}.mlp.down.bias"]

    for half, f in (
        ("attention_half", lambda h: attention(h, w, f"{at}.attention", heads, causal, turn)),
        ("mlp_half", feed_forward),
    ):

        def n(h, place, half=half):
            name = f"{at}.{half}.{place}"
            return norm(h, norm_kind, w.get(f"{name}.weight"), w.get(f"{name}.bias"), eps)

        match placement:
            case "pre":
                x = x + f(n(x, "argument"))
            case "post":
                x = n(x + f(x), "total")
            case "pre-sandwich":
                x = x + n(f(n(x, "argument")), "value")
            case "post-sandwich":
                x = n(x + f(n(x, "argument")), "total")
    return x


def repulsion(z):
    """CMM eq. 33-34, pair by pair, (B, S, D)."""
    rows = [row.ravel() / np.linalg.norm(row) for row in z]
    pairs = [(u @ v) ** 2 for i, u in enumerate(rows) for j, v in enumerate(rows) if i != j]
    return sum(pairs) / len(pairs) if pairs else 0.0


def routh_hurwitz_term(jacobian, stable):
    """CMM eq. 31 and 32 for one puzzle's J (K, K), K = S·D."""
    trace = np.diag(jacobian).mean()
    return max(trace - 1 if stable else 1 - trace, 0.0) ** 2


def alg_grad_norm(weights, losses, norms, references, targets, alpha, rho):
    """CMM eq. 51-56 for active terms: λ after one update, in plain loops."""
    count = len(weights)
    g = [w * n for w, n in zip(weights, norms, strict=True)]
    mean_g = sum(g) / count
    fallen = [loss / first for loss, first in zip(losses, references, strict=True)]
    rates = [f / (sum(fallen) / count) for f in fallen]
    moved = []
    for weight, share, rate, norm in zip(weights, targets, rates, g, strict=True):
        moved.append(weight * min(max(share * mean_g * rate**alpha / (norm + 1e-12), 0.1), 10.0))
    scaled = [m * count / sum(moved) for m in moved]
    return [rho * old + (1 - rho) * new for old, new in zip(weights, scaled, strict=True)]


def exit_distribution(gates):
    """p(t) of one position: λ_t times the chance of still being there, all that is left at the end."""
    p, left = [], 1.0
    for t, gate in enumerate(gates, start=1):
        leaves = 1.0 if t == len(gates) else 1 / (1 + math.exp(-gate))
        p.append(left * leaves)
        left *= 1 - leaves
    return p


def exit_step(gates, quantile):
    """The first t with CDF(t) > q, else T."""
    total = 0.0
    for t, p in enumerate(exit_distribution(gates), start=1):
        total += p
        if total > quantile:
            return t
    return len(gates)


def exit_losses(gates, losses, slope, threshold):
    """Of one position, gates and losses (T,): Σ p L, −H, and the mean over t = 2 … T − 1 of the gate's BCE."""
    p = exit_distribution(list(gates))
    expected = sum(a * b for a, b in zip(p, losses, strict=True))
    entropy = sum(a * math.log(a) for a in p)
    each = []
    for t in range(1, len(gates) - 1):
        w = 1 / (1 + math.exp(-slope * (max(0.0, losses[t - 1] - losses[t]) - threshold)))
        each.append(bce(-gates[t], w))
    return expected, entropy, sum(each) / max(len(each), 1)


def full_jacobian(f, z):
    """J of each row of z (B, …), (B, N, N), out of the batch's whole Jacobian; rows must not see each other."""
    rows, size = len(z), z[0].numel()
    whole = torch.autograd.functional.jacobian(f, z, create_graph=torch.is_grad_enabled())
    whole = whole.reshape(rows, size, rows, size)
    assert all(whole[i, :, j].abs().max() == 0 for i in range(rows) for j in range(rows) if i != j)
    return torch.stack([whole[i, :, i] for i in range(rows)])
