# Needs Python 3.11+ with venv and pip, and make; everything else is installed into this folder.
# Written for GNU make 3.81, the version macOS ships.

PYTHON ?= python3
# Passed through to the tool of the target: make test ARGS="-k claim"
ARGS ?=

VENV := .venv
ENGINE_VENV := .venv-engine
LOCK_VENV := .venv-lock
UV_VERSION := 0.13.7
SOURCES := functions infra tests

# Stamps are newer than the requirement files they were installed from, so nothing is installed twice.
DEV := $(VENV)/.installed-dev
NODE := $(VENV)/.installed-node
ENGINE := $(ENGINE_VENV)/.installed
CDK := node_modules/.installed
LAMBDA_LAYERS := .build/layers/.built-lambda
LOCAL_LAYERS := .build/layers/.built-local

# What a stack on this machine needs, and what a deployment to AWS needs.
LOCAL_STACK := $(DEV) $(NODE) $(ENGINE) $(CDK) $(LOCAL_LAYERS)
AWS_STACK := $(DEV) $(NODE) $(CDK) $(LAMBDA_LAYERS)

INSTALL = $(PYTHON) infra/install.py

# A `node` that set-up installed is in .venv; the CDK looks for it on the path.
WITH_VENV := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

.DEFAULT_GOAL := help
.PHONY: help setup demo local test unit check faults mutants soak bench synth deploy destroy docs fmt lock clean

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(LOCAL_STACK) ## Install all dependencies (other targets do this on demand)

# Everything runs on this machine, and ends with the command.
RUN_LOCAL = @$(WITH_VENV) $(VENV)/bin/python -m oncely_local

demo: $(LOCAL_STACK) ## See it work: ARGS="--jobs 300 --seed 1 --faults none|some|heavy --keep"
	$(RUN_LOCAL) demo $(ARGS)

local: $(LOCAL_STACK) ## Run the stack until Ctrl-C; ARGS=redeploy or ARGS=logs from another terminal
	$(RUN_LOCAL) local $(ARGS)

# One worker per core; ARGS="-n 0" runs in this process, for a debugger.
test: $(LOCAL_STACK) ## Run the tests; make test ARGS="-k claim" runs some of them
	@$(WITH_VENV) $(VENV)/bin/python -m pytest -n auto $(ARGS)

unit: check ## Run the linters, the type checker and the unit tests: the inner loop
	@$(VENV)/bin/python -m pytest -n auto tests/unit $(ARGS)

check: $(DEV) ## Run the linters, the type checker and the import rules
	@echo "ruff check" && $(VENV)/bin/ruff check $(SOURCES)
	@echo "ruff format" && $(VENV)/bin/ruff format --check $(SOURCES)
	@echo "mypy" && $(VENV)/bin/mypy
	@echo "import-linter" && PYTHONPATH=functions $(VENV)/bin/lint-imports --no-logo

# The stage to deploy; settings follow in ARGS: make deploy STAGE=prod ARGS="-c alert_email=…"
STAGE ?= dev
RUN_CDK = @$(WITH_VENV) $(VENV)/bin/python -m oncely_local.cdk_cli

synth: $(AWS_STACK) ## Build the layers and write the template of STAGE to cdk.out
	$(RUN_CDK) synth --quiet -c stage=$(STAGE) $(ARGS)

deploy: $(AWS_STACK) ## Deploy STAGE to the AWS account that you are signed in to
	$(RUN_CDK) deploy -c stage=$(STAGE) $(ARGS)

destroy: $(AWS_STACK) ## Delete STAGE; the archive stays, and in prod all data does
	$(RUN_CDK) destroy -c stage=$(STAGE) $(ARGS)

# A schedule to play again, as `make faults` printed it.
REPLAY ?=

faults: $(DEV) ## Explore fault schedules for every job (ARGS=--beside compares with Powertools; REPLAY='…' replays one)
	@PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.faults $(ARGS) --replay '$(REPLAY)'

mutants: $(DEV) $(ENGINE) ## Break guards in a copy of the code, and see a test fail; ARGS="lease", or ARGS="--random 60 --seed N"
	@PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.mutants $(ARGS)

bench: $(LOCAL_STACK) ## Measure beside Powertools and write docs/benchmarks.md (some minutes)
	@$(WITH_VENV) PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.bench

