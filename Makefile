# Two commands do everything: `make demo` and `make test`; `make e2e` is for a machine with root. See README.md.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PB := device_plugin/adapters/kubelet/pb
UV := $(VENV)/tools/bin/uv

.PHONY: demo test e2e fuzz lint site setup native protos docs chart lock clean

demo: setup
	@$(BIN)/vgpu demo run $(if $(KEEP),--keep)

# All tests run in three processes, for two cores: they wait a third of their time. First come those that count lines,
# which fail where they leave too many of the product's out (pyproject.toml, coverage), then the others, which never run
# beside them: a process in which counting was turned off and on again crashed. The others run whatever became of the
# first, and the closing lines of both are the last ones. ARGS run in one process, without coverage: a part of the tests
# covers a part of the product.
PROCESSES := --numprocesses 3 --dist worksteal
CLOSING_LINES := build/closing-lines

test: setup
ifdef ARGS
	@$(BIN)/python -m pytest $(ARGS)
else
	@rm -f $(CLOSING_LINES); export VGPU_CLOSING_LINES=$(CLOSING_LINES); status=0; \
	$(BIN)/python -m pytest $(PROCESSES) -m 'not no_cover' --cov --cov-report= || status=1; \
	$(BIN)/python -m pytest $(PROCESSES) -m no_cover || status=1; \
	cat $(CLOSING_LINES) || status=1; exit $$status
endif

# Only a KUBECONFIG on make's command line counts: nobody's own cluster is tested because a shell exports one.
e2e: setup
	@$(BIN)/python -m hack.testbed.e2e $(if $(filter command%,$(origin KUBECONFIG)),--kubeconfig $(KUBECONFIG)) \
		$(if $(KEEP),--keep) $(ARGS)

# About a minute of what hack/fuzz does for as long as it is told.
fuzz: setup
	@hack/fuzz --seconds 20

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory site

# The pages of docs/ as a site, in build/site; a broken link is an error. The variable stops an advertisement.
site: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

setup: $(STAMP) native

$(STAMP): requirements/dev.lock pyproject.toml hack/pyproject.toml
	@$(PYTHON) hack/check-tools
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e hack
	@touch $@

native: $(STAMP)
	@$(MAKE) --no-print-directory -C vgpu_runtime
	@$(MAKE) --no-print-directory -s -C hack/embedded/runtime

# Generated gRPC stubs are committed, so that an install needs no protoc; a test holds them to the .proto files.
protos: setup
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. $(PB)/*.proto

# Generated reference pages, pictures, rules, alerts and boards are committed; tests hold them to the code, and to
# docs/pictures/*.dot.
docs: setup
	$(BIN)/python -m hack.reference
	$(BIN)/python -m hack.monitoring
	@command -v dot >/dev/null || { echo 'to draw docs/pictures: apt install graphviz' >&2; exit 1; }
	@for picture in docs/pictures/*.dot; do dot -Tsvg "$$picture" -o "$${picture%.dot}.svg"; done

# The chart is generated from the other manifests (needs kubectl) and committed; a test holds it to them.
chart: setup
	@$(BIN)/python -m hack.chart

lock:
	$(PYTHON) -m venv $(VENV)/tools && $(VENV)/tools/bin/pip install --quiet uv
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--extra agent --extra cluster -o requirements/run.lock pyproject.toml
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--all-extras -c requirements/run.lock -o requirements/dev.lock \
		pyproject.toml hack/pyproject.toml
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--extra cli -c requirements/dev.lock -o requirements/cli.lock pyproject.toml

clean:
	rm -rf $(VENV) build
	@$(MAKE) --no-print-directory -C vgpu_runtime clean
	@$(MAKE) --no-print-directory -C hack/embedded/runtime clean
