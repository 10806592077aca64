# The two commands of the README are `make demo` and `make test`; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
JOBS ?= 2
LOWEST := .venv-lowest
OF_LOWEST := tests/test_lowest.py tests/test_optimizer.py tests/doors/test_same_points.py tests/doors/test_storage_runner.py tests/doors/test_foreign_attributes.py
HOSTILE_SECONDS := 1000  # of one hostile test at most: five times what the longest takes on an idle core
DATA := $(wildcard ../shared/data)
ifneq ($(DATA),)
export REGRETLESS_DATA ?= $(abspath $(DATA))
endif

.PHONY: help demo test test-lowest test-slow test-hostile lint bench bench-peers reproduce docs clean
.DEFAULT_GOAL := help

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /|/' | awk -F'|' '{printf "make %-12s %s\n", $$1, $$2}'

$(VENV)/light: pyproject.toml constraints.txt
	@echo "== making the virtual environment in $(VENV) (about half a minute the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[sklearn]'
	@touch $@

$(VENV)/installed: $(VENV)/light bench/pyproject.toml
	@echo "== adding the tools and libraries of the tests to $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]' -e './bench[peers]'
	@touch $@

demo: $(VENV)/light ## tune a real model until the outlook ends the run, and write a page
	@echo "== tuning gradient boosting on scikit-learn's breast-cancer data, at most 100 trials"
	@$(ONE_THREAD) $(BIN)/python examples/demo.py

test: $(VENV)/installed ## run the test suite (about ten minutes on two cores)
	@echo "== running the tests"
	@$(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-lowest: ## the lowest declared version of each dependency, in an environment of its own
	@test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	@$(LOWEST)/bin/python -m pip install --quiet -c constraints-lowest.txt -e '.[optuna,sklearn,plot,storage,dask,serve]' 'pytest>=8' 'pytest-timeout>=2.3' hypothesis
	@$(ONE_THREAD) $(LOWEST)/bin/python -m pytest $(OF_LOWEST)

test-slow: $(VENV)/installed ## run the slow regret studies as well
	@$(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow --timeout 3600

test-hostile: $(VENV)/installed ## kills, crowds, fuzzed inputs and hostile objectives at full size (about forty minutes on two cores)
	@$(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m hostile --timeout $(HOSTILE_SECONDS)

lint: $(VENV)/installed ## ruff and strict mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check regretless bench tests experiments benchmarks examples
	@$(BIN)/mypy

bench: $(VENV)/installed ## speed against the peers, as ratios in one run
	@$(ONE_THREAD) $(BIN)/python -m benchmarks

bench-peers: $(VENV)/installed ## ranks and ms per ask beside the peers (PEERS="--quick", "--full", "--tables"; hours, resumable)
	@$(ONE_THREAD) $(BIN)/python -m benchmarks.peers --jobs $(JOBS) $(PEERS)

reproduce: $(VENV)/installed ## rerun figures of the papers (FIGURES="gp-threds fig4"; without it, a list of them)
	@$(ONE_THREAD) $(BIN)/regretless reproduce $(FIGURES)

docs: $(VENV)/installed ## build the documentation site into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## remove what the other targets made
	rm -rf $(VENV) site build *.egg-info bench/build bench/*.egg-info .pytest_cache .mypy_cache .ruff_cache regretless-demo.html
