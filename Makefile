# Every target works on a fresh clone: what it needs is installed into .venv or into the cache folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Spark weighs half a gigabyte, so it has an environment of its own.
SPARK_VENV := .venv-spark
SPARK_BIN := $(SPARK_VENV)/bin
SPARK_STAMP := $(SPARK_VENV)/.installed
# The documentation site is made by tools that nothing else needs.
DOCS_VENV := .venv-docs
DOCS_BIN := $(DOCS_VENV)/bin
DOCS_STAMP := $(DOCS_VENV)/.installed
# So are the files of a release.
DIST_VENV := .venv-dist
DIST_BIN := $(DIST_VENV)/bin
DIST_STAMP := $(DIST_VENV)/.installed

# The console's page is checked, tested and bundled by tools of npm; nobody who runs Barnabas needs them.
FRONT := console/front
FRONT_STAMP := $(FRONT)/node_modules/.package-lock.json
CONSOLE_STAMP := $(VENV)/.console-installed

# Processes of the tests: one more than there are cores, because tests also wait.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

.DEFAULT_GOAL := help
.PHONY: help setup run test compiled sim check attack interop spark e2e secure soak bench docs images load dist generate lock clean

help:            ## what can be made
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP)  ## .venv with the package and all it needs

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not ((3, 11) <= sys.version_info < (3, 14)))' || \
	  { echo "Barnabas needs Python 3.11, 3.12 or 3.13; set one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "The venv module is missing; install it first, for example: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@# Byte code ahead of time: the first start is then as quick as the second, also where Python may not write it. On all
	@# cores, which pip does not do, and without a thousand classes of Kubernetes' resources, which nothing imports.
	@# A package may bring files that are no Python of this version; whoever imports them would be told.
	-@$(BIN)/python -m compileall -qq -j 0 -x 'kubernetes/(client|aio)/.*(api|models)/' $(VENV)/lib
	$(BIN)/python -m compileall -q protocol client broker operator pipelines console cli testing
	@touch $@

run: setup       ## one broker on 127.0.0.1:9092, data in ./data
	$(BIN)/barnabas dev --data ./data

test: setup      ## unit, property and in-process tests, on all cores; JOBS=n in so many processes, JOBS=0 in this one
	@# Tidiness is looked at by `make check`, and parses every module once for each process.
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --ignore tests/test_tidy.py

compiled: setup  ## the modules that wheels compile, compiled: their tests, stories of clusters, real clients
	$(BIN)/python -m tests.compiled

sim: setup       ## brokers and whole clusters on virtual time; SEED=n repeats one story, SIM_SEEDS=n runs more
	$(if $(SEED),SEED=$(SEED)) $(if $(SIM_SEEDS),SIM_SEEDS=$(SIM_SEEDS)) $(BIN)/python -m pytest -q tests/simulation
	$(if $(SEED),SEED=$(SEED)) $(if $(SIM_SEEDS),SIM_SEEDS=$(SIM_SEEDS)) $(BIN)/python -m tests.simulation.cluster

check: setup     ## format, lint, types, import contracts, tidiness
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy -p dashboards -p charts -p handbook -p benchmarks
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory front; \
	  else echo "npm is missing, so the types of the console's page were not checked; make console does it"; fi

.PHONY: front
front: $(FRONT_STAMP)
	cd $(FRONT) && node_modules/.bin/tsc -p tsconfig.json

$(FRONT_STAMP): $(FRONT)/package-lock.json
	@command -v npm >/dev/null || \
	  { echo "The console's page is checked with node and npm; install them first, for example: apt-get install npm"; exit 1; }
	cd $(FRONT) && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

vendor: $(FRONT_STAMP)  ## the libraries of the console's page, bundled anew from console/front/package-lock.json
	cd $(FRONT) && node vendor.mjs

console: setup $(CONSOLE_STAMP) $(FRONT_STAMP)  ## the console in a real Chromium (CHROME=path) on real brokers, and its bundle
	cd $(FRONT) && node vendor.mjs --check
	@$(MAKE) --no-print-directory front
	$(if $(PICTURES),PICTURES=$(PICTURES)) $(BIN)/python -m pytest -m console tests/console/browser

$(CONSOLE_STAMP): $(STAMP) requirements/console-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/console-dev.txt
	@touch $@

attack: setup    ## hostile input for real brokers beside a well-behaved client; QUICK=1 for less than a minute
	$(BIN)/python -m tests.attack $(if $(QUICK),--quick) $(if $(SEED),--seed $(SEED))

interop: setup   ## real clients, Kafka's tools and a real Apache Kafka; QUICK=1 without what takes minutes for itself, JOBS=n as for test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "interop$(if $(QUICK), and not long)" tests

spark: $(SPARK_STAMP)  ## pipelines on a real Spark beside a real broker; needs Java 17 or newer; JOBS=n as for test
	$(SPARK_BIN)/mypy -p barnabas_pipelines
	$(SPARK_BIN)/python -m pytest -n $(JOBS) --dist loadfile -m spark tests/pipelines

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

