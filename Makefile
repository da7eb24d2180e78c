# Requirements: python3 >= 3.11 and make. `make` without a target lists the commands.

VENV := .venv
BIN := $(VENV)/bin
CONF ?= conf/gate.yaml
CASE ?= chat
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 600
CHAOS_SECONDS ?= 600
KEY ?= $(HOME)/.ssh/id_ed25519
STAMPS := $(VENV)/stamps
NODE_TESTS := qa/node
AGENTS := qa/agents
# One process more than cores, because tests also wait: for time-outs, and for processes that start and end.
TEST_PROCESSES ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$(( cores < 3 ? cores + 1 : 4 )))
# A test that ends its process runs once more, in a new one: a second end is no chance, and the run ends.
PYTEST = $(BIN)/python -m pytest -n $(TEST_PROCESSES) --max-worker-restart 1 --dist loadfile --no-loadscope-reorder
SETUPS := setup.py tornado_gate/_version.py $(wildcard plugins/*/setup.py)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
# Without bytecode each start of the gateway compiles 670 modules (1.4 s of CPU time), and each test process all tests (20 s).
unexport PYTHONDONTWRITEBYTECODE

# pip and npm keep their caches in HOME. If HOME is not writable, the caches are placed in .venv.
ifneq ($(shell test -n "$$HOME" && test -w "$$HOME" && echo yes),yes)
export PIP_CACHE_DIR := $(CURDIR)/$(VENV)/cache/pip
export npm_config_cache := $(CURDIR)/$(VENV)/cache/npm
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install run test qa cluster fuzz soak chaos coverage lint hooks docs matrix reference messages conformance agents screenshots check-rules check-mysql bench bench-self bench-instructions bench-profile check-deploy lock audit version release-check dist dist-check sbom sign clean moved

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' Makefile

install: $(STAMPS)/runtime ## create .venv with the gateway and its plugins; installs .venv/bin/tornado-gate
	@$(BIN)/python -m compileall -q tornado_gate plugins/*/tornado_gate_* # otherwise every start compiles, if bytecode cannot be written

run: install ## install, then serve conf/gate.yaml (CONF=FILE: another file, PORT=N: another port)
	$(BIN)/tornado-gate serve --conf $(CONF) $(if $(filter command%,$(origin PORT)),--port $(PORT))

test: $(STAMPS)/dev $(NODE_TESTS)/node_modules/.stamp ## install the test requirements, then prove everything by representatives (PYTEST_ARGS=…: select tests)
	$(PYTEST) -m "not qa" $(PYTEST_ARGS)

qa: $(STAMPS)/dev $(NODE_TESTS)/node_modules/.stamp ## run all other tests: vendors, clients, whole systems, products of many cases; all examples of property tests (QA_ARGS=…)
	$(PYTEST) -m "(qa or hypothesis) and not history" $(QA_ARGS)

cluster: $(STAMPS)/dev ## several nodes with PostgreSQL and Valkey: partitions, rolling restarts, wrong clocks (part of `make qa`), upgrades from the code in git
	$(PYTEST) qa/cluster $(PYTEST_ARGS)

fuzz: $(STAMPS)/dev ## more examples for all property tests and for /openapi.json, for FUZZ_SECONDS (default 600)
	$(BIN)/python -m qa.fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_ARGS)

soak: $(STAMPS)/dev ## mixed traffic against failing upstreams for SOAK_SECONDS (default 600); every answer is checked (SOAK_ARGS=…)
	$(BIN)/python -m bench.soak --seconds $(SOAK_SECONDS) $(SOAK_ARGS)

chaos: $(STAMPS)/dev ## the same with kills, restarts and reloads, for CHAOS_SECONDS (CHAOS_ARGS=--postgres: and of PostgreSQL)
	$(BIN)/python -m bench.soak --chaos --seconds $(CHAOS_SECONDS) $(CHAOS_ARGS)

coverage: $(STAMPS)/dev $(NODE_TESTS)/node_modules/.stamp ## run the tests of `make test` and `make qa`, and write the coverage report htmlcov/ (PYTEST_ARGS=…)
	$(PYTEST) --cov --cov-report=html --cov-report=term:skip-covered $(PYTEST_ARGS)

