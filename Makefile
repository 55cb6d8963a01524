# Every target needs nothing but a Python 3.11 and a network on its first run.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The modules that mypyc compiles, one of C, and when that was; without a C compiler all is Python.
TYPED := $(addprefix service/,$(shell cat deploy/release/native/compiled.txt))
HEAP := service/estimator/memory/allocator/native
COMPILED := $(TYPED:.py=*.so) service/estimator/compiled*.so $(HEAP)_heap*.so
NATIVE := $(VENV)/.native
BUILDER := deploy/release/native/build_native.py deploy/release/native/compiled.txt
# One more than there are cores, up to four: tests of processes wait a good deal.
PROCESSES ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$(( n < 4 ? n + 1 : 4 )))

.DEFAULT_GOAL := help
.PHONY: help setup run test tested quick touched check types lint fmt imports compiled bench bench-page hooks accuracy traced traces priors chaos slurm clients load contract client corpus parsers packaging gpu-sweep gpu-check test-gpu clean

help: ## print these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) $(NATIVE) ## make .venv with everything that running and testing need

# pip compiles on one core what it installs, compileall on all; files for other Pythons do not compile.
$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements.lock
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests/' $(VENV)/lib || true
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(NATIVE): $(BUILDER) $(TYPED) $(wildcard $(HEAP)/*) | $(STAMP)
	rm -f $(COMPILED)
	-$(BIN)/python $(firstword $(BUILDER))
	@touch $@

# Recordings of models are kept between starts, so that a first answer does not wait for them.
run: $(STAMP) $(NATIVE) ## start everything embedded on http://127.0.0.1:8000
	HEADROOM_CACHE_DIR="$${HEADROOM_CACHE_DIR-$${XDG_CACHE_HOME:-$$HOME/.cache}/headroom}" $(BIN)/headroom up

test: $(STAMP) ## run every check and every test: what CI runs
	$(MAKE) --no-print-directory --jobs 2 --output-sync $(NATIVE) lint imports compiled
	$(MAKE) --no-print-directory --jobs 2 types tested

# mypy is one process for a minute: beside the tests, which wait a good deal, it costs no time of its own.
tested: $(STAMP) $(NATIVE)
	$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal --durations 20

quick: $(STAMP) ## lint, types and the tests that the change since main touches, within 90 seconds
	$(MAKE) --no-print-directory --jobs 2 --output-sync touched check

touched: $(STAMP) $(NATIVE)
	$(BIN)/python -m tests.quick $(ARGS)

check: lint types imports ## ruff, mypy --strict, import contracts

lint: $(STAMP) ## ruff: format and all rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

fmt: $(STAMP) ## format and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy

imports: $(STAMP) ## the import table of the rooms
	$(BIN)/lint-imports

# Hundreds of processes of a test run start from these, also where the environment keeps Python from writing any.
compiled: $(STAMP)
	$(BIN)/python -m compileall -q service worker migrations tests

bench: $(STAMP) $(NATIVE) ## print the speed of estimate, of the API and of a cold CLI
	$(BIN)/python -m tests.bench

bench-page: $(STAMP) ## print how soon the dashboard repaints after a key, in headless Chromium
	$(BIN)/python -m tests.bench.repricing

hooks: $(STAMP) $(NATIVE) ## print what each scheduler's hook takes of a server, on the clock and of a processor (ARGS='--asked 20' for a look)
	$(BIN)/python -m tests.bench.hooks $(ARGS)

accuracy: $(STAMP) ## score the estimator against tests/data/truth and print the table
	$(BIN)/python -m tests.accuracy

traced: $(STAMP) ## trace every case of the truth anew, ranks too, and compare; ARGS names single cases
	$(BIN)/python -m tests.accuracy.traced $(ARGS)

traces: $(STAMP) ## trace anew what tests keep in tests/data/traces; ARGS names tests whose traces are added
	$(BIN)/python -m tests.traces $(ARGS)

priors: $(STAMP) ## trace what is shipped as measured, and keep what the estimator does not meet by itself
	$(BIN)/python -m tests.accuracy.priors --write --ship

chaos: $(STAMP) ## kill everything at random, 200 jobs: nothing lost, twice or wrong; prints how soon all is well again
	$(BIN)/python -m tests.chaos

slurm: $(STAMP) ## submit every rendered job to a real Slurm in a chroot: needs root and debootstrap, installs Debian's Slurm once
	$(BIN)/python -m tests.schedulers.slurm

clients: $(STAMP) ## put the real Ray, SkyPilot and dstack through our doors (ARGS names some): installs them once beside the repository
	$(BIN)/python -m tests.schedulers.clients $(ARGS)

crds: $(STAMP) ## put every rendered object, and the controller for Kueue, before a real Kubernetes API server: needs root, debootstrap and git clones under CLONES; builds the server once
	$(BIN)/python -m tests.schedulers.crds --clones $(CLONES) $(ARGS)

load: $(STAMP) ## put two replicas under 500 fits a second for a minute, while measurements run
	$(BIN)/python -m tests.load $(ARGS)

contract: $(STAMP) ## hold the running API against its OpenAPI document with Schemathesis, three seeds: twenty minutes
	$(BIN)/python -m tests.e2e.contract $(ARGS)

client: $(STAMP) ## generate the Python client and docs/fields.md anew, after a change of routes or schemas
	$(BIN)/python -m deploy.release.client --write

corpus: $(STAMP) ## read a thousand public launch files from git clones under CLONES, and count what became of them
	$(BIN)/python -m tests.corpus --clones $(CLONES) $(ARGS)

parsers: $(STAMP) ## compare our readings with those of axolotl, LLaMA-Factory, TRL and accelerate in the environment of PYTHON_OF_PARSERS
	$(BIN)/python -m tests.corpus.parsers --python $(PYTHON_OF_PARSERS) $(ARGS)

packaging: $(STAMP) ## install the wheel into an empty environment and run the commands of the images; needs a package index
	$(BIN)/python -m deploy.release.packaging $(ARGS)

gpu-sweep: $(STAMP) ## measure over a hundred configurations on this machine's GPU into OUT (sweep.jsonl), beside their predictions
	$(BIN)/python -m tests.gpu.sweep --out $(or $(OUT),sweep.jsonl)

gpu-check: $(STAMP) ## say what works on this machine's GPU
	$(BIN)/python -m worker.probes.cuda.check

test-gpu: $(STAMP) ## the tests that need a GPU
	$(BIN)/python -m pytest tests/gpu

clean: ## remove caches and the environment
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info $(COMPILED)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
