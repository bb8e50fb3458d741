# The two commands: `make demo` and `make test`. Both set everything up in .venv first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint bench soak fmt lock clean

$(READY): requirements.lock pyproject.toml tools/setup.sh
	@PYTHON="$(PYTHON)" bash tools/setup.sh "$(VENV)"
	@touch $@

demo: $(READY)
	@$(BIN)/python examples/tour.py

test: lint
	@$(BIN)/python -m pytest -n 2 -m "not soak"

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(READY)
	@$(BIN)/python bench/languages.py

soak: $(READY)
	@$(BIN)/python -m pytest -n 2 -m soak --timeout 3600

fmt: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock: $(READY)
	@bash tools/lock.sh "$(VENV)"

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis dist
