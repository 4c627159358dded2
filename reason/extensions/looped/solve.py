"""`reason solve RUN "a beginning"`: a causal looped model continues a text, token by token."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor

from datasets_gen.progress import Progress
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.extensions.looped.decoding import Sharing, generate
from reason.extensions.looped.model import LoopedModel
from reason.solve import COMPLETIONS, WRITERS, Writer

if TYPE_CHECKING:
    from datasets_gen.extensions.text.puzzles import Text


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for generating text."""
    group = parser.add_argument_group("continue a text (runs on text)")
    add = group.add_argument
    add("--length", type=int, default=100, metavar="N", help="maximum number of tokens (default 100)")
    add("--temperature", type=float, default=0.0, metavar="T", help="0: the likeliest token; else p ~ exp(logit / T)")
    add("--top-p", type=float, default=1.0, metavar="P", help="sample from the likeliest tokens of total mass P")
    add("--seed", type=int, default=0, help="random seed of the sampling (default 0)")
    help = "keys and values: a set for each loop, or one that all loops share after the prompt"
    add("--cache", choices=get_args(Sharing), default="per-loop", help=help)
    help = "exit at the loop where the exit gate's distribution exceeds Q; prints the loops of each token"
    add("--exit", type=float, metavar="Q", help=help)


def write(
    run: Path, model: Any, config: Config, puzzle: Text, text: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Return the continuation of the text, and the loops that each token took.

    The model reads at most one window. A longer text is continued from its last half window of tokens.
    """
    if config.model.kind != "looped":
        raise ConfigError(f"{run} is not a looped model and cannot continue a text")
    if options.exit is not None and "gate" not in config.model.heads:
        raise ConfigError(f"--exit {options.exit}: {run} has no exit gate; remove it")
    for name, low, high in (("length", 1, 10**6), ("temperature", 0, 100), ("top_p", 1e-6, 1), ("exit", 0, 1)):
        value = getattr(options, name)
        if value is not None and not low <= value <= high:
            raise ConfigError(f"--{name.replace('_', '-')} {value}: type a number from {low:g} to {high:g}")
    device = next(model.parameters()).device
    draws = torch.Generator(device).manual_seed(options.seed)
    choose = partial(sampled, temperature=options.temperature, top_p=options.top_p, generator=draws)
    loops = config.evaluation.steps or config.rollout.trained_steps
    tokens, left = puzzle.parse(text).tolist(), list[int]()
    begun, ended = len(tokens), False
    with Progress(total=options.length, desc="writing", unit="token", leave=False, delay=1) as bar:
        while len(left) < options.length and not ended:
            seen = tokens if len(tokens) < puzzle.window else tokens[-puzzle.window // 2 :]
            count = min(options.length - len(left), puzzle.window + 1 - len(seen))
            prompt = torch.tensor([seen], device=device)
            continued = generate(
                model, prompt, count, loops, options.cache, end=puzzle.end, choose=choose, leave=options.exit
            )
            piece = continued.tokens[0].tolist()
            ended = puzzle.end in piece
            piece = piece[: piece.index(puzzle.end)] if ended else piece
            tokens, left = tokens + piece, left + continued.loops[0, : len(piece)].tolist()
            bar.update(len(piece))
    pieces = [puzzle.written([token]) for token in tokens[begun:]]
    return {
        "text": puzzle.written(tokens),
        "tokens": pieces,
        "loops": left,
        "ended": ended,
        "cache": options.cache,
        "trained_steps": loops,
    }


def lines_of(written: dict[str, Any], as_json: bool) -> str:
    """Return the lines to print: the text, and each token's loops if they differ."""
    if as_json:
        return json.dumps(written, indent=2)
    loops = written["loops"]
    lines = [written["text"] + ("" if written["ended"] else " …")]
    if len(set(loops)) > 1:
        each = " ".join(
            f"{piece.strip() or '␣'}·{count}" for piece, count in zip(written["tokens"], loops, strict=True)
        )
        lines += ["", f"loops of each token, mean {sum(loops) / len(loops):.2f}:", each]
    return "\n".join(lines)


def sampled(logits: Tensor, temperature: float, top_p: float, generator: torch.Generator) -> Tensor:
    """Return tokens (B,) of logits (B, V): the likeliest at temperature 0, else drawn from the nucleus of mass `top_p`.

    The nucleus is the smallest set of likeliest tokens whose probabilities add up to `top_p` (Holtzman et al. 2020).
    """
    if temperature == 0:
        return logits.argmax(-1)
    p, order = (logits.float() / temperature).softmax(-1).sort(-1, descending=True)
    p = p.masked_fill(p.cumsum(-1) - p >= top_p, 0)  # includes the token that passes top_p
    return order.gather(-1, p.multinomial(1, generator=generator)).squeeze(-1)


WRITERS["text"] = Writer(add_options, write, lines_of)
COMPLETIONS["looped"] = LoopedModel.completed
