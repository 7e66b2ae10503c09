# Every task of this project. Each sets up what it needs; `make` alone lists them.
# Runs on GNU make from 3.81 (macOS) on.

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SEEN := src tests dags bench tools

# Airflow's folder, configuration and database stay inside the project.
export AIRFLOW_HOME := $(CURDIR)/build/airflow
# Some machines set it; here it would make each start of Python slower.
unexport PYTHONDONTWRITEBYTECODE

CLOCK := started=$$(date +%s)
TOOK := $$(( $$(date +%s) - started )) s

.PHONY: help demo test check fix docs lock bench clean setup format-check lint types contracts docs-check
.DEFAULT_GOAL := help

help:
	@echo "make demo    run the example pipeline in Airflow, on a local cluster: live progress, then a report"
	@echo "make demo-spot  the same on machines that are taken away, with two broken shards: a picture of what ran where"
	@echo "make test    run the tests          (ARGS=… goes to pytest)"
	@echo "make test-cluster  contract and product on real Kubernetes, two versions (root, Linux, Go; 25 to 60 minutes)"
	@echo "make test-e2e  every way to stop, in real Airflow: the newest and 3.1 (PARTS=…; PostgreSQL; 10 minutes)"
	@echo "make cluster  leave real Kubernetes running, say how to use it (VERSION=1.34); make cluster-stop"
	@echo "make soak    1,000 Jobs through all kinds of faults (SEED=… JOBS=… SEEDS=…, how many in a row; CLUSTER=1.34: real Kubernetes)"
	@echo "make check   format, lint, types, layers, docs: look, change nothing"
	@echo "make fix     mend what check found, where a tool can"
	@echo "make docs    write the generated parts of docs/ anew"
	@echo "make bench-triggerer  thousands of waiting triggers beside the Kubernetes provider's (10 minutes)"
	@echo "make bench-local  pods a second through the local cluster (ARGS='--real 1.34': and real Kubernetes)"
	@echo "make bench   measure: what naming the operator costs a DAG file"
	@echo "make lock    choose the newest versions anew: constraints.txt"
	@echo "make clean   remove what was built, .venv included"
	@echo "PYTHON=…     the Python to set up with (3.10 or later); VENV=… the folder (.venv)"

setup: $(READY)

$(READY): pyproject.toml constraints.txt tools/setup
	@PYTHON="$(PYTHON)" sh tools/setup $(VENV)

demo: $(READY)
	@$(BIN)/python tools/demo.py

.PHONY: demo-spot
demo-spot: $(READY)
	@$(BIN)/python -m tools.demo_spot

test: $(READY)
	@$(CLOCK); $(BIN)/python -m pytest $(ARGS) && echo "test: passed in $(TOOK)"

# Real Kubernetes: tests/cluster/.
.PHONY: test-cluster cluster cluster-stop
test-cluster: $(READY)
	@$(BIN)/python -m tests.cluster test

cluster: $(READY)
	@$(BIN)/python -m tests.cluster start $(VERSION)

cluster-stop: $(READY)
	@$(BIN)/python -m tests.cluster stop

# Real Airflow: tests/e2e/.
.PHONY: test-e2e
test-e2e: $(READY)
	@$(CLOCK); $(BIN)/python -m tests.e2e $(PARTS) && echo "test-e2e: passed in $(TOOK)"

check: $(READY)
	@$(CLOCK); $(MAKE) --no-print-directory --keep-going format-check lint types contracts docs-check \
		&& echo "check: format, lint, types, contracts, docs passed in $(TOOK)"

format-check: $(READY)
	@$(BIN)/ruff format --check --quiet $(SEEN) \
		|| { echo "check: format differs in the files above; mend: make fix"; exit 1; }

lint: $(READY)
	@$(BIN)/ruff check --quiet $(SEEN) \
		|| { echo "check: lint found the above; what a tool can mend: make fix"; exit 1; }

types: $(READY)
	@$(BIN)/mypy --no-error-summary || { echo "check: types differ as listed above"; exit 1; }

contracts: $(READY)
	@$(BIN)/lint-imports --no-logo 2>&1 >$(VENV)/contracts.txt \
		|| { cat $(VENV)/contracts.txt; echo "check: an import breaks a layer (docs/architecture.md)"; exit 1; }

docs-check: $(READY)
	@$(BIN)/python tools/docs.py --check

# Faults: tests/faults/.
.PHONY: soak bench-triggerer bench-local
soak: $(READY)
	@$(BIN)/python -m tests.faults

bench-triggerer: $(READY)
	@$(BIN)/python -m bench.triggerer $(ARGS)

bench-local: $(READY)
	@$(BIN)/python -m bench.local_cluster $(ARGS)

fix: $(READY)
	@$(CLOCK); $(BIN)/ruff check --quiet --fix-only $(SEEN); $(BIN)/ruff format --quiet $(SEEN); \
		$(BIN)/python tools/docs.py && echo "fix: done in $(TOOK); make check says what is left"

docs: $(READY)
	@$(BIN)/python tools/docs.py

bench: $(READY)
	@$(BIN)/python bench/dag_parse.py

# Without an index's name, and one file for all Pythons: lines carry markers where versions differ.
lock:
	@test -x $(BIN)/uv || $(MAKE) --no-print-directory setup
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --upgrade --group dev \
		--no-header --no-annotate --output-file constraints.txt pyproject.toml
	@echo "lock: $$(grep -c == constraints.txt) pins in constraints.txt"

clean:
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find src tests dags bench tools -name __pycache__ -prune -exec rm -rf {} +
	@echo "clean: removed $(VENV), build, dist and the tools' caches"