soak: $(LOCAL_STACK) ## Real processes under kills, outages, faults and skewed clocks; ARGS="--minutes 5 --jobs 2000 --seed 1"
	@$(WITH_VENV) ONCELY_TEST_SIZE=full $(VENV)/bin/python -m pytest -m mass
	@PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.soak $(ARGS)

docs: $(DEV) ## Regenerate the docs pages built from code, and count what jobs cost
	@$(VENV)/bin/python -m oncely.cli.render_docs
	@PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.bench.cost_pages

fmt: $(DEV) ## Format the code and repair what the linter can repair
	@$(VENV)/bin/ruff check --fix-only $(SOURCES)
	@$(VENV)/bin/ruff format $(SOURCES)

# uv only compiles; installing needs pip alone. Its environment is thrown away again.
# No index address is written: where packages come from is the business of the machine that installs.
COMPILE = $(LOCK_VENV)/bin/uv pip compile --no-config --python $(LOCK_VENV)/bin/python --quiet \
  --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
  --custom-compile-command "make lock" $(ARGS)

# The Lambda runtime brings botocore and what only botocore needs; a layer that carried them would be three times the size.
IN_RUNTIME := botocore python-dateutil six urllib3

# The payments and sync layers are always laid over the runtime layer, so they leave out what is there already.
# (A command for the recipe, not $(shell): make would run that before the file is written.)
IN_RUNTIME_LAYER := sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' requirements/layer-runtime.txt

# HubSpot's SDK names requests for a helper that nothing here imports.
UNUSED_IN_SYNC := charset-normalizer idna requests

lock: ## Pin the versions anew from pyproject.toml; ARGS=--upgrade raises them
	@echo "Pinning the versions in requirements/"
	@$(PYTHON) -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(COMPILE) --group dev --output-file requirements/dev.txt
	@$(COMPILE) --group engine --output-file requirements/engine.txt
	@$(COMPILE) --group node --output-file requirements/node.txt
	@$(COMPILE) --group layer-runtime --constraint requirements/dev.txt \
	  $(addprefix --no-emit-package ,$(IN_RUNTIME)) --output-file requirements/layer-runtime.txt
	@$(COMPILE) --group payments --constraint requirements/dev.txt \
	  $$($(IN_RUNTIME_LAYER)) --output-file requirements/layer-payments.txt
	@$(COMPILE) --group sync --constraint requirements/dev.txt \
	  $$($(IN_RUNTIME_LAYER)) $(addprefix --no-emit-package ,$(UNUSED_IN_SYNC)) \
	  --output-file requirements/layer-sync.txt
	@$(COMPILE) --group runtime --constraint requirements/dev.txt \
	  --output-file requirements/layer-local.txt
	@rm -rf $(LOCK_VENV)

clean: ## Remove the environments and the tools' caches
	rm -rf $(VENV) $(ENGINE_VENV) $(LOCK_VENV) node_modules .build cdk.out .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEV): requirements/dev.txt
	@$(INSTALL) $(VENV) requirements/dev.txt --what "Development tools" --editable
	@touch $@

# The CDK runs on Node 20 or newer; a machine that has it keeps its own, whose npm knows its proxies.
$(NODE): requirements/node.txt $(DEV)
	@{ node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' && npm --version; } >/dev/null 2>&1 || { \
	  $(INSTALL) $(VENV) requirements/node.txt --what "Node"; }
	@touch $@

$(ENGINE): requirements/engine.txt
	@$(INSTALL) $(ENGINE_VENV) requirements/engine.txt --what "Local AWS engine"
	@touch $@

$(CDK): package-lock.json $(NODE)
	@echo "CDK command line: installing into node_modules"
	@$(WITH_VENV) npm ci --no-audit --no-fund --no-update-notifier --loglevel=error || { \
	  echo "npm ci failed. If this machine is offline, connect it, or configure npm's registry or proxy, and run the command again." >&2; exit 1; }
	@touch $@

# A layer is built once for each set of pins.
LAYER_INPUTS := $(wildcard requirements/layer-*.txt) infra/oncely_cdk/layers.py
BUILD_LAYERS = @$(VENV)/bin/python -m oncely_cdk.layers

$(LAMBDA_LAYERS): $(LAYER_INPUTS) $(DEV)
	@echo "Lambda layers: building for arm64 into .build"
	$(BUILD_LAYERS) lambda
	@touch $@

$(LOCAL_LAYERS): $(LAYER_INPUTS) $(DEV)
	@echo "Lambda layers: building for this machine into .build"
	$(BUILD_LAYERS) local
	@touch $@
