"""The README of a folder of ONNX graphs: what they are, and lines of Python that solve a puzzle."""

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
logits differ by {{ "%.1e" | format(checked.largest_relative_difference) }} at most, relative to the largest.

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

A page computes the same in a browser by onnxruntime-web.
"""  # noqa: E501


def readme(card: Mapping[str, Any], puzzle: Sequence[int], board: Sequence[int]) -> str:
    """The text, with one puzzle (S,) of the comparison, which has the shape `board`: (S,) or (rows, columns)."""
    identified = "identifiers" in card["graphs"]["start"]["inputs"]
    return jinja2.Template(TEXT).render(**card, puzzle=list(puzzle), board=[1, *board], identified=identified) + "\n"
