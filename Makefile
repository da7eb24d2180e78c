# Everything a fresh machine needs is python3 >= 3.11 and make. `make` alone lists the commands.

VENV := .venv
BIN := $(VENV)/bin
CONF ?= conf/gate.yaml
CASE ?= chat
KEY ?= $(HOME)/.ssh/id_ed25519
STAMPS := $(VENV)/stamps
NODE_TESTS := tests/node
SETUPS := setup.py tornado_gate/_version.py $(wildcard plugins/*/setup.py)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

# pip and npm keep their caches below HOME. Where there is none that can be written, they get a place of their own.
ifneq ($(shell test -n "$$HOME" && test -w "$$HOME" && echo yes),yes)
export PIP_CACHE_DIR := $(CURDIR)/$(VENV)/cache/pip
export npm_config_cache := $(CURDIR)/$(VENV)/cache/npm
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install run test coverage lint hooks matrix bench bench-self bench-profile dist dist-check sbom sign clean moved

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' Makefile

install: $(STAMPS)/runtime ## make .venv with the gateway and its plugins; leaves .venv/bin/tornado-gate
	@$(BIN)/python -m compileall -q tornado_gate plugins/*/tornado_gate_* # or each start would, where bytecode is not written

run: install ## install, then serve conf/gate.yaml (CONF=FILE: another one)
	$(BIN)/tornado-gate serve --conf $(CONF)

test: $(STAMPS)/dev $(NODE_TESTS)/node_modules/.stamp ## install what tests need, then run them all (PYTEST_ARGS=…: only some)
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile $(PYTEST_ARGS)

coverage: $(STAMPS)/dev $(NODE_TESTS)/node_modules/.stamp ## run the tests and write htmlcov/: which lines they run (PYTEST_ARGS=…)
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --cov --cov-report=html --cov-report=term:skip-covered $(PYTEST_ARGS)

hooks: $(STAMPS)/dev ## check style, types and layout before each commit (pre-commit)
	$(BIN)/python -m pip install -qq pre-commit
	$(BIN)/pre-commit install

lint: $(STAMPS)/dev ## check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

matrix: $(STAMPS)/dev ## write docs/matrix.md anew: what is carried from which format to which provider
	$(BIN)/python -m tests.matrix

bench: $(STAMPS)/dev ## install the peers below bench/.peers, measure us and them by turns, write bench/RESULTS.md (BENCH_ARGS=…)
	$(BIN)/python -m bench.install
	$(BIN)/python -m bench.compare $(BENCH_ARGS)

bench-self: $(STAMPS)/dev ## is a request dearer than bench/baseline.json says? (BENCH_ARGS=--update: write it anew)
	$(BIN)/python -m bench.guard $(BENCH_ARGS)

bench-profile: $(STAMPS)/dev ## where the time of one case goes (CASE=chat)
	$(BIN)/python -m bench.profiling $(CASE) $(BENCH_ARGS)

dist: $(STAMPS)/dev ## build the archives and wheels of the gateway and every plugin into dist/
	sh tools/build_dist.sh $(BIN)/python

dist-check: ## check the files in dist/ and install them into an empty environment
	sh tools/check_dist.sh $(BIN)/python

sbom: ## write dist/sbom.cdx.json: every distribution that dist/ brings, with version and licence
	$(BIN)/python -m pip install -qq cyclonedx-bom
	$(BIN)/python -m cyclonedx_py environment dist/venv -o dist/sbom.cdx.json

sign: ## write and sign dist/SHA256SUMS (KEY=a private SSH key)
	cd dist && sha256sum *.whl *.tar.gz sbom.cdx.json > SHA256SUMS
	ssh-keygen -Y sign -f $(KEY) -n file dist/SHA256SUMS

clean: ## remove everything that these commands made, but not var/
	rm -rf $(VENV) bench/.peers bench/var $(NODE_TESTS)/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis .tox build dist htmlcov .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf *.egg-info plugins/*/*.egg-info plugins/*/build

# A virtual environment holds absolute paths: in a checkout that was moved or copied it must be made anew.
ifneq ($(shell cat $(STAMPS)/venv 2>/dev/null),$(CURDIR))
$(STAMPS)/venv: moved
endif

$(STAMPS)/venv: tools/make_venv.sh
	sh tools/make_venv.sh $(VENV)
	@mkdir -p $(STAMPS)
	@echo "$(CURDIR)" > $@

$(STAMPS)/runtime: $(STAMPS)/venv requirements.txt $(SETUPS)
	$(BIN)/python -m pip install -qq -r requirements.txt
	@touch $@

$(STAMPS)/dev: $(STAMPS)/venv requirements.txt requirements-dev.txt $(SETUPS)
	$(BIN)/python -m pip install -qq -r requirements-dev.txt
	@touch $(STAMPS)/runtime $@

# The Node that runs npm and the tests is the one in .venv, whatever the machine has; it trusts whom the machine trusts.
$(NODE_TESTS)/node_modules/.stamp: $(STAMPS)/dev $(NODE_TESTS)/package.json $(NODE_TESTS)/package-lock.json
	cd $(NODE_TESTS) && NODE_USE_SYSTEM_CA=1 PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --no-audit --no-fund --no-update-notifier
	@touch $@
