"""Size-dependent constants of a model: token maps, masks and positions.

Most models have no weight that depends on the board size: no MLP over cells, no learned positions. Such a model serves
every size of its family. `Layout` holds the constants that do depend on the size; a model keeps one for each size.
`encode` selects it by the number of cells and passes it on in the `Context`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reason.errors import ConfigError
from reason.models.base import Context, Reasoner, Shape
from reason.models.mixing import MIXERS, OTHER_TOKENS, MixingConfig
from reason.nn.block import StructuredBlock
from reason.nn.geometry import Geometry, incidence, pooling
from reason.nn.rope import rotary_2d_table, rotary_table
from reason.plugins import defined

IMPOSSIBLE = -1e4  # the logit of a token that a cell cannot hold; representable in bfloat16 and float16


class Layout(nn.Module):
    """One puzzle shape: its constants, and the maps from tokens to embeddings and from head outputs to logits.

    A cell is one position, which embeds its token. With symbols a cell has K positions, and position (s, k) embeds 0:
    cell s holds symbol k; 1: it holds another one; 2 + i: it holds the i-th of the other tokens (Sudoku:
    2 padding, 3 blank). So no weight distinguishes symbols, and renamed symbols give the renamed answer.
    """

    rotary: Tensor | None  # (2, S', D/heads)
    pool: Tensor | None  # (G, S)
    spread: Tensor | None  # (S, G)
    kinds: Tensor | None  # (V, K): the embedding of a position for symbol k whose cell holds token v
    columns: Tensor | None  # (K,) the tokens that are symbols
    mixer_constants: Any  # what `StructuredMixer.constants` returns for the shape
    others: Tensor | None  # (O,) tokens other than symbols that may be in an answer

    def __init__(self, config: MixingConfig, shape: Shape):
        super().__init__()
        structure = shape.structure
        self.shape, self.grid = shape, structure.grid
        self.outside = structure.outside if config.mixer == "local" else None
        self.open_only: bool = getattr(config, "open_only", False)  # of symbols, else of cells
        self.symbols, self.of_any = len(structure.alphabet) if config.symbols else 1, config.of_any
        groups = [structure.partition(name) for name in structure.groups] if config.by_group else []
        self.mixer_constants = MIXERS[config.mixer].constants(shape) if config.mixer in MIXERS else None
        self.relations = tuple(int(numbers.max()) + 1 for numbers in groups)
        member = incidence(groups) if groups else None
        constants = {
            "rotary": _rotary(config, shape),
            "pool": None if member is None else torch.from_numpy(pooling(member)),
            "spread": None if member is None else torch.from_numpy(member.T.copy()),
            "kinds": torch.from_numpy(_kinds(shape)) if config.symbols else None,
            "columns": torch.tensor(structure.alphabet) if config.symbols else None,
            "others": torch.tensor(others) if config.symbols and (others := config.others(shape)) else None,
        }
        for name, constant in constants.items():
            self.register_buffer(name, constant, persistent=False)

    def geometry(self, context: Context) -> Geometry:
        """Return the geometry: the constants of the shape, and each puzzle's active positions and mixer constants."""
        sends = context.mask
        receives = sends if self.open_only else None
        if receives is not None and self.columns is not None and self.mixer_constants is None:
            receives = self._receives(receives)
        constants = None if self.mixer_constants is None else self.mixer_constants(context)
        by_group = (self.pool, self.spread, self.relations, self.symbols)
        return Geometry(self.rotary, self.grid, sends, receives, *by_group, constants)

    def mask(self, tokens: Tensor, dtype: torch.dtype) -> Tensor | None:
        """Tokens (B, S) -> (B, S', 1): 0 at walls, or at symbols that the clues exclude; None: all are active."""
        if self.open_only and self.columns is not None:
            return self._open(tokens)[..., None].to(dtype)
        return None if self.outside is None else (tokens != self.outside)[..., None].to(dtype)

    def _open(self, tokens: Tensor) -> Tensor:
        """Return (B, S·K): 1 for a given cell's symbol, and for a blank cell's symbols that its groups do not hold."""
        assert self.columns is not None, "open symbols are of symbols"
        assert self.spread is not None, "open symbols need groups"
        given = tokens[..., None] == self.columns  # (B, S, K)
        together = (self.spread @ self.spread.T > 0).float()  # (S, S)
        excluded = torch.einsum("st,btk->bsk", together, given.float()) > 0
        return (given | ~(excluded | given.any(-1, keepdim=True))).flatten(1)

    def _receives(self, sends: Tensor) -> Tensor:
        """Return (B, S', 1): 1 if another position of some group sends, too."""
        assert self.spread is not None, "open symbols need groups"
        member, senders = self.spread.float(), sends.float().unflatten(1, (-1, self.symbols)).squeeze(-1)  # (B, S, K)
        met = (member @ (member.T @ senders > 1).float() > 0) | (senders.sum(-1, keepdim=True) > 1)
        return (met * senders).flatten(1)[..., None].to(sends.dtype)

    def embedded(self, tokens: Tensor, relations: tuple[Tensor, ...] = ()) -> Tensor:
        """Return the embedding index (B, S') of each position for tokens (B, S)."""
        rows = tokens if self.kinds is None else self.kinds[tokens].flatten(1)
        if self.of_any and self.mixer_constants is not None:  # after the cells: hidden booleans of the constraints
            rows = nn.functional.pad(rows, (0, self.mixer_constants.hidden_of(relations)), value=2 + OTHER_TOKENS)
        return rows

    def logits(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """Map the head's values (B, S', n) to logits (B, S, V), with the mask of `Context`.

        With symbols the first of the n values means "this cell holds it"; symbols that are not open are IMPOSSIBLE.
        The last values are those of the other tokens that a label may hold, averaged over the cell. Cells without a
        state (`open_only`) get the token that says so.
        """
        if self.open_only and self.columns is None and self.outside is not None and mask is not None:
            # the width of the head, which has logits of marks too
            token = torch.arange(values.shape[-1], device=values.device)
            wall = torch.where(token == self.outside, 0.0, IMPOSSIBLE).to(values.dtype)
            return torch.where(mask.ne(0), values, wall)
        if self.columns is None:
            return values
        scores = values[..., 0]  # (B, S·K)
        if self.open_only and mask is not None:
            scores = scores.masked_fill(mask.eq(0).squeeze(-1), IMPOSSIBLE)
        scores = scores.unflatten(1, (-1, self.symbols))  # (B, S, K)
        out = scores.new_full((*scores.shape[:2], self.shape.vocab_size), IMPOSSIBLE)
        out = out.index_copy(-1, self.columns, scores)
        if self.others is None:
            return out
        others = values[..., -len(self.others) :].unflatten(1, (-1, self.symbols)).mean(2)  # (B, S, O)
        return out.index_copy(-1, self.others, others)


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


def _kinds(shape: Shape) -> np.ndarray:
    same = np.arange(shape.vocab_size)[:, None] == np.array(shape.structure.alphabet)  # (V, K)
    is_symbol = same.any(1)
    other = 2 + (~is_symbol).cumsum() - 1  # of a token other than a symbol
    return np.where(is_symbol[:, None], (~same).astype(np.int64), other[:, None])


class LaidOut(Reasoner):
    """A reasoner with a `Layout` for each puzzle size."""

    def __init__(self, config: MixingConfig, shape: Shape, dtype: torch.dtype):
        """Start with the model's own shape. Raises ConfigError if it lacks structure that the config requires."""
        super().__init__()
        if reason := config.lacking(shape):
            raise ConfigError(f"{reason}; name a set that does, or declare `structure` in its dataset.json")
        self.mixing, self.shape, self.dtype, self.prefix = config, shape, dtype, config.prefix
        self.layouts = nn.ModuleList([Layout(config, shape)])

    def layout(self, context: Context) -> Layout:
        """Return the constants of the context's puzzles."""
        assert context.layout is not None, "made by encode"
        return context.layout

    def layout_of(self, tokens: Tensor, shape: Shape | None = None) -> Layout:
        """Return the layout of tokens (B, S) of a set of that shape; a growing text uses that of its full length."""
        count, known = tokens.shape[1], self._known()
        if of_size := [layout for layout in known if layout.shape.seq_len == count]:
            return next((layout for layout in of_size if layout.shape is shape or layout.shape == shape), of_size[0])
        if count > self.shape.seq_len or self.mixing.structured or self.mixing.mixer == "mlp":
            raise ConfigError(
                f"puzzles of {count} cells, and the model was built for "
                f"{', '.join(str(layout.shape.seq_len) for layout in known)}: name puzzles of "
                "its size, or let it take their set first, which is run.accept(DIR) of a loaded run"
            )
        return known[0]

    def check_mixer(self, context: Context) -> None:
        """Call the first mixer once, on one puzzle."""
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

    def _known(self) -> list[Layout]:
        return list(self.layouts)  # type: ignore[arg-type]

    def reads(self, shape: Shape) -> bool:
        """Return whether no weight is bound to another size, and the shape declares what the mixer needs."""
        c, built = self.mixing, self.shape
        if shape.num_puzzle_identifiers not in (1, built.num_puzzle_identifiers):  # 1: only the blank one
            return False
        for layout in () if c.of_any else self._known():
            if (same := layout.shape).seq_len == shape.seq_len:
                return same.vocab_size == shape.vocab_size and (same.structure == shape.structure or not c.structured)
        same_weights = all(of(shape) == of(built) for of in (c.embeddings, c.values_of, c.constraints))
        return c.size_free and same_weights and c.lacking(shape) is None

    def add_shape(self, shape: Shape) -> None:
        """Add the constants of this shape."""
        of_size = [layout.shape for layout in self._known() if layout.shape.seq_len == shape.seq_len]
        if not of_size or (self.mixing.of_any and shape not in of_size):
            self.layouts.append(Layout(self.mixing, shape).to(next(self.parameters())))
