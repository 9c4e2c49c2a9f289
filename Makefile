# The commands for development and CI. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup run run-fleet test test-all generators chaos fuzz check fmt bench docs build audit requirements clean

help: ## list these words
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One stamp per set of extras: pip runs again only when the requirements have changed.
$(VENV)/.%: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing onbeat[$(subst +,$(comma),$*)] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --retries 10 --constraint constraints.txt --editable '.[$(subst +,$(comma),$*)]'
	@touch $@
comma := ,

setup: $(VENV)/.test+lint+bench ## install everything for work on Onbeat into .venv

run: $(VENV)/.server ## start the service on SQLite with a live demo
	@$(BIN)/python examples/demo.py

run-fleet: $(VENV)/.server+postgres+rabbitmq ## start a fleet over PostgreSQL and RabbitMQ with what it does
	@$(BIN)/python examples/fleet/run.py

# Tests of the pure half, whose branches are counted: model, rules, recurrence, wire.
PURE := $(addprefix tests/,model rules recurrence wire inputs operations engine)

test: $(VENV)/.test ## run the whole test suite
	$(BIN)/python -m pytest -n 3 --dist loadgroup --cov --cov-report=term $(PURE)
	$(BIN)/python -m pytest -n 3 --dist loadgroup $(addprefix --ignore=,$(PURE))

test-all: $(VENV)/.test ## the suite with long properties and many crash cycles
	TEST_PROFILE=long CRASH_CYCLES=200 $(BIN)/python -m pytest -n 2 --dist loadgroup --timeout=3600

generators: $(VENV)/.server ## generate clients from the OpenAPI document and use one (needs the network and npm)
	$(BIN)/python tests/generators/run.py

chaos: $(VENV)/.test ## attack a fleet: MINUTES=10 STORE=sqlite|postgres|mysql|all SEED=n
	PYTHONPATH=tests $(BIN)/python -m chaos --minutes $(or $(MINUTES),10) --store $(or $(STORE),sqlite) $(if $(SEED),--seed $(SEED))

fuzz: $(VENV)/.test ## send long inputs to a service: MINUTES=10 SEED=n
	PYTHONPATH=tests $(BIN)/python -m fuzz --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

check: $(VENV)/.test+lint ## format, lint, both type checkers, import contracts, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/codespell src docs README.md CHANGELOG.md SECURITY.md
	$(BIN)/hadolint deploy/Dockerfile

fmt: $(VENV)/.test+lint ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench ## measure Onbeat beside its peers; results go to benchmarks/results
	$(BIN)/python -m benchmarks

docs: $(VENV)/.test ## write the generated reference pages anew
	$(BIN)/python -m onbeat.settings.reference > docs/reference/settings.md
	$(BIN)/python -m onbeat.cli.reference > docs/reference/cli.md
	$(BIN)/python -m onbeat.operations.scopes > docs/reference/scopes.md
	PYTHONPATH=tests $(BIN)/python -m inputs.page > docs/reference/limits.md

build: $(VENV)/.test ## build the wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

audit: $(VENV)/.audit ## ask for known advisories about the packages of the image
	$(BIN)/python deploy/audit.py

requirements: $(VENV)/.audit ## pin the packages of the image anew, with their hashes
	$(BIN)/pip-compile --quiet --generate-hashes --no-header --no-annotate --strip-extras --allow-unsafe \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --constraint constraints.txt \
	  $(foreach extra,server postgres mysql rabbitmq redis sqs kafka,--extra $(extra)) --output-file deploy/requirements.txt pyproject.toml
	sed -i -e '/^onbeat @/d' -e '/^#/d' deploy/requirements.txt

clean: ## remove the virtual environment and what tools left behind
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .run
