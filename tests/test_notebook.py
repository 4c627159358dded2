"""The notebook of examples/, run from its first cell to its last as Jupyter does."""

from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "examples" / "tour.ipynb"
LIMIT = 200_000  # bytes, with its outputs


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")  # with the extra `dev`
    client = pytest.importorskip("nbclient")
    notebook = nbformat.read(FILE, as_version=4)
    notebook.cells[1].source = notebook.cells[1].source.replace("steps = 300", "steps = 3")
    client.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    kinds = [kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})]
    assert kinds.count("image/png") == 2, "the reader's own plots are drawn in the page"
    assert len(list(tmp_path.glob("runs/sudoku-4x4*-1/evaluation/*/report.html"))) == 2
    assert FILE.stat().st_size < LIMIT
