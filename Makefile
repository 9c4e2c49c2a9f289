# Everything a newcomer or CI needs, each in one word. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup run run-fleet test test-all check fmt bench docs build clean

help: ## list these words
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One stamp per set of extras: pip is asked again only when the requirements have changed.
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

test: $(VENV)/.test ## run the whole test suite
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-all: $(VENV)/.test ## the suite with long properties and many crash cycles
	ONBEAT_TEST_PROFILE=long ONBEAT_CRASH_CYCLES=200 $(BIN)/python -m pytest -n 2 --dist loadgroup --timeout=3600

check: $(VENV)/.test+lint ## format, lint, both type checkers, import contracts, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/codespell src docs README.md CHANGELOG.md

fmt: $(VENV)/.test+lint ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench ## measure Onbeat beside its peers; results go to benchmarks/results
	$(BIN)/python -m benchmarks

docs: $(VENV)/.test ## write the generated reference pages anew
	$(BIN)/python -m onbeat.settings.reference > docs/reference/settings.md
	$(BIN)/python -m onbeat.cli.reference > docs/reference/cli.md

build: $(VENV)/.test ## build the wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## remove the virtual environment and what tools left behind
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .run
