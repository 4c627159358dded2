"""The README of a folder of ONNX graphs: what they are, and the lines of Python and JavaScript that solve a puzzle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2

TEXT = """# {{ name }}

{{ "{:,}".format(parameters) }} parameters trained with `reason` as two ONNX graphs (opset {{ opset }}, float32), exported by torch {{ packages.torch }}.

| graph | inputs | outputs |
|---|---|---|
| `start.onnx` | `{{ graphs.start.inputs | join("`, `") }}` | `{{ graphs.start.outputs | join("`, `") }}` |
| `step.onnx` | `{{ graphs.step.inputs | join("`, `") }}` | `{{ graphs.step.outputs | join("`, `") }}` |

`step.onnx` computes one supervision step; run it {{ trained_steps }} times (as in training) or more. The batch is dynamic
{{- ", and so are rows and columns" if any_size }}.
{%- if drawn %} The first `{{ drawn | join("` and `") }}` is drawn: unit normals in the shape of `x`.{% endif %}
{%- if "halt" in graphs.step.outputs %} σ(`halt`) is the model's probability that its answer is right.{% endif %}

Compared with torch on {{ checked.puzzles }} puzzles ({{ checked.of }}) for {{ checked.steps }} steps: {{ checked.equal }} of {{ checked.answers }} answers are equal;
logits of a step differ by {{ "%.1e" | format(checked.largest_relative_difference) }} at most, relative to the largest.

## Python

```python
import numpy as np, onnxruntime as ort

start, step = (ort.InferenceSession(f"{name}.onnx") for name in ("start", "step"))
tokens = np.array({{ puzzle }}).reshape({{ board }})
state = dict(zip({{ graphs.start.outputs }}, start.run(None, {"tokens": tokens{{ ', "identifiers": np.zeros(1, np.int64)' if identified }}})))
{% for part in drawn -%}
state["{{ part }}"] = np.random.default_rng(0).standard_normal(state["x"].shape, np.float32)
{% endfor -%}
for _ in range({{ trained_steps }}):
    said = dict(zip({{ graphs.step.outputs }}, step.run(None, state)))
    state |= {name: said["next_" + name] for name in {{ state }}}
print(said["logits"].argmax(-1))  # the answer's tokens
```

## JavaScript

```js
import * as ort from "onnxruntime-web";

const [start, step] = await Promise.all(["start.onnx", "step.onnx"].map((file) => ort.InferenceSession.create(file)));
const tokens = new ort.Tensor("int64", BigInt64Array.from({{ puzzle }}, BigInt), {{ board }});
const identifiers = new ort.Tensor("int64", BigInt64Array.of(0n), [1]);
const state = await start.run({ {{ graphs.start.inputs | join(", ") }} });
const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
for (const name of {{ drawn }}) state[name] = new ort.Tensor("float32", Float32Array.from(state.x.data, normal), state.x.dims);
let said;
for (let m = 0; m < {{ trained_steps }}; m++) {
  said = await step.run(state);
  for (const name of {{ state }}) state[name] = said["next_" + name];
}
const [V, logits] = [{{ shape.vocab_size }}, said.logits.data], answer = [];
for (let i = 0; i < logits.length; i += V) answer.push(logits.subarray(i, i + V).reduce((best, v, k, all) => (v > all[best] ? k : best), 0));
console.log(answer.join());  // the answer's tokens
```
"""  # noqa: E501


def readme(card: Mapping[str, Any], puzzle: Sequence[int], board: Sequence[int]) -> str:
    """The text, with one puzzle (S,) of the comparison, which has the shape `board`: (S,) or (rows, columns)."""
    identified = "identifiers" in card["graphs"]["start"]["inputs"]
    return jinja2.Template(TEXT).render(**card, puzzle=list(puzzle), board=[1, *board], identified=identified) + "\n"
