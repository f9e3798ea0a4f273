# Every target works on a fresh clone: what it needs is installed into .venv or into the cache folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Spark weighs half a gigabyte, so it has an environment of its own.
SPARK_VENV := .venv-spark
SPARK_BIN := $(SPARK_VENV)/bin
SPARK_STAMP := $(SPARK_VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup run test sim check attack interop spark e2e soak bench generate lock clean

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
	$(BIN)/python -m compileall -q protocol client broker operator pipelines cli
	@touch $@

run: setup       ## one broker on 127.0.0.1:9092, data in ./data
	$(BIN)/barnabas dev --data ./data

test: setup      ## unit, property and in-process tests; JOBS=n in so many processes
	$(BIN)/python -m pytest$(if $(JOBS), -n $(JOBS))

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

attack: setup    ## hostile input for real brokers beside a well-behaved client; QUICK=1 for less than a minute
	$(BIN)/python -m tests.attack $(if $(QUICK),--quick) $(if $(SEED),--seed $(SEED))

interop: setup   ## real clients, Kafka's tools and a real Apache Kafka
	$(BIN)/python -m pytest -m interop tests

spark: $(SPARK_STAMP)  ## pipelines on a real Spark beside a real broker; needs Java 17 or newer
	$(SPARK_BIN)/mypy -p barnabas_pipelines
	$(SPARK_BIN)/python -m pytest -m spark tests/pipelines

$(SPARK_STAMP): requirements/pipelines-dev.txt requirements/pipelines-build.txt pyproject.toml
	@command -v java >/dev/null || \
	  { echo "Spark needs Java 17 or newer; install it first, for example: apt-get install openjdk-17-jre-headless"; exit 1; }
	@command -v mvn >/dev/null || \
	  { echo "Spark's Kafka connector comes from Maven; install it first, for example: apt-get install maven"; exit 1; }
	$(PYTHON) -m venv $(SPARK_VENV)
	$(SPARK_BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/pipelines-build.txt
	@# pyspark is a source archive only: a package is made of it here, which takes two minutes once.
	$(SPARK_BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-build-isolation \
	  -r requirements/pipelines-dev.txt
	$(SPARK_BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

e2e: setup       ## images, chart, operator and faults on a real Kubernetes; QUICK=1 for five minutes of it
	$(BIN)/python -m pytest -m "e2e$(if $(QUICK), and quick)" tests/e2e

soak: setup      ## five real brokers, three clients, faults at random for MINUTES=n (10); needs root
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),10)$(if $(FAULTS), --faults $(FAULTS))$(if $(SEED), --seed $(SEED))

bench: setup     ## Barnabas beside Apache Kafka on this machine
	$(BIN)/python -m benchmarks.run

generate: setup  ## dashboards, the chart's copies, schema and README, the reference of Spark's jobs
	$(BIN)/python -m dashboards.generate
	$(BIN)/python -m charts.generate
	$(BIN)/python -m barnabas_pipelines.jobs.reference

lock:            ## renew requirements/*.txt (needs uv on the PATH)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --extra broker pyproject.toml -o requirements/broker.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --extra broker --extra dev pyproject.toml -o requirements/dev.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --extra operator pyproject.toml -o requirements/operator.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --extra pipelines pyproject.toml -o requirements/pipelines.txt
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --extra pipelines --extra dev pyproject.toml -o requirements/pipelines-dev.txt
	printf 'setuptools\nwheel\n' | uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header - -o requirements/pipelines-build.txt
	echo 'hatchling>=1.27' | uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header - -o requirements/build.txt

clean:           ## removes the .venv and caches, never data
	rm -rf $(VENV) $(SPARK_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
