# Needs Python 3.11+ with venv and pip, and make; everything else is installed into this folder.
# Written for GNU make 3.81, the version macOS ships.

PYTHON ?= python3
# Passed through to the tool of the target: make test ARGS="-k claim"
ARGS ?=

VENV := .venv
ENGINE_VENV := .venv-engine
LOCK_VENV := .venv-lock
AUDIT_VENV := .venv-audit
UV_VERSION := 0.13.7
SOURCES := functions infra tests

# Stamps are newer than the requirement files they were installed from, so nothing is installed twice.
DEV := $(VENV)/.installed-dev
NODE := $(VENV)/.installed-node
ENGINE := $(ENGINE_VENV)/.installed
AUDIT := $(AUDIT_VENV)/.installed
CDK := node_modules/.installed
# In the package of the constructs: its wheel builds the layers, too.
LAYER_PINS := infra/oncely_cdk/requirements
LAMBDA_LAYERS := .build/layers/.built-lambda
LOCAL_LAYERS := .build/layers/.built-local

# What a stack on this machine needs, and what a deployment to AWS needs.
LOCAL_STACK := $(DEV) $(NODE) $(ENGINE) $(CDK) $(LOCAL_LAYERS)
AWS_STACK := $(DEV) $(NODE) $(CDK) $(LAMBDA_LAYERS)

INSTALL = $(PYTHON) infra/install.py

# A `node` that set-up installed is in .venv; the CDK looks for it on the path.
WITH_VENV := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

.DEFAULT_GOAL := help
.PHONY: help setup demo local test unit check faults mutants consumer soak bench synth deploy destroy docs fmt audit lock clean

help:
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { print (n++ ? "\n" : "") substr($$0, 5) ":" } \
	  /^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

##@ To use Oncely

setup: $(LOCAL_STACK) ## Install everything into this folder (other targets do this on demand)

# Everything runs on this machine, and ends with the command.
RUN_LOCAL = @$(WITH_VENV) $(VENV)/bin/python -m oncely_local

demo: $(LOCAL_STACK) ## Run hundreds of jobs under faults; ARGS="--jobs 300 --seed 1 --faults none|some|heavy --keep"
	$(RUN_LOCAL) demo $(ARGS)

local: $(LOCAL_STACK) ## Run the stack on this machine until Ctrl-C; ARGS=redeploy or ARGS=logs from another terminal
	$(RUN_LOCAL) local $(ARGS)

# The stage to deploy. Its settings are in stages/$(STAGE).toml.
STAGE ?= dev
RUN_CDK = @$(WITH_VENV) $(VENV)/bin/python -m oncely_local.cdk_cli

synth: $(AWS_STACK) ## Build the layers and write the template of STAGE to cdk.out
	$(RUN_CDK) synth --quiet -c stage=$(STAGE) $(ARGS)

deploy: $(AWS_STACK) ## Deploy STAGE to your AWS account, with the settings in stages/STAGE.toml
	$(RUN_CDK) deploy -c stage=$(STAGE) $(ARGS)

destroy: $(AWS_STACK) ## Delete the stack of STAGE; the archive is retained, and in production all data is
	$(RUN_CDK) destroy -c stage=$(STAGE) $(ARGS)

##@ To work on Oncely itself

# Bytecode is kept, also where the environment says otherwise: each of about 100 processes that a run
# starts would compile the engine, and each worker all tests.
PYTEST := PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest -n auto

# One worker per core; ARGS="-n 0" runs in this process, for a debugger.
test: $(LOCAL_STACK) ## Run every test; ARGS="-k claim" runs some of them
	@$(WITH_VENV) $(PYTEST) $(ARGS)

unit: check ## Run the linters, the type checker and the unit tests: the inner loop
	@$(PYTEST) tests/unit $(ARGS)

check: $(DEV) ## Run the linters, the type checker and the import rules
	@echo "ruff check" && $(VENV)/bin/ruff check $(SOURCES)
	@echo "ruff format" && $(VENV)/bin/ruff format --check $(SOURCES)
	@echo "mypy" && $(VENV)/bin/mypy
	@echo "import-linter" && PYTHONPATH=functions $(VENV)/bin/lint-imports --no-logo

# A schedule to play again, as `make faults` printed it.
REPLAY ?=

faults: $(DEV) ## Explore fault schedules for every job (ARGS=--beside compares with Powertools; REPLAY='…' replays one)
	@PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.faults $(ARGS) --replay '$(REPLAY)'

mutants: $(DEV) $(ENGINE) ## Break each guard in a copy of the code and check that a test fails; ARGS=lease, or ARGS="--random 60 --seed N"
	@PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.mutants $(ARGS)

bench: $(LOCAL_STACK) ## Measure Oncely and Powertools, and write docs/benchmarks.md (minutes); ARGS=gate measures only the gate
	@$(WITH_VENV) PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.bench $(ARGS)

consumer: $(DEV) $(NODE) $(ENGINE) $(CDK) ## Use the built wheel as a team would, and follow the quickstart in a fresh clone
	@$(WITH_VENV) PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.consumer