hooks: $(STAMPS)/dev ## install the pre-commit hooks: check style, types and layout before each commit
	$(BIN)/python -m pip install -qq pre-commit
	$(BIN)/pre-commit install

lint: $(STAMPS)/dev ## check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMPS)/dev ## build the documentation site in site/, without a network; a wrong link is an error (DOCS_ARGS=…)
	SOURCE_DATE_EPOCH=0 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build $(DOCS_ARGS)
	@echo "Built site/. To read and search it: $(BIN)/python -m http.server --directory site --bind 127.0.0.1 8000"

matrix: $(STAMPS)/dev ## regenerate docs/reference/matrix.md and docs/plugins/plugin-support.md: what is supported by format and provider
	$(BIN)/python -m qa.matrix

reference: $(STAMPS)/dev ## regenerate the reference in docs/: hooks, types, commands, routes, error codes; tables of conf and metrics
	$(BIN)/python -m tests.reference

messages: $(STAMPS)/dev ## bring the catalogues of the console's languages up to date, and say what is not translated
	$(BIN)/python -m tests.languages

conformance: $(STAMPS)/dev ## run public conformance suites and schemas, write docs/reference/conformance.md
	$(BIN)/python -m qa.conformance

agents: $(STAMPS)/dev $(AGENTS)/node_modules/.stamp ## install coding agents (1.4 GB), run them, write docs/recipes/agents.md (AGENTS_ARGS=…: select runs)
	$(BIN)/python -m qa.agents $(AGENTS_ARGS)

screenshots: $(STAMPS)/dev $(NODE_TESTS)/node_modules/.stamp ## screenshots of the console in docs/screenshots, and docs/contributing/console-measures.md
	$(BIN)/python -m qa.browser.measure

check-rules: $(STAMPS)/dev ## evaluate the alert rules of deploy/ with promtool, during real faults; needs promtool of Prometheus
	$(BIN)/python -m tests.deploy.check_rules

check-mysql: $(STAMPS)/dev ## import the database of another gateway from MariaDB; needs mariadbd, such as Debian's mariadb-server
	@$(BIN)/python -m pip install -qq -e '.[mysql]'
	$(BIN)/python -m tests.cli.importing.check_mysql

bench: $(STAMPS)/dev ## install other gateways in bench/.peers, compare with them, write bench/RESULTS.md (BENCH_ARGS=…)
	$(BIN)/python -m bench.install
	$(BIN)/python -m bench.compare $(BENCH_ARGS)

bench-self: $(STAMPS)/dev ## CPU time per request; count what it executes, compare with bench/costs.json (BENCH_ARGS=--update: keep gains)
	$(BIN)/python -m bench.ratio
	$(BIN)/python -m bench.costs $(BENCH_ARGS)

bench-instructions: $(STAMPS)/dev ## count the CPU instructions of requests with valgrind, compare with kept counts (BENCH_ARGS=--keep: keep them)
	$(BIN)/python -m bench.instructions $(BENCH_ARGS)

bench-profile: $(STAMPS)/dev ## profile one benchmark case (CASE=chat)
	$(BIN)/python -m bench.profiling $(CASE) $(BENCH_ARGS)

check-deploy: $(STAMPS)/dev $(STAMPS)/deploy ## check deploy/ with the makers' tools; needs Debian's nginx-light, caddy, systemd, python3-venv
	$(BIN)/python -m qa.deploy $(VENV)/deploy

lock: ## resolve requirements.lock and requirements-build.lock anew: versions and hashes of what a release installs
	$(BIN)/python -m pip install -qq uv
	sh tools/lock.sh $(BIN)/uv
	$(BIN)/python tools/list_licences.py

audit: $(STAMPS)/audit ## search the locked distributions for known vulnerabilities; error 1: found, error 2: no data (AUDIT_ARGS=…)
	@$(VENV)/audit/bin/python tools/audit.py requirements.lock $(AUDIT_ARGS)

version: $(STAMPS)/venv ## set one version for all distributions and the chart (VERSION=0.2.0)
	$(BIN)/python tools/set_version.py $(VERSION)

