# Two commands do everything: `make demo` and `make test`; `make e2e` is for a machine with root. See README.md.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PB := device_plugin/adapters/kubelet/pb
# A shell's variable that forbids compiled modules is not for the programs here: each of them would compile all modules
# that it imports, and each process of pytest all tests (12 s).
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test coverage e2e fuzz lint site setup native protos docs chart lock clean

help: ## this list
	@sed -n 's/^\([a-z0-9]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(VENV)/.demo native ## a cluster on this machine with simulated cards, and what it shows; KEEP=1: it stays
	@$(BIN)/vgpu demo run $(if $(KEEP),--keep)

# All tests run in three processes, for two cores: they wait a third of their time. ARGS run in one process.
PROCESSES := --numprocesses 3 --dist worksteal

test: setup ## every test that needs no root; ARGS="tests/core -q": some of them
	@$(BIN)/python -m pytest $(or $(ARGS),$(PROCESSES))

# Counting lines takes a third more time, and is for hack/nightly: it fails where tests leave too many of the product's
# lines out (pyproject.toml, coverage).
coverage: setup ## the tests again, with the lines of the product that they run
	@$(BIN)/python -m pytest $(PROCESSES) -m 'not no_cover' --cov

# Only a KUBECONFIG on make's command line counts: nobody's own cluster is tested because a shell exports one.
e2e: setup ## the tests on a real Kubernetes, as root; KUBECONFIG=FILE: on a cluster of yours
	@$(BIN)/python -m hack.testbed.e2e $(if $(filter command%,$(origin KUBECONFIG)),--kubeconfig $(KUBECONFIG)) \
		$(if $(KEEP),--keep) $(ARGS)

# About a minute of hack/fuzz, which runs for as long as you say.
fuzz: setup ## a minute of fuzzing the library and what the agent reads
	@hack/fuzz --seconds 20

lint: setup ## ruff, mypy, import contracts, docstrings, and the pages' links
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m hack.docstrings
	@$(MAKE) --no-print-directory site

# The pages of docs/ as a site, in build/site; a broken link is an error. The variable stops an advertisement.
site: setup ## the pages of docs/ as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

setup: $(VENV)/.dev native ## what all targets but make demo need, in .venv and build/

# The virtual environment of make demo is a part of that for development, so that they come in any order. Modules are
# compiled when they are first imported: most of them never are.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
LOCKED := $(PIP) --require-hashes -r

$(VENV)/.made:
	@$(PYTHON) hack/check-tools
	@echo 'set-up: a virtual environment in $(VENV) (usually 10 s)'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.made requirements/demo.lock pyproject.toml hack/pyproject.toml
	@echo 'set-up: the Python packages of make demo, 120 MB in $(VENV) (usually 30 s)'
	@$(LOCKED) requirements/demo.lock
	@$(PIP) --no-deps --no-build-isolation -e . -e hack
	@touch $@

$(VENV)/.dev: $(VENV)/.demo requirements/dev.lock
	@echo 'set-up: the Python packages of development, 570 MB in $(VENV) (usually 2 min)'
	@$(LOCKED) requirements/dev.lock
	@touch $@

native: | $(VENV)/.made
	@[ -e build ] || echo 'set-up: the C library and programs, into build/ (usually 15 s)'
	@$(MAKE) --no-print-directory -C vgpu_runtime
	@$(MAKE) --no-print-directory -s -C hack/embedded/runtime

# Generated gRPC stubs are committed, so that an install needs no protoc; a test holds them to the .proto files.
protos: setup ## renew the gRPC stubs
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. $(PB)/*.proto

# Generated reference pages, pictures, rules, alerts and boards are committed; tests hold them to the code, and to
# docs/pictures/*.dot.
docs: setup ## renew reference pages, pictures, rules, alerts and boards
	$(BIN)/python -m hack.generate.reference
	$(BIN)/python -m hack.generate.monitoring
	@command -v dot >/dev/null || { echo 'to draw docs/pictures: apt install graphviz' >&2; exit 1; }
	@for picture in docs/pictures/*.dot; do dot -Tsvg "$$picture" -o "$${picture%.dot}.svg"; done

# The chart is generated from the other manifests (needs kubectl) and committed, as are the lists that admission policies
# share with the code; tests hold them to their sources.
chart: setup ## renew the lists in admission policies and the Helm chart (needs kubectl)
	@$(BIN)/python -m hack.generate.admission_lists
	@$(BIN)/python -m hack.generate.chart

UV := $(VENV)/tools/bin/uv
COMPILED := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-strip-extras

lock: ## renew requirements/*.lock
	$(PYTHON) -m venv $(VENV)/tools && $(VENV)/tools/bin/pip install --quiet uv
	$(COMPILED) --extra agent --extra cluster -o requirements/run.lock pyproject.toml
	$(COMPILED) --extra agent --extra cluster -c requirements/run.lock -o requirements/demo.lock \
		pyproject.toml hack/pyproject.toml
	$(COMPILED) --all-extras -c requirements/demo.lock -o requirements/dev.lock pyproject.toml hack/pyproject.toml
	$(COMPILED) --extra cli -c requirements/dev.lock -o requirements/cli.lock pyproject.toml

clean: ## remove what was set up and built here
	rm -rf $(VENV) build
	@$(MAKE) --no-print-directory -C vgpu_runtime clean
	@$(MAKE) --no-print-directory -C hack/embedded/runtime clean
