# The commands for development and CI. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start many processes: each that may not keep what it compiled would compile all of Onbeat anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: $(shell awk -F: '/^[a-z-]+:.*## /{print $$1}' Makefile)

help: ## list these words
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One stamp per set of extras: they are installed again only when the requirements have changed. uv needs a
# fifth of the time of pip for it. Without compiled modules the first tests would wait for the compiler.
$(VENV)/.%: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --retries 10 --constraint constraints.txt uv
	@echo "installing onbeat[$(subst +,$(comma),$*)] into $(VENV) ..."
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt \
	  --editable '.[$(subst +,$(comma),$*)]'
	@touch $@
comma := ,

# The tests of the dashboard need a browser; Debian's own is taken where there is none.
$(VENV)/.browser:
	@mkdir -p $(VENV)
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; } >$(VENV)/browser.log 2>&1 \
	  || { echo "the tests of the dashboard need Chromium: apt-get install chromium"; exit 1; }
	@touch $@

# The alerts are tried by Prometheus's own tool, of which Debian's package is unpacked, not installed.
$(VENV)/.promtool:
	@mkdir -p $(BIN)
	@command -v promtool >/dev/null || { cd $(VENV) && { apt-get update -qq; apt-get download -qq prometheus; } \
	  && dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract --strip-components=3 --directory=bin ./usr/bin/promtool \
	  && rm prometheus_*.deb; } >$(VENV)/promtool.log 2>&1 || { echo "the tests of alerts need promtool: apt-get install prometheus"; exit 1; }
	@touch $@

setup: $(VENV)/.test+lint+bench+docs ## install everything for work on Onbeat into .venv

installed: $(VENV)/.test+lint $(VENV)/.docs $(VENV)/.test $(VENV)/.browser $(VENV)/.promtool ## install what `make test` and `make check` need

run: $(VENV)/.server+cel+notify ## start the service on SQLite with a live demo
	@$(BIN)/python examples/demo/run.py

run-fleet: $(VENV)/.server+postgres+rabbitmq ## start a fleet over PostgreSQL and RabbitMQ with what it does
	@$(BIN)/python examples/fleet/run.py

run-backoffice: $(VENV)/.test ## bill a month of workspaces while you look: WORKSPACES=1000 KILL=yes
	@$(BIN)/python applications/backoffice/demo/run.py --workspaces $(or $(WORKSPACES),1000) $(if $(KILL),--kill)

# Tests of the pure half, whose branches are counted: model, rules, recurrence, wire.
PURE := $(addprefix tests/,model rules recurrence wire inputs operations engine)

# These need a processor and little else, so they take what the others leave of it while they wait for
# servers and for processes. What they print comes at their end.
PURE_LOG := .run/test-pure.log

.PHONY: test-pure test-processes
test-pure:
	@mkdir -p $(dir $(PURE_LOG))
	@nice -n 10 $(BIN)/python -m pytest -n 2 --dist loadgroup --cov --cov-report=term $(PURE) >$(PURE_LOG) 2>&1; \
	  code=$$?; cat $(PURE_LOG); exit $$code

test-processes:
	$(BIN)/python -m pytest -n 3 --dist loadgroup $(addprefix --ignore=,$(PURE))

# Each proof adds what it did to this file: kills, restarts, power cuts, and so on.
COUNTS := $(CURDIR)/.run/proofs.jsonl
SUM := $(BIN)/python tests/proof_counts.py

test: export PROOF_COUNTS := $(COUNTS)
test: $(VENV)/.test $(VENV)/.browser $(VENV)/.promtool ## run the whole test suite
	@rm -f $(COUNTS)
	@$(MAKE) --jobs 2 --no-print-directory test-pure test-processes
	$(MAKE) test-applications
	@$(SUM) --of quick $(COUNTS)

