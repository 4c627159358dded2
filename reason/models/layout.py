"""All of a model that depends on the puzzle's size: constants, looked up by the number of cells.

A model without a size-bound weight (no MLP over cells, no learned positions) serves every size of its family.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from reason.context import Context
from reason.errors import ConfigError
from reason.models.base import Reasoner, Shape
from reason.models.mixing import MIXERS, MixingConfig
from reason.nn.geometry import Geometry, factored, incidence, pooling
from reason.nn.rope import rotary_2d_table, rotary_table

IMPOSSIBLE = -1e4  # the logit of a token that is no symbol, where a model has one position for each symbol


class Layout(nn.Module):
    """One puzzle shape: geometry, and where tokens enter and leave.

    With symbols a cell has K positions, and position (s, k) embeds 0: cell s holds symbol k; 1: it holds another one;
    2 + i: it holds the i-th of the tokens that are no symbols (Sudoku: 2 padding, 3 blank).
    """

    rotary: Tensor | None
    pool: Tensor | None
    spread: Tensor | None
    kinds: Tensor | None
    columns: Tensor | None
    others: Tensor | None

    def __init__(self, config: MixingConfig, shape: Shape):
        super().__init__()
        structure = shape.structure
        self.shape, self.length, self.grid = shape, config.positions_of(shape), structure.grid
        self.outside = structure.outside if config.mixer == "local" else None
        self.open_symbols, self.open_cells = config.leaves_symbols_out, config.leaves_cells_out
        self.symbols = len(structure.alphabet) if config.symbols else 1
        groups = [structure.partition(name) for name in structure.groups] if config.by_group else []
        self.own = MIXERS[config.mixer].constants(shape) if config.mixer in MIXERS else None
        self.relations = tuple(int(numbers.max()) + 1 for numbers in groups)
        member = incidence(groups) if groups else None
        axes = factored(structure.grid, groups) if groups and structure.grid else None
        self.axes, self.kept = axes or ((), ())
        constants = {
            "rotary": _rotary(config, self.length, structure.grid),
            "pool": None if member is None else torch.from_numpy(pooling(member)),
            "spread": None if member is None else torch.from_numpy(member.T.copy()),
            "kinds": torch.from_numpy(_kinds(shape)) if config.symbols else None,
            "columns": torch.tensor(structure.alphabet) if config.symbols else None,
            "others": torch.tensor(others) if config.symbols and (others := config.others(shape)) else None,
        }
        for name, constant in constants.items():
            self.register_buffer(name, constant, persistent=False)

    def geometry(self, context: Context) -> Geometry:
        """The constants, and of each puzzle the positions that take part and what the mixer has constants for."""
        inside = context.mask
        company = inside if self.open_cells or self.open_symbols else None
        if company is not None and self.open_symbols and self.own is None:
            company = self._company(company)
        own = None if self.own is None else self.own(context)
        by_group = (self.pool, self.spread, self.relations, self.symbols, self.axes)
        return Geometry(self.rotary, self.grid, inside, company, *by_group, own, self.kept)

    def mask(self, tokens: Tensor, dtype: torch.dtype) -> Tensor | None:
        """Tokens (B, S) -> (B, S', 1): 0 at walls, or at symbols that the clues exclude; None: all take part."""
        if self.open_symbols:
            return self._open(tokens)[..., None].to(dtype)
        return None if self.outside is None else (tokens != self.outside)[..., None].to(dtype)

    def _company(self, inside: Tensor) -> Tensor:
        """(B, S', 1): 1 where another position of some group sends, too."""
        assert self.spread is not None, "open symbols need groups"
        member, senders = self.spread.float(), inside.float().unflatten(1, (-1, self.symbols)).squeeze(-1)  # (B, S, K)
        met = (member @ (member.T @ senders > 1).float() > 0) | (senders.sum(-1, keepdim=True) > 1)
        return (met * senders).flatten(1)[..., None].to(inside.dtype)

    def embedded(self, tokens: Tensor) -> Tensor:
        """Tokens (B, S) -> which embedding each position takes (B, S')."""
        return tokens if self.kinds is None else self.kinds[tokens].flatten(1)

    def _open(self, tokens: Tensor) -> Tensor:
        """(B, S·K): 1 for the symbol of a given cell; in a blank cell, for those that no cell of its groups holds."""
        assert self.columns is not None, "open symbols are of symbols"
        assert self.spread is not None, "open symbols need groups"
        given = tokens[..., None] == self.columns  # (B, S, K)
        together = (self.spread @ self.spread.T > 0).float()  # (S, S)
        excluded = torch.einsum("st,btk->bsk", together, given.float()) > 0
        return (given | ~(excluded | given.any(-1, keepdim=True))).flatten(1)

    def logits(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """The head's values (B, S', n) -> (B, S, V), with the mask of `Context`.

        With symbols the first of n is that of "this cell holds it"; symbols that are not open are IMPOSSIBLE. The last
        of n are those of the other tokens, where a label may hold one: a mean over the cell. Cells without a state
        (`open_cells`) hold the token that says so.
        """
        if self.open_cells:  # as wide as the head, which has logits of marks too
            wall = torch.full_like(values[0, 0], IMPOSSIBLE).index_fill(0, values.new_tensor(self.outside).long(), 0)
            return torch.where(_taking_part(mask), values, wall)
        if self.columns is None:
            return values
        scores = values[..., 0]
        if self.open_symbols:
            scores = scores.masked_fill(~_taking_part(mask).squeeze(-1), IMPOSSIBLE)
        scores = scores.unflatten(1, (-1, self.symbols))  # (B, S, K)
        out = scores.new_full((*scores.shape[:2], self.shape.vocab_size), IMPOSSIBLE)
        out = out.index_copy(-1, self.columns, scores)
        if self.others is None:
            return out
        others = values[..., -len(self.others) :].unflatten(1, (-1, self.symbols)).mean(2)  # (B, S, O)
        return out.index_copy(-1, self.others, others)


def _taking_part(mask: Tensor | None) -> Tensor:
    assert mask is not None, "the layout leaves positions out"
    return mask.ne(0)


def masked(x: Tensor, mask: Tensor | None) -> Tensor:
    """x (B, S', D) with 0 at the positions that take no part."""
    return x if mask is None else x.masked_fill(mask == 0, 0.0)


def _rotary(config: MixingConfig, length: int, grid: tuple[int, int] | None) -> Tensor | None:
    if config.positions == "rotary-2d" and grid is not None:
        return rotary_2d_table(grid, config.head_dim, config.rope_theta, config.prefix)
    return rotary_table(length, config.head_dim, config.rope_theta) if config.positions == "rotary" else None


def _kinds(shape: Shape) -> np.ndarray:
    """(V, K): the embedding of a position for symbol k whose cell holds token v."""
    same = np.arange(shape.vocab_size)[:, None] == np.array(shape.structure.alphabet)
    is_symbol = same.any(1)
    other = 2 + (~is_symbol).cumsum() - 1  # of a token that is no symbol
    return np.where(is_symbol[:, None], (~same).astype(np.int64), other[:, None])


class Layouts(nn.Module):
    """The layouts of the sizes that a model has met, found by their number of cells or of positions."""

    def __init__(self, config: MixingConfig, shape: Shape):
        """Start with the shape that the model is built for.

        Raises:
            ConfigError: the shape lacks what the config requires.
        """
        super().__init__()
        if reason := config.lacking(shape):
            raise ConfigError(f"{reason}; name a set that does, or declare `structure` in its dataset.json")
        self.config, self.known = config, nn.ModuleList([Layout(config, shape)])

    def of_cells(self, tokens: Tensor) -> Layout:
        """The layout of tokens (B, S); of a text that still grows, that of its end.

        Raises:
            ConfigError: no puzzle of that size was added.
        """
        count, sizes = tokens.shape[1], [layout.shape.seq_len for layout in self._all()]
        if count in sizes:
            return self._all()[sizes.index(count)]
        if count > sizes[0] or self.config.structured or self.config.mixer == "mlp":
            raise ConfigError(
                f"puzzles of {count} cells, and the model was built for {', '.join(map(str, sizes))}: name puzzles of "
                "its size, or let it take their set first, which is run.accept(DIR) of a loaded run"
            )
        return self._all()[0]

    def _all(self) -> list[Layout]:
        return list(self.known)  # type: ignore[arg-type]

    def reads(self, shape: Shape) -> bool:
        """Can the model read puzzles of this shape?"""
        own = self._all()[0].shape
        if shape.num_puzzle_identifiers not in (1, own.num_puzzle_identifiers):  # 1: only the blank one
            return False
        same = next((layout.shape for layout in self._all() if layout.shape.seq_len == shape.seq_len), None)
        if same is not None:
            fits = same.structure == shape.structure or not self.config.structured
            return fits and same.vocab_size == shape.vocab_size
        tokens = self.config.embeddings(shape) == self.config.embeddings(own)
        values = self.config.values_of(shape) == self.config.values_of(own)
        same_weights = tokens and values and self.config.constraints(shape) == self.config.constraints(own)
        return self.config.size_free and same_weights and self.config.lacking(shape) is None

    def add(self, shape: Shape) -> None:
        """Serve puzzles of this shape, which the model `reads`, from now on."""
        assert self.reads(shape), "asked before"
        if all(layout.shape.seq_len != shape.seq_len for layout in self._all()):
            layout, buffers = Layout(self.config, shape), list(self.buffers())
            if buffers:
                layout = layout.to(buffers[0].device)
            if wide := [b.dtype for b in buffers if b.is_floating_point()]:
                layout = layout.to(wide[0])
            self.known.append(layout)


class LaidOut(Reasoner):
    """A reasoner that looks up all that depends on a puzzle's size."""

    layouts: Layouts

    def layout(self, context: Context) -> Layout:
        """The constants of the context's puzzles."""
        assert isinstance(context.layout, Layout), "made by encode"
        return context.layout

    def reads(self, shape: Shape) -> bool:
        """Say whether no weight is bound to another size, and the shape declares what the mixer needs."""
        return self.layouts.reads(shape)

    def add_shape(self, shape: Shape) -> None:
        """Look up the geometry of this shape from now on."""
        self.layouts.add(shape)
