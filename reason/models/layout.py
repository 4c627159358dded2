"""Size-dependent constants of a model: masks, positions, and the map between tokens and symbols.

Most models have no weight that depends on the board size: no MLP over cells, no learned positions. Such a model serves
every size of its family. `Layout` holds the constants that do depend on the size; a model keeps one for each size.
`encode` selects it by the number of cells for the `Context`. (Files of sets: datasets_gen/layout.py.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reason.errors import ConfigError
from reason.models.base import Context, Reasoner, Shape
from reason.models.mapped import Mapped
from reason.models.mixing import MixingConfig, group_names
from reason.nn.block import StructuredBlock
from reason.nn.geometry import Geometry, incidence, open_symbols, pooling, receiving_symbols
from reason.nn.rope import rotary_2d_table, rotary_table
from reason.plugins import defined

IMPOSSIBLE = -1e4  # the logit of a token that a cell cannot hold; representable in bfloat16 and float16


class SymbolMap(nn.Module):
    """The map from tokens to embeddings, and from head outputs to logits, if each cell has K positions for K symbols.

    Position (s, k) embeds 0 if cell s holds symbol k, 1 if the cell holds another symbol, and 2 + i if the cell holds
    the i-th token that is not a symbol (Sudoku: 2 padding, 3 blank). So no weight distinguishes symbols, and renamed
    symbols give the renamed answer.
    """

    embedding_index: Tensor  # (V, K): the embedding of a position for symbol k whose cell holds token v
    symbol_tokens: Tensor  # (K,)
    other_tokens: Tensor | None  # (O,) tokens other than symbols that an answer may hold

    def __init__(self, shape: Shape, other_tokens: list[int]):
        super().__init__()
        self.vocab_size, alphabet = shape.vocab_size, np.array(shape.structure.alphabet)
        same = np.arange(shape.vocab_size)[:, None] == alphabet  # (V, K)
        is_symbol = same.any(1)
        other = 2 + (~is_symbol).cumsum() - 1  # of a token other than a symbol
        index = np.where(is_symbol[:, None], (~same).astype(np.int64), other[:, None])
        self.register_buffer("embedding_index", torch.from_numpy(index), persistent=False)
        self.register_buffer("symbol_tokens", torch.from_numpy(alphabet), persistent=False)
        others = torch.tensor(other_tokens) if other_tokens else None
        self.register_buffer("other_tokens", others, persistent=False)

    def logits(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """Map the head's values (B, S·K, n) to logits (B, S, V); symbols with mask 0 are IMPOSSIBLE.

        The first of the n values means "this cell holds it". The last values are those of the other tokens that an
        answer may hold, averaged over the cell.
        """
        scores = values[..., 0]
        if mask is not None:
            scores = scores.masked_fill(mask.eq(0).squeeze(-1), IMPOSSIBLE)
        scores = scores.unflatten(1, (-1, len(self.symbol_tokens)))  # (B, S, K)
        out = scores.new_full((*scores.shape[:2], self.vocab_size), IMPOSSIBLE)
        out = out.index_copy(-1, self.symbol_tokens, scores)
        if self.other_tokens is None:
            return out
        others = values[..., -len(self.other_tokens) :].unflatten(1, (-1, scores.shape[2])).mean(2)  # (B, S, O)
        return out.index_copy(-1, self.other_tokens, others)


class Layout(nn.Module):
    """The constants of one puzzle shape. Each cell is one position or, with symbols, K positions."""

    rotary: Tensor | None  # (2, S', D/heads)
    pool: Tensor | None  # (G, S)
    membership: Tensor | None  # (S, G)
    constraints: Any  # what `AnySet.constraints` returns for the shape, or None

    def __init__(self, config: MixingConfig, shape: Shape):
        super().__init__()
        structure = shape.structure
        self.shape = shape
        self.grid = structure.grid
        self.prefix = config.prefix
        self.outside = structure.outside if config.mixer == "local" else None
        self.open_only: bool = getattr(config, "open_only", False)  # of symbols, else of cells
        self.symbols = len(structure.alphabet) if config.symbols else 1
        self.symbol_map = SymbolMap(shape, config.others(shape)) if config.symbols else None
        any_set = config.structured_mixer.any_set
        self.constraints = None if any_set is None else any_set.constraints(shape)
        groups = [structure.partition(name) for name in structure.groups] if config.structured_mixer.by_group else []
        self.group_counts = tuple(int(numbers.max()) + 1 for numbers in groups)
        member = incidence(groups) if groups else None
        pool, membership = (None, None) if member is None else (pooling(member), member.T.copy())
        self.register_buffer("rotary", _rotary(config, shape), persistent=False)
        self.register_buffer("pool", None if pool is None else torch.from_numpy(pool), persistent=False)
        self.register_buffer("membership", None if member is None else torch.from_numpy(membership), persistent=False)

    def geometry(self, context: Context) -> Geometry:
        """Return the geometry: the constants of the shape, and each puzzle's active positions and constraints."""
        sends = context.mask
        receives = sends if self.open_only else None
        if receives is not None and self.membership is not None and self.constraints is None:
            senders = receives.float().unflatten(1, (-1, self.symbols)).squeeze(-1)  # (B, S, K)
            receives = receiving_symbols(senders, self.membership).flatten(1)[..., None].to(receives.dtype)
        constraints = None if self.constraints is None else self.constraints(context)
        by_group = (self.pool, self.membership, self.group_counts, self.symbols)
        return Geometry(self.rotary, self.grid, sends, receives, *by_group, constraints)

    def active_positions(self, tokens: Tensor, dtype: torch.dtype) -> Tensor | None:
        """Tokens (B, S) -> (B, S', 1): 0 at walls, or at symbols that the clues exclude; None: all are active."""
        if self.open_only and self.symbol_map is not None:
            assert self.membership is not None, "open symbols need groups"
            opened = open_symbols(tokens, self.symbol_map.symbol_tokens, self.membership)  # (B, S, K)
            return opened.flatten(1)[..., None].to(dtype)
        return None if self.outside is None else (tokens != self.outside)[..., None].to(dtype)

    def embedding_rows(self, tokens: Tensor, relations: tuple[Tensor, ...] = ()) -> Tensor:
        """Return the embedding index (B, S') of each position for tokens (B, S), without a prefix."""
        rows = tokens if self.symbol_map is None else self.symbol_map.embedding_index[tokens].flatten(1)
        return rows if self.constraints is None else self.constraints.extend(rows, relations)

    def cells(self, z: Tensor) -> Tensor:
        """Return z (B, S', D) without its prefix and the positions that a mixer added, (B, S·K, D)."""
        if self.prefix or self.constraints is not None:
            return z[:, self.prefix : self.prefix + self.shape.seq_len * self.symbols]
        return z  # the gradient of a slice would be a copy

    def logits(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """Map the head's values (B, S·K, n) to logits (B, S, V), with the mask of `Context`.

        A wall, which has no state if `open_only` is set, gets the token of a wall.
        """
        if self.symbol_map is not None:
            return self.symbol_map.logits(values, mask if self.open_only else None)
        if not self.open_only or self.outside is None or mask is None:
            return values
        token = torch.arange(values.shape[-1], device=values.device)  # the head may also have logits of marked tokens
        wall = torch.where(token == self.outside, 0.0, IMPOSSIBLE).to(values.dtype)
        return torch.where(mask.ne(0), values, wall)


def masked(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return x (B, S', D) with 0 at the inactive positions."""
    return x if mask is None else x.masked_fill(mask == 0, 0.0)


def _rotary(config: MixingConfig, shape: Shape) -> Tensor | None:
    grid, head_dim = shape.structure.grid, config.hidden_size // config.num_heads
    if config.positions == "rotary":
        return rotary_table(config.positions_of(shape), head_dim, config.rope_theta)
    if config.positions == "rotary-2d" and grid is not None:
        return rotary_2d_table(grid, head_dim, config.rope_theta, config.prefix)
    return None


class LayoutModel(Mapped):
    """A reasoner that keeps a `Layout` for each shape of puzzles, and so accepts puzzles of several sizes."""

    def __init__(self, config: MixingConfig, shape: Shape, dtype: torch.dtype):
        """Create the layout of the model's own shape. Raises ConfigError if the shape lacks required structure."""
        super().__init__()
        if reason := config.missing_structure(shape):
            raise ConfigError(f"{reason}; name a set that does, or declare `structure` in its dataset.json")
        self.config = config
        self.shape = shape
        self.dtype = dtype
        self.layouts: Any = nn.ModuleList([Layout(config, shape)])

    def layout(self, context: Context) -> Layout:
        """Return the constants of the context's puzzles."""
        assert context.layout is not None, "made by encode"
        return context.layout

    def layout_of(self, tokens: Tensor, shape: Shape | None = None) -> Layout:
        """Return the layout of tokens (B, S) of a set of that shape; a growing text uses that of its full length."""
        count = tokens.shape[1]
        if same_size := [layout for layout in self.layouts if layout.shape.seq_len == count]:
            return next((each for each in same_size if each.shape is shape or each.shape == shape), same_size[0])
        if count > self.shape.seq_len or self.config.structured or self.config.mixer == "mlp":
            sizes = ", ".join(str(layout.shape.seq_len) for layout in self.layouts)
            raise ConfigError(
                f"the model was built for puzzles of {sizes} cells, these have {count}: name puzzles of its size, or "
                "call run.accept(DIR) first"
            )
        return self.layouts[0]

    def check_mixer(self, context: Context) -> None:
        """Raise ConfigError unless the first mixer maps h (1, S', D) to a tensor of its shape."""
        mixer = next((part.mixer for part in self.modules() if isinstance(part, StructuredBlock)), None)
        if mixer is None:
            return
        h = torch.zeros_like(context.x[:1])
        try:
            with self.autocast():
                result: object = tuple(mixer(h, context.rows(slice(1)).geometry).shape)
        except RuntimeError as error:
            if h.dtype == torch.float32 or "type" not in str(error):
                raise
            result = str(error).splitlines()[0]
        if result != tuple(h.shape):
            fix = "return h's shape, and compute in its type, as reason.nn.linear.Linear does"
            raise ConfigError(f"{defined(type(mixer))}: for h in {h.dtype} of {tuple(h.shape)} it gave {result}; {fix}")

    def accepts(self, shape: Shape) -> bool:
        """Return whether the model can, after `add_shape`, take puzzles of this shape.

        It can if no weight is bound to another size, and the shape declares the structure that is required.
        """
        c, built = self.config, self.shape
        if shape.num_puzzle_identifiers not in (1, built.num_puzzle_identifiers):  # 1: only the blank one
            return False
        for layout in () if c.set_agnostic else self.layouts:
            if (same := layout.shape).seq_len == shape.seq_len:
                alike = same.structure == shape.structure or not c.structured
                return alike and same.vocab_size == shape.vocab_size
        same_weights = c.embeddings(shape) == c.embeddings(built) and group_names(c, shape) == group_names(c, built)
        size_bound = c.mixer == "mlp" or c.positions == "learned"
        return same_weights and not size_bound and c.missing_structure(shape) is None

    def add_shape(self, shape: Shape) -> None:
        """Add the constants of this shape."""
        same_size = [layout.shape for layout in self.layouts if layout.shape.seq_len == shape.seq_len]
        if not same_size or (self.config.set_agnostic and shape not in same_size):
            self.layouts.append(Layout(self.config, shape).to(next(self.parameters())))


def accepted(model: Reasoner, shape: Shape) -> bool:
    """Return whether a model takes puzzles of this shape; a `LayoutModel` then keeps the shape's constants."""
    if not isinstance(model, LayoutModel):
        return shape == model.shape
    if accepts := model.accepts(shape):
        model.add_shape(shape)
    return accepts


def unreadable(model: Reasoner, shape: Shape) -> str | None:
    """Return the required structure that a shape lacks, as a message, or None."""
    return model.config.missing_structure(shape) if isinstance(model, LayoutModel) else None