# Each application is a project of its own: its modules may have the names of another's.
APPLICATIONS := $(patsubst %/pyproject.toml,%,$(wildcard applications/*/pyproject.toml))

test-applications: $(VENV)/.test ## run the tests of the applications
	@set -e; for folder in $(APPLICATIONS); do \
	  echo "$$folder"; $(BIN)/python -m pytest -n 3 -c $$folder/pyproject.toml $$folder/tests; done

test-all: $(VENV)/.test $(VENV)/.browser $(VENV)/.promtool ## the suite with long properties and many crash cycles
	TEST_PROFILE=long CRASH_CYCLES=200 $(BIN)/python -m pytest -n 2 --dist loadgroup --timeout=3600

proof: export PROOF_COUNTS := $(COUNTS)
proof: $(VENV)/.test ## every long proof on every store and broker, with what they did on one line: KILLS=200 RESTARTS=20 a store, SEEDS=2000
	@rm -f $(COUNTS)
	PROOFS=all KILLS=$(or $(KILLS),200) RESTARTS=$(or $(RESTARTS),20) POWER_CUTS=1000 FAN_OUT_ROWS=20000 \
	  $(BIN)/python -m pytest -n 2 --dist loadgroup --timeout=1800 -m proof
	$(BIN)/python -m onbeat.testing.simulation --seeds $(or $(SEEDS),2000) | $(SUM) --add simulation $(COUNTS)
	@$(SUM) --of full $(COUNTS)

kills: $(VENV)/.test ## kill a fleet with 50 jobs in flight: KILLS=1000 STORE=sqlite|postgres|mysql|all SEED=n
	PYTHONPATH=tests $(BIN)/python -m kills --kills $(or $(KILLS),1000) --store $(or $(STORE),all) $(if $(SEED),--seed $(SEED))

kill-drain: $(VENV)/.test ## kill two workers that drain JOBS=1000000: KILLS=100 STORE=sqlite|postgres|mysql|all SEED=n
	PYTHONPATH=tests $(BIN)/python -m kills.drain --jobs $(or $(JOBS),1000000) --kills $(or $(KILLS),100) \
	  --store $(or $(STORE),all) $(if $(SEED),--seed $(SEED))

soak: $(VENV)/.test ## chaos with a check every 10 minutes: HOURS=8 STORE=sqlite|postgres|mysql|all SEED=n RESUME=file
	PYTHONPATH=tests $(BIN)/python -m soak --hours $(or $(HOURS),8) --store $(or $(STORE),all) \
	  $(if $(SEED),--seed $(SEED)) --resume $(or $(RESUME),.run/soak.jsonl)

planted: $(VENV)/.test ## plant each known bug in a copy of the source, and tell which ones the tests catch: NAMES="M1 M2"
	PYTHONPATH=tests $(BIN)/python -m planted --jobs 2 $(NAMES)

generators: $(VENV)/.test+lint ## generate clients in Python and TypeScript from the OpenAPI document, and use them
	$(BIN)/python tests/generators/run.py

chaos: $(VENV)/.test ## attack a fleet: MINUTES=10 STORE=sqlite|postgres|mysql|all BROKER=rabbitmq|redis SEED=n
	PYTHONPATH=tests $(BIN)/python -m chaos --minutes $(or $(MINUTES),10) --store $(or $(STORE),sqlite) \
	  $(if $(BROKER),--broker $(BROKER)) $(if $(SEED),--seed $(SEED))

simulate: $(VENV)/.test ## run a fleet in virtual time: SEEDS=1000 FIRST=0, or SEED=17 once more
	$(BIN)/python -m onbeat.testing.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),1000) --first $(or $(FIRST),0))

# A history may depend on nothing but its seed: not on the interpreter, nor on the order of its sets.
traces: $(VENV)/.test ## compare simulated histories with those of another Python that has Onbeat: PYTHON=path SEEDS=200
	@mkdir -p .run
	PYTHONHASHSEED=1 $(BIN)/python -m onbeat.testing.simulation --traces --seeds $(or $(SEEDS),200) >.run/traces-here
	PYTHONHASHSEED=2 $(PYTHON) -m onbeat.testing.simulation --traces --seeds $(or $(SEEDS),200) >.run/traces-there
	@diff .run/traces-here .run/traces-there && echo "$(or $(SEEDS),200) histories are the same"

fuzz: $(VENV)/.test ## send long inputs to a service: MINUTES=10 SEED=n
	PYTHONPATH=tests $(BIN)/python -m fuzz --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

# Each checks for itself, so two run at a time; the longest begin first.
CHECKS := $(addprefix check-,pyright types clients site style)

check: $(VENV)/.test+lint $(VENV)/.docs ## format, lint, both type checkers, import contracts, spelling, the site, generated clients
	@$(MAKE) --jobs 2 --output-sync=target --no-print-directory $(CHECKS)

.PHONY: $(CHECKS)
check-pyright:
	$(BIN)/pyright

check-types:
	$(BIN)/mypy
	@set -e; for folder in $(APPLICATIONS); do \
	  echo "$$folder"; MYPYPATH=$$folder/src:$$folder/tests $(BIN)/mypy $$folder; done

check-clients:
	$(BIN)/python tests/generators/run.py

check-site:
	$(SITE)

check-style:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/codespell src docs applications README.md CHANGELOG.md SECURITY.md
	$(BIN)/hadolint deploy/Dockerfile $(wildcard applications/*/Dockerfile)

fmt: $(VENV)/.test+lint ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench ## measure Onbeat beside its peers; results go to benchmarks/results
	$(BIN)/python -m benchmarks

bench-view: $(VENV)/.bench ## measure the dashboard: STORE=sqlite|postgres ENDED=n WAITING=n VIEWERS=n
	$(BIN)/python benchmarks/view.py --store $(or $(STORE),sqlite) --ended $(or $(ENDED),100000) \
	  --waiting $(or $(WAITING),100000) $(if $(VIEWERS),--viewers $(VIEWERS))

# Every warning is an error. The variable is about a later mkdocs, which the requirements leave out.
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs: $(VENV)/.test $(VENV)/.docs ## write the generated reference pages anew, and build the site into .site
	$(BIN)/python -m onbeat.settings.reference > docs/reference/settings.md
	$(BIN)/python -m onbeat.cli.reference > docs/reference/cli.md
	$(BIN)/python -m onbeat.operations.scopes > docs/reference/scopes.md
	PYTHONPATH=tests $(BIN)/python -m inputs.page > docs/reference/limits.md
	PYTHONPATH=tests $(BIN)/python -m security.rows > docs/explain/security.md
	$(SITE)
	@echo "look at it: $(BIN)/python -m http.server --directory .site --bind 127.0.0.1 8000"

pictures: $(VENV)/.test $(VENV)/.browser ## take the pictures of the dashboard that the docs show; others go to .pictures
	$(BIN)/python docs/pictures.py $(PAGES)

build: $(VENV)/.test ## build the wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

audit: $(VENV)/.audit ## ask for known advisories about the packages of the image
	$(BIN)/python deploy/audit.py

# Every extra but those of other frameworks, whose programs bring an image of their own.
IMAGE_EXTRAS := server postgres mysql rabbitmq redis sqs kafka cloudwatch cel notify notify-more otel top

requirements: $(VENV)/.audit ## pin the packages of the image anew, with their hashes
	$(BIN)/pip-compile --quiet --generate-hashes --no-header --no-annotate --strip-extras --allow-unsafe \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --constraint constraints.txt \
	  $(foreach extra,$(IMAGE_EXTRAS),--extra $(extra)) --output-file deploy/requirements.txt pyproject.toml
	sed -i -e '/^onbeat @/d' -e '/^#/d' deploy/requirements.txt

clean: ## remove the virtual environment and what tools left behind
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .run .site .pictures
