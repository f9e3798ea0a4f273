# Every target works on a fresh clone: what it needs is installed into .venv or into the cache folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup run test sim check interop e2e bench generate lock clean

help:            ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP)  ## .venv with the package and all it needs

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not ((3, 11) <= sys.version_info < (3, 14)))' || \
	  { echo "Barnabas needs Python 3.11, 3.12 or 3.13; set one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "The venv module is missing; install it first, for example: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@# Byte code ahead of time: the first start is then as quick as the second, also where Python may not write it.
	$(BIN)/python -m compileall -q protocol client broker operator cli
	@touch $@

run: setup       ## one broker on 127.0.0.1:9092, data in ./data
	$(BIN)/barnabas dev --data ./data

test: setup      ## unit, property and in-process tests
	$(BIN)/python -m pytest

sim: setup       ## brokers and whole clusters on virtual time; SEED=n repeats one story, SIM_SEEDS=n runs more
	$(if $(SEED),SEED=$(SEED)) $(if $(SIM_SEEDS),SIM_SEEDS=$(SIM_SEEDS)) $(BIN)/python -m pytest -q tests/simulation
	$(if $(SEED),SEED=$(SEED)) $(if $(SIM_SEEDS),SIM_SEEDS=$(SIM_SEEDS)) $(BIN)/python -m tests.simulation.cluster

check: setup     ## format, lint, types, import contracts, tidiness
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy -p dashboards -p charts
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py

interop: setup   ## real clients, Kafka's tools and a real Apache Kafka
	$(BIN)/python -m pytest -m interop tests

e2e: setup       ## images, chart, operator and faults on a real Kubernetes
	$(BIN)/python -m pytest -m e2e tests/e2e

bench: setup     ## Barnabas beside Apache Kafka on this machine
	$(BIN)/python -m benchmarks.run

generate: setup  ## dashboards, and the chart's copies, schema and README
	$(BIN)/python -m dashboards.generate
	$(BIN)/python -m charts.generate

lock:            ## renew requirements/*.txt (needs uv on the PATH)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --extra broker pyproject.toml -o requirements/broker.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --extra broker --extra dev pyproject.toml -o requirements/dev.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --extra operator pyproject.toml -o requirements/operator.txt
	echo 'hatchling>=1.27' | uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header - -o requirements/build.txt

clean:           ## removes the .venv and caches, never data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