release-check: dist dist-check sbom ## build a release, install it into empty environments, serve with it, upgrade old data (FROM=REF)
	$(BIN)/python -m qa.release $(if $(FROM),--from $(FROM))

dist: $(STAMPS)/dev ## build the archives and wheels of the gateway and every plugin into dist/
	sh tools/build_dist.sh $(BIN)/python

dist-check: ## check the files in dist/ and install them into an empty environment
	sh tools/check_dist.sh $(BIN)/python

sbom: ## write dist/sbom.cdx.json: all distributions that dist/ installs, with version and licence
	$(BIN)/python -m pip install -qq cyclonedx-bom
	$(BIN)/python -m cyclonedx_py environment dist/venv -o dist/sbom.cdx.json

sign: ## write and sign dist/SHA256SUMS (KEY=a private SSH key)
	cd dist && sha256sum *.whl *.tar.gz sbom.cdx.json > SHA256SUMS
	ssh-keygen -Y sign -f $(KEY) -n file dist/SHA256SUMS

clean: ## remove everything that these commands created, except var/
	rm -rf $(VENV) bench/.peers bench/var $(NODE_TESTS)/node_modules $(AGENTS)/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis .tox build dist site htmlcov .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf *.egg-info plugins/*/*.egg-info plugins/*/build

# A virtual environment contains absolute paths: it is recreated in a moved or copied checkout.
ifneq ($(shell cat $(STAMPS)/venv 2>/dev/null),$(CURDIR))
$(STAMPS)/venv: moved
endif

$(STAMPS)/venv: tools/make_venv.sh
	@echo "Creating $(VENV) ..."
	@sh tools/make_venv.sh $(VENV)
	@mkdir -p $(STAMPS)
	@echo "$(CURDIR)" > $@

# pip prints nothing for a minute or two: each step says what it does.
$(STAMPS)/runtime: $(STAMPS)/venv requirements.txt $(SETUPS)
	@echo "Installing the gateway and its plugins into $(VENV) (1 to 2 minutes) ..."
	@$(BIN)/python -m pip install -qq -r requirements.txt
	@echo "Installed. The command is $(BIN)/tornado-gate"
	@touch $@

$(STAMPS)/dev: $(STAMPS)/venv requirements.txt requirements-dev.txt requirements-docs.txt $(SETUPS)
	@echo "Installing the gateway and the test requirements into $(VENV) (2 to 4 minutes) ..."
	@$(BIN)/python -m pip install -qq -r requirements-dev.txt
	@touch $(STAMPS)/runtime $@

# The tools have requirements that differ from those of the tests.
$(STAMPS)/deploy: $(STAMPS)/venv qa/deploy/requirements.txt
	@echo "Installing the tools that check deploy/ (1 minute, 400 MB) ..."
	@sh tools/make_venv.sh $(VENV)/deploy
	@$(VENV)/deploy/bin/python -m pip install -qq -r qa/deploy/requirements.txt
	@touch $@

$(STAMPS)/audit: $(STAMPS)/venv
	@sh tools/make_venv.sh $(VENV)/audit
	@$(VENV)/audit/bin/python -m pip install -qq pip-audit
	@touch $@

# npm and the tests use the Node in .venv; it trusts the system's certificate authorities.
$(NODE_TESTS)/node_modules/.stamp: $(STAMPS)/dev $(NODE_TESTS)/package.json $(NODE_TESTS)/package-lock.json
	@echo "Installing the npm packages of the tests (1 minute) ..."
	@cd $(NODE_TESTS) && NODE_USE_SYSTEM_CA=1 PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --no-audit --no-fund --no-update-notifier
	@touch $@

# Not `npm ci`, which fails if the registry lacks a package for another platform that an agent declares as optional.
$(AGENTS)/node_modules/.stamp: $(STAMPS)/dev $(AGENTS)/package.json $(AGENTS)/package-lock.json
	@echo "Installing the coding agents (1.4 GB, 1 to 3 minutes) ..."
	@cd $(AGENTS) && NODE_USE_SYSTEM_CA=1 PATH="$(CURDIR)/$(BIN):$$PATH" npm install --no-save --no-audit --no-fund --no-update-notifier
	@touch $@