e2e: setup $(CONSOLE_STAMP)  ## images, chart, operator and faults on a real Kubernetes; QUICK=1 for five minutes of it, SECURE=1 with security
	$(if $(SECURE),SECURE=$(SECURE)) $(BIN)/python -m pytest -m "e2e$(if $(QUICK), and quick)" tests/e2e

secure: setup    ## what security promises, at length: renewals, changes, fuzzed log-ins, and as root the lab's secure tests
	$(BIN)/python -m tests.security.renewals $(or $(RENEWALS),1000)
	$(BIN)/python -m tests.security.changes $(or $(AUTHORITIES),10) $(or $(PASSWORDS),100)
	$(BIN)/python -m tests.security.fuzzed_logins $(or $(LOGINS),1000000)
	if [ "$$(id -u)" = 0 ]; then $(BIN)/python -m pytest -m e2e tests/e2e/test_secure_*.py; \
	  else echo "The lab needs root: tests/e2e/test_secure_*.py were not run"; fi

soak: setup      ## five real brokers, three clients, faults at random for MINUTES=n (10); needs root
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),10)$(if $(FAULTS), --faults $(FAULTS))$(if $(SEED), --seed $(SEED))

bench: setup     ## Barnabas beside Apache Kafka on this machine
	$(BIN)/python -m benchmarks.run

docs: $(DOCS_STAMP)  ## the documentation site in site/, read without a network; a broken link fails it
	@# The variable silences a note about the next major release of MkDocs, which the lock file rules out.
	NO_MKDOCS_2_WARNING=1 $(DOCS_BIN)/mkdocs build --quiet
	@echo "The site is built: open site/index.html"

$(DOCS_STAMP): requirements/docs.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

# docker, podman or buildah builds the images and has them then; TOOL=podman says which. They need nothing that is installed.
IMAGE_FLAGS = $(if $(TOOL),--tool $(TOOL)) $(if $(REGISTRY),--registry $(REGISTRY)) $(addprefix --target ,$(TARGETS))
BUILD_FLAGS = $(if $(BASE),--base $(BASE)) $(if $(OPTIONS),--options='$(OPTIONS)')

images:          ## the images broker and operator, by docker, podman or buildah; TARGETS='broker operator pipelines' for all
	$(PYTHON) -m releases.images build $(IMAGE_FLAGS) $(BUILD_FLAGS)

load:            ## loads them into a cluster here: KIND=name, MINIKUBE=profile, K3S=1 or CONTAINERD=socket
	@$(if $(KIND)$(MINIKUBE)$(K3S)$(CONTAINERD),,echo 'Say where to: make load KIND=name, MINIKUBE=profile, K3S=1 or CONTAINERD=socket'; exit 1)
	$(PYTHON) -m releases.images load $(IMAGE_FLAGS) $(if $(KIND),--kind $(KIND)) $(if $(MINIKUBE),--minikube $(MINIKUBE)) \
	  $(if $(K3S),--k3s) $(if $(CONTAINERD),--containerd $(CONTAINERD))

dist: $(DIST_STAMP)  ## the files of a release in dist/: wheels, sources, chart, images, SBOMs, checksums; IMAGES=no leaves images out
	$(DIST_BIN)/python -m releases.distribution $(if $(filter no,$(IMAGES)),--no-images) \
	  $(if $(TOOL),--tool $(TOOL)) $(BUILD_FLAGS)

$(DIST_STAMP): requirements/dist.txt requirements/broker.txt pyproject.toml
	$(PYTHON) -m venv $(DIST_VENV)
	$(DIST_BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dist.txt
	$(DIST_BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/broker.txt
	$(DIST_BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

generate: setup  ## dashboards, the chart's copies, schema and README, the drawing of modules, the reference of Spark's jobs, man pages
	$(BIN)/python -m dashboards.generate
	$(BIN)/python -m charts.generate
	$(BIN)/python -m handbook.module_diagram
	$(BIN)/python -m barnabas_pipelines.jobs.reference
	$(BIN)/python -m barnabas_cli.man_pages

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
	printf 'hatchling>=1.27\nmypy[mypyc]>=1.13\nsetuptools\n' | uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header - -o requirements/build.txt
	printf 'cyclonedx-bom>=7\nhatchling>=1.27\nmypy[mypyc]>=1.13\nsetuptools\n' | uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header - -o requirements/dist.txt
	echo 'playwright>=1.50' | uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header -c requirements/dev.txt - -o requirements/console-dev.txt
	echo 'mkdocs-material>=9.6' | uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header - -o requirements/docs.txt

clean:           ## removes the .venv and caches, never data
	rm -rf $(VENV) $(SPARK_VENV) $(DOCS_VENV) $(DIST_VENV) $(FRONT)/node_modules site .mypy_cache .ruff_cache .pytest_cache .hypothesis
