# make demo | test | lint | bench | docs | clean        everything runs inside .venv, which the first target makes
# MINUTES=M            make demo trains M minutes at most, and reads what it has come to
# TORCH_INDEX=URL      where torch comes from, as https://download.pytorch.org/whl/cpu; else the default index
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed

.PHONY: help env demo test test-slow lint bench play graphs wheel docs clean
.DEFAULT_GOAL := help

help:  ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $$($(PYTHON) --version) found, 3.11 or newer needed; say: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' \
	  $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
	@touch $(STAMP)

env: $(STAMP)  ## the environment alone: .venv

demo: $(STAMP)  ## environment; 10x10 mazes learned, 20x20 and 30x30 ones solved by the same weights
	@$(BIN)/reason demo $(if $(MINUTES),--minutes $(MINUTES))

test: lint  ## environment, lint, types, tests (which .ci/run calls after a short demo)
	$(BIN)/python -m pytest -n auto --dist worksteal

test-slow: $(STAMP)  ## the tests that take minutes: trainings, large sets, a browser
	$(BIN)/python -m pytest -m slow -n auto --dist worksteal

lint: $(STAMP)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)  ## throughput of a training step, and where the time goes
	$(BIN)/python -m benchmarks.bench sudoku-6x6 training.precision=fp32,auto

play: $(STAMP)  ## the page in which the trained models compute, docs/play/index.html: one file for any web server
	$(BIN)/reason play --output docs/play/index.html --no-browser

graphs: $(STAMP)  ## the ONNX graphs of the package's models, exported again: reason/extensions/play/graphs
	$(BIN)/python -m reason.extensions.play.shipped

wheel: play  ## the package with everything that `reason play` needs, in dist/
	rm -rf build/lib build/bdist.* dist  # what an earlier wheel left would get into this one
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

docs: play  ## the site, in build/site; every link is followed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python docs/build.py

clean:  ## remove the environment and caches (data/ and runs/ stay)
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
