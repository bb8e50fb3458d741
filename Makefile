# The two commands: `make demo` and `make test`. Each sets everything up in .venv first; all it needs is Python 3.11+.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-bench

.PHONY: demo test check lint coverage pythons bench snapshots soak fmt docs explorer vscode dist lock clean setup setup-bench

demo: setup ## a guided tour on 200,000 nodes and a million edges, each step with the command to do it yourself
	@LANCE_LOG=error $(BIN)/omnigraph demo

# 150 seconds of a core for these tests, measured directory by directory; tests/engine and tests/ops alone take longer.
check: lint ## the daily fast lane: lint, types, languages, schemas, queries, contracts, text cases; under 3 minutes
	@$(BIN)/python -m pytest -q -n auto --maxprocesses 8 $(addprefix tests/,base config lang schema query corpus contracts)

test: lint ## everything that must hold before a change is merged
	@$(BIN)/python -m pytest -n auto --maxprocesses 8 -m "not soak"

lint: setup ## style, types, the import rule, the dependencies
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@# On a busy machine its workers may not start in time (exit code 2); then one process checks everything.
	@$(BIN)/mypy --num-workers auto || { [ $$? -eq 2 ] && $(BIN)/mypy; }
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/deptry src

coverage: setup ## the share of the languages, schemas and queries that their own suites run, with its floor
	@$(BIN)/python -m pytest -q -n auto --maxprocesses 8 --cov --cov-report=term $(addprefix tests/,lang schema query corpus lsp engine/test_drawing.py)

pythons: setup ## install the wheel on every supported Python that this machine has, import it, run the quick start
	@$(BIN)/python tools/pythons.py

bench: setup-bench ## measured numbers, on this machine, now, with peers in the same run
	@LANCE_LOG=error $(PEERS)/bin/python bench/startup.py
	@$(PEERS)/bin/python bench/languages.py
	@PYTHONPATH=tests LANCE_LOG=error $(PEERS)/bin/python bench/commits.py --long
	@PYTHONPATH=tests LANCE_LOG=error $(PEERS)/bin/python bench/concurrent_commits.py
	@LANCE_LOG=error $(PEERS)/bin/python bench/server.py
	@LANCE_LOG=error $(PEERS)/bin/python bench/loads.py
	@LANCE_LOG=error $(PEERS)/bin/python bench/social.py
	@LANCE_LOG=error $(PEERS)/bin/python bench/forum.py --full --growth
	@LANCE_LOG=error $(PEERS)/bin/python bench/larger_than_memory.py
	@LANCE_LOG=error $(PEERS)/bin/python bench/questions.py
	@LANCE_LOG=error $(PEERS)/bin/python bench/cypher.py
	@LANCE_LOG=error $(PEERS)/bin/python bench/search.py
	@LANCE_LOG=error $(PEERS)/bin/python bench/upkeep.py
	@LANCE_LOG=error $(PEERS)/bin/python bench/branches.py
	@LANCE_LOG=error $(PEERS)/bin/python bench/spark_loads.py --full
	@LANCE_LOG=error $(PEERS)/bin/python bench/spark_reads.py
	@LANCE_LOG=error $(PEERS)/bin/python bench/spark_queries.py 20000000

snapshots: setup ## store what users and other programs see anew; review the difference
	@$(BIN)/python -m pytest -q tests/contracts/test_snapshots.py --snapshot-update

soak: setup ## the long fuzz and soak profiles
	@$(BIN)/python -m pytest -n auto --maxprocesses 8 -m soak --timeout 3600
	@PYTHONPATH=tests LANCE_LOG=error $(BIN)/python -m schedules.soak

fmt: setup ## rewrite the code in the house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: setup ## write the generated pages and pasted sessions anew, and build the site
	@$(BIN)/python tools/cli_reference.py
	@$(BIN)/python tools/cypher_reference.py
	@$(BIN)/python tools/errors_reference.py
	@$(BIN)/python tools/http_reference.py
	@$(BIN)/python tools/python_reference.py
	@$(BIN)/python tools/sessions.py
	@$(BIN)/python tools/answers.py
	@$(BIN)/python tools/picture.py
	@$(BIN)/python tools/explorer_pictures.py
	@$(BIN)/python tools/site_pages.py

explorer: setup ## build the page of `omnigraph serve` into the package
	@$(BIN)/python tools/build_explorer.py

vscode: setup ## build the extension for VS Code: editors/vscode/dist/omnigraph.vsix
	@$(BIN)/python tools/build_vscode.py

dist: setup explorer ## a wheel and an sdist in dist/, from locked tools, with the explorer built
	@$(BIN)/hatchling build

lock: setup ## write requirements.lock anew from the ranges in pyproject.toml
	@bash tools/lock.sh "$(VENV)"

clean:
	rm -rf $(VENV) $(PEERS) .venv.lock $(PEERS).lock .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist site omnigraph-demo src/omnigraph/server/explorer explorer/node_modules editors/vscode/node_modules editors/vscode/dist

# Always asked, and quick when there is nothing to do: the script knows what the environment was made from.
setup:
	@PYTHON="$(PYTHON)" bash tools/setup.sh "$(VENV)"

setup-bench:
	@PYTHON="$(PYTHON)" bash tools/setup.sh "$(PEERS)" requirements-bench.lock
