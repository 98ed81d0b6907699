# Everything a checkout needs, from nothing but Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Test processes. Each computes with one thread: more only fight for the same cores. Three on two
# cores, for tests of the sandbox wait more than they compute.
JOBS ?= 3
# They start hundreds of processes, so bytecode is kept even where the shell forbids it.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false PYTHONDONTWRITEBYTECODE=

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-pretrained test test-full test-all test-long test-bridges test-engines golden check lint format bench docs wheel release-check clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "PYTHON=/path/to/python3.12 make setup   uses another Python (3.11 or newer)"

setup: $(STAMP) ## Create .venv and install everything (skipped when up to date)

$(STAMP): pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null || \
		{ echo "'$(PYTHON)' not found: set PYTHON=/path/to/python3.11 or newer" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, $$("$(PYTHON)" --version 2>&1) was found:" \
		"set PYTHON=/path/to/a/newer/python" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
		--constraint constraints.txt --editable '.[all]'
	@# Bytecode on all cores; pip would use one. Files that are no Python 3 of this version stay without.
	@$(BIN)/python -W ignore -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@

demo: $(STAMP) ## Train a team of two tiny models and show what changed (writes runs/demo)
	$(BIN)/llm-marl demo

demo-pretrained: $(STAMP) ## The same with SmolLM2, a language model of 135 million parameters (writes runs/demo_pretrained)
	$(BIN)/llm-marl demo --preset coop_coding_smollm2 --output runs/demo_pretrained --tasks 100 --shown 3

test: $(STAMP) ## Run the tests of what users rely on (four to seven minutes on two cores)
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not long and not engines and not full"

test-full: $(STAMP) ## Run what `make test` leaves out, but for the long ones
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "full and not long and not engines"

test-all: $(STAMP) ## Run both: all tests but the long ones (ten to twenty minutes on two cores)
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-long: $(STAMP) ## Run the tests that take longer
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) -m long

test-bridges: $(STAMP) ## Try every bridge with its library, each in its own environment (20 minutes to an hour)
	$(BIN)/python tests/bridges/run.py

test-engines: $(STAMP) ## Sample with vLLM itself, in an environment of its own (2.5 GB)
	$(ONE_THREAD) $(BIN)/python -m pytest -s -m engines tests/engines

golden: $(STAMP) ## Compare episodes, tasks, advantages and runs with the recorded ones (RENEW=1 records them)
	$(ONE_THREAD) PYTHONPATH=tests $(BIN)/python -m golden $(PARTS) $(if $(RENEW),--renew)

check: lint test-all ## Lint, format check, types and all tests but the long ones

lint: $(STAMP) ## Lint, format check and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(STAMP) ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## Measure ratios of speed, and fail where one fell (the others: docs/speed.md)
	$(ONE_THREAD) $(BIN)/python -m benchmarks.speed.guard

docs: $(STAMP) ## Build the documentation site into runs/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

wheel: $(STAMP) ## Build the wheel and the source archive into dist, and check what an index would show of them
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

release-check: $(STAMP) ## Check that TAG=vX.Y.Z is the version that the files name
	$(BIN)/python tests/support/release.py "$(TAG)"

clean: ## Remove .venv and build leftovers (not runs/)
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