soak: $(LOCAL_STACK) ## Run the slow tests, then thousands of jobs in processes that are killed; ARGS="--minutes 5 --jobs 2000 --seed 1"
	@$(WITH_VENV) ONCELY_TEST_SIZE=full $(VENV)/bin/python -m pytest -m "mass or slow"
	@PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.soak $(ARGS)
	@$(WITH_VENV) PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.soak.outage --minutes 2
	@$(WITH_VENV) PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.soak.audit
	@$(WITH_VENV) PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.soak.pause

docs: $(DEV) ## Regenerate the docs pages built from code, and count what jobs cost
	@$(VENV)/bin/python -m oncely.cli.render_docs
	@PYTHONPATH=functions:infra:. $(VENV)/bin/python -m tests.bench.cost_pages

fmt: $(DEV) ## Format the code and fix what the linter can fix
	@$(VENV)/bin/ruff check --fix-only $(SOURCES)
	@$(VENV)/bin/ruff format $(SOURCES)

audit: $(AUDIT) ## Write an SBOM of what ships to Lambda, and look up known vulnerabilities
	@$(AUDIT_VENV)/bin/python infra/audit.py

# uv only compiles; installing needs pip alone. Its environment is thrown away again.
# No index address is written: where packages come from is the business of the machine that installs.
COMPILE = $(LOCK_VENV)/bin/uv pip compile --no-config --python $(LOCK_VENV)/bin/python --quiet \
  --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
  --custom-compile-command "make lock" $(ARGS)

# The Lambda runtime brings botocore and what only botocore needs; a layer that carried them would be three times the size.
IN_RUNTIME := botocore python-dateutil six urllib3

# The groups `layer-…` of pyproject.toml with the providers' SDKs.
PROVIDER_LAYERS := $(filter-out runtime,$(shell sed -n 's/^layer-\([a-z]*\) = .*/\1/p' pyproject.toml))

# These layers are always laid over the runtime layer, so they leave out what is there already.
# (A command for the recipe, not $(shell): make would run that before the file is written.)
IN_RUNTIME_LAYER := sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' $(LAYER_PINS)/layer-runtime.txt

lock: ## Pin the versions from pyproject.toml; ARGS=--upgrade raises them
	@echo "Pinning the versions in requirements/ and $(LAYER_PINS)/"
	@$(PYTHON) -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(COMPILE) --group dev --output-file requirements/dev.txt
	@$(COMPILE) --group engine --output-file infra/oncely_local/requirements.txt
	@$(COMPILE) --group audit --output-file requirements/audit.txt
	@$(COMPILE) --group node --output-file requirements/node.txt
	@$(COMPILE) --group layer-runtime --constraint requirements/dev.txt \
	  $(addprefix --no-emit-package ,$(IN_RUNTIME)) --output-file $(LAYER_PINS)/layer-runtime.txt
	@$(foreach layer,$(PROVIDER_LAYERS),$(COMPILE) --group layer-$(layer) --constraint requirements/dev.txt \
	  $$($(IN_RUNTIME_LAYER)) --output-file $(LAYER_PINS)/layer-$(layer).txt &&) true
	@$(COMPILE) --group runtime --constraint requirements/dev.txt \
	  --output-file $(LAYER_PINS)/layer-local.txt
	@rm -rf $(LOCK_VENV)

clean: ## Remove everything that was installed or built
	rm -rf $(VENV) $(ENGINE_VENV) $(LOCK_VENV) $(AUDIT_VENV) node_modules .build cdk.out .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEV): requirements/dev.txt
	@$(INSTALL) $(VENV) requirements/dev.txt --what "Development tools" --editable
	@touch $@

# The CDK runs on Node 20 or newer; a machine that has it keeps its own, whose npm knows its proxies.
$(NODE): requirements/node.txt $(DEV)
	@{ node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' && npm --version; } >/dev/null 2>&1 || { \
	  $(INSTALL) $(VENV) requirements/node.txt --what "Node"; }
	@touch $@

$(ENGINE): infra/oncely_local/requirements.txt
	@$(INSTALL) $(ENGINE_VENV) infra/oncely_local/requirements.txt --what "Local AWS engine"
	@touch $@

$(AUDIT): requirements/audit.txt
	@$(INSTALL) $(AUDIT_VENV) requirements/audit.txt --what "Audit tools"
	@touch $@

$(CDK): package-lock.json $(NODE)
	@echo "CDK command line: installing into node_modules"
	@$(WITH_VENV) npm ci --no-audit --no-fund --no-update-notifier --loglevel=error || { \
	  echo "npm ci failed. If this machine is offline, connect it, or configure npm's registry or proxy, and run the command again." >&2; exit 1; }
	@touch $@

# A layer is built once for each set of pins.
LAYER_INPUTS := $(wildcard $(LAYER_PINS)/layer-*.txt) infra/oncely_cdk/layers.py
BUILD_LAYERS = @$(VENV)/bin/python -m oncely_cdk.layers

$(LAMBDA_LAYERS): $(LAYER_INPUTS) $(DEV)
	@echo "Lambda layers: building for arm64 into .build"
	$(BUILD_LAYERS) lambda
	@touch $@

$(LOCAL_LAYERS): $(LAYER_INPUTS) $(DEV)
	@echo "Lambda layers: building for this machine into .build"
	$(BUILD_LAYERS) local
	@touch $@
