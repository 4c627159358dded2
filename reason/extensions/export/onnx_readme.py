"""The README of a folder of ONNX graphs: what they are, and the lines of Python and JavaScript that solve a puzzle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from datasets_gen.puzzles import UnknownPuzzle, family_of
from datasets_gen.structure import Structure

TEXT = """# {name}

{parameters:,} parameters trained with `reason` as two ONNX graphs (opset {opset}, float32), exported by torch {torch}.

| graph | inputs | outputs |
|---|---|---|
| `start.onnx` | {start_inputs} | {start_outputs} |
| `step.onnx` | {step_inputs} | {step_outputs} |

`step.onnx` computes one supervision step; run it {trained_steps} times (as in training) or more. {sizes}{first}{halting}

Compared with torch on {puzzles} puzzles ({of}) for {steps} steps: {equal:,} of {answers:,} answers are equal; logits of a
step differ by {largest_relative_difference:.1e} at most, relative to the largest.

## Python

```python
import numpy as np, onnxruntime as ort

start, step = (ort.InferenceSession(f"{{name}}.onnx") for name in ("start", "step"))
{py_puzzle}
state = dict(zip({start_names}, start.run(None, {py_inputs})))
{py_drawn}for _ in range({trained_steps}):
    said = dict(zip({step_names}, step.run(None, state)))
    state |= {{name: said["next_" + name] for name in {state}}}
{py_answer}
```

## JavaScript

```js
import * as ort from "onnxruntime-web";

const [start, step] = await Promise.all(["start.onnx", "step.onnx"].map((file) => ort.InferenceSession.create(file)));
{js_puzzle}
const state = await start.run({{ {js_inputs} }});
{js_drawn}let said;
for (let m = 0; m < {trained_steps}; m++) {{
  said = await step.run(state);
  for (const name of {state}) state[name] = said["next_" + name];
}}
const [V, logits] = [{tokens}, said.logits.data], answer = [];
for (let i = 0; i < logits.length; i += V) answer.push(logits.subarray(i, i + V).reduce((best, v, k, all) => (v > all[best] ? k : best), 0));
console.log({js_answer});
```
"""  # noqa: E501
HALTING = "σ(`halt`) is the model's probability that its answer is right."
NORMALS = 'np.random.default_rng(0).standard_normal(state["x"].shape, np.float32)'


def readme(card: Mapping[str, Any], puzzle: Sequence[int], board: Sequence[int]) -> str:
    """The text, with one puzzle (S,) of the comparison, which has the shape `board`: (S,) or (rows, columns)."""
    graphs, drawn, shape = card["graphs"], card["drawn"], [1, *board]
    listed = {
        f"{graph}_{side}": ", ".join(f"`{name}`" for name in names)
        for graph, sides in graphs.items()
        for side, names in sides.items()
    }
    characters = _characters(card)
    typed = "".join(characters[token] for token in puzzle) if characters else ""
    readable = [characters.rfind(character) for character in typed] == list(puzzle) and max(characters) < "\U00010000"
    if readable:
        py = f"characters, puzzle = {characters!r}, {typed!r}\n"
        py += "tokens = np.array([characters.rindex(c) for c in puzzle])"
        js = f"const characters = {_quoted(characters)}, puzzle = {_quoted(typed)};\n"
        js += "const cells = [...puzzle].map((c) => characters.lastIndexOf(c));"
    else:
        py, js = f"tokens = np.array({list(puzzle)})", f"const cells = {list(puzzle)};"
    js += f'\nconst tokens = new ort.Tensor("int64", BigInt64Array.from(cells, BigInt), {shape});'
    identified = "identifiers" in graphs["start"]["inputs"]
    if identified:
        js += '\nconst identifiers = new ort.Tensor("int64", BigInt64Array.of(0n), [1]);'
    random = "Float32Array.from({ length: state.x.size }, () => Math.sqrt(-2 * Math.log(1 - Math.random())) * "
    random += "Math.cos(2 * Math.PI * Math.random()))"
    return TEXT.format(
        **card, **card["checked"], **listed,
        torch=card["packages"]["torch"],
        tokens=card["shape"]["vocab_size"],
        sizes="The batch is dynamic, and so are rows and columns. " if card["any_size"] else
        f"The batch is dynamic; a puzzle has {card['shape']['seq_len']} cells. ",
        first=f"The first {' and '.join(f'`{name}`' for name in drawn)} is drawn: unit normals in the shape of `x`. "
        if drawn else "",
        halting=HALTING if "halt" in graphs["step"]["outputs"] else "",
        start_names=graphs["start"]["outputs"], step_names=graphs["step"]["outputs"],
        py_puzzle=f"{py}.reshape({shape})",
        py_inputs='{"tokens": tokens, "identifiers": np.zeros(1, np.int64)}' if identified else '{"tokens": tokens}',
        py_drawn="".join(f'state["{name}"] = {NORMALS}\n' for name in drawn),
        py_answer='answer = said["logits"].argmax(-1).ravel()\nprint('
        + ('"".join(characters[token] for token in answer))' if readable else "answer)"),
        js_puzzle=js, js_inputs="tokens, identifiers" if identified else "tokens",
        js_drawn="".join(f'state.{name} = new ort.Tensor("float32", {random}, state.x.dims);\n' for name in drawn),
        js_answer='answer.map((token) => characters[token]).join("")' if readable else "answer.join()",
    )  # fmt: skip


def _characters(card: Mapping[str, Any]) -> str:
    """How text shows each token; nothing where no family is known."""
    shape = card["shape"]
    structure = Structure.model_validate(shape["structure"])
    try:
        return family_of(card["task"], shape["seq_len"], shape["vocab_size"], structure).characters
    except UnknownPuzzle:
        return ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
