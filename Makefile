# Every target makes what it needs; the environment lives in .venv and is pinned by constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

export PIP_DISABLE_PIP_VERSION_CHECK = 1
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help env demo test test-fast lint format docs bench bench-long wheel clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "hydra-dse needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet --no-build-isolation --constraint constraints.txt --editable '.[dev]'
	@touch $@

env: $(READY) ## make the environment

demo: $(READY) ## the main job: sweep, validate and report on experiments/quickstart.yaml
	rm -rf runs/demo
	$(BIN)/hydra-dse sweep quickstart --out runs/demo --workers 2
	$(BIN)/hydra-dse validate runs/demo --workers 2
	$(BIN)/hydra-dse report runs/demo

test: $(READY) ## the whole test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-fast: $(READY) ## tests that take less than half a second each
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow'

lint: $(READY) ## ruff, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(READY) ## apply ruff's fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## benchmarks as ratios measured side by side; writes bench.json
	$(BIN)/python -m benchmarks

bench-long: $(READY) ## benchmarks that take longer than ten minutes; goes on where it was interrupted
	$(BIN)/python -m benchmarks --long
	for set in slice tuning test shortest placed-test; do $(BIN)/python -m benchmarks.validation simulate $$set || exit 1; done
	$(BIN)/python -m benchmarks.validation ranking
	$(BIN)/python -m benchmarks.validation selection
	$(BIN)/python -m benchmarks.validation report
	$(BIN)/python -m pip install --quiet --no-build-isolation --constraint constraints.txt --editable '.[bench]'
	for study in hydra24 large mid; do $(BIN)/python -m benchmarks.search_quality $$study --table search-quality/$$study.csv || exit 1; done

docs: $(READY) ## the documentation as HTML in docs/_build
	$(BIN)/python -m pip install --quiet --no-build-isolation --constraint constraints.txt --editable '.[docs]'
	$(BIN)/sphinx-build -W -b html docs docs/_build/html

wheel: $(READY) ## build the wheel into dist/
	rm -rf dist
	$(BIN)/python -m build --wheel --no-isolation

clean: ## remove the environment and everything made
	rm -rf $(VENV) dist build docs/_build bench.json .mypy_cache .ruff_cache .pytest_cache
