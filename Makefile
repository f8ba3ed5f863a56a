# Every task of the project. `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SHARED ?= ../shared

.DEFAULT_GOAL := help
.PHONY: help up kubectl down status demo test unit check format chaos soak fuzz races robustness conformance bench bench-ui tools docs wheel release protos types clean

help: ## list every task
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- environment ------------------------------------------------------------------------------------------------

$(VENV)/.run: pyproject.toml
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@$(BIN)/python -m pip install --quiet --group test --group check
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --group docs
	@touch $@

# Compiled once here, so that a start never waits for it, whatever PYTHONDONTWRITEBYTECODE says. Folders tell of most
# changes; a file that was changed in place is compiled anew by whoever imports it.
$(VENV)/.compiled: $(VENV)/.run $(shell find src -name __pycache__ -prune -o -type d -print)
	@$(BIN)/python -m compileall -q src
	@touch $@

tools: $(VENV)/.dev $(VENV)/.compiled ## fetch the real components that tests talk to (kubectl, helm, etcd, containerd, Chromium)
	@$(BIN)/python scripts/tools.py

# --- the main job -----------------------------------------------------------------------------------------------

up: $(VENV)/.compiled kubectl ## set everything up and start a whole DRA cluster
	@$(BIN)/dray up --detach

kubectl: $(VENV)/.run ## put a kubectl beside dray where the machine has none
	@command -v kubectl >/dev/null || test -x $(BIN)/kubectl || $(BIN)/python scripts/tools.py --kubectl $(BIN)

down: ## stop the cluster
	@test ! -x $(BIN)/dray || $(BIN)/dray down || true # it has said that none runs

status: $(VENV)/.run ## say what is running
	@$(BIN)/dray status

demo: $(VENV)/.compiled ## play the tour on the running cluster
	@$(BIN)/dray demo

# --- quality ----------------------------------------------------------------------------------------------------

check: $(VENV)/.dev ## lint, formatting, types, import contracts, links and options in the pages
	@$(BIN)/ruff check src tests scripts
	@$(BIN)/ruff format --check src tests scripts
	@$(BIN)/python scripts/document_types.py --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/docs_check.py

format: $(VENV)/.dev ## put the code into shape
	@$(BIN)/ruff check --fix src tests scripts
	@$(BIN)/ruff format src tests scripts

unit: $(VENV)/.dev ## the quick tests only
	@$(BIN)/pytest tests/unit -n 2

test: tools ## every test, against real components where they can be had
	@$(BIN)/pytest tests --ignore tests/chaos --ignore tests/robustness -n 2 --dist loadgroup
	@$(BIN)/pytest tests/chaos tests/robustness # by themselves: they kill by the clock, and what they kill must have time to come back

chaos: $(VENV)/.dev $(VENV)/.compiled ## kill schedulers and controllers while 2,000 pods with devices come and go
	@$(BIN)/python -m tests.chaos $(CHAOS)

races: tools ## let two schedulers race through two API servers for the last device, share and counter
	@$(BIN)/python -m tests.races $(RACES)

robustness: tools ## three machines on etcd under faults, the history checked; ROBUSTNESS="--seed 7" takes options
	@$(BIN)/python -m tests.robustness $(ROBUSTNESS)

soak: $(VENV)/.dev $(VENV)/.compiled ## let 1,000,000 pods come and go and print what grows; SOAK="--pods 20000" takes options
	@$(BIN)/python scripts/soak.py $(SOAK)

fuzz: $(VENV)/.dev $(VENV)/.compiled ## send what nobody would send in good faith, 25,000 inputs to every reader
	@$(BIN)/python -m tests.fuzz $(FUZZ)

conformance: $(VENV)/.dev $(VENV)/.compiled ## compare with upstream's recorded answers and print the scores
	@$(BIN)/python scripts/conformance.py --data $(SHARED)/conformance

# BENCH takes further options, for example BENCH="--only cluster --rounds 9".
bench: $(VENV)/.dev $(VENV)/.compiled ## measure the hot paths; AGAINST=<commit> compares with it in turns
	@$(BIN)/python scripts/$(if $(AGAINST),bench_against.py $(AGAINST),bench.py) --data $(SHARED) $(BENCH)

bench-ui: $(VENV)/.dev $(VENV)/.compiled ## measure the dashboard in a browser on 5,000 nodes × 8 devices
	@$(BIN)/python scripts/bench_ui.py

docs: $(VENV)/.docs ## write what is made from the code (reference, gallery) and build the pages as a site into site/
	@$(BIN)/python -m tests.support.gallery
	@$(BIN)/python scripts/reference.py
	@$(BIN)/python scripts/docs_check.py
	@$(BIN)/python scripts/docs_site.py

wheel: $(VENV)/.run ## build the wheel into dist and try it on every Python of this machine
	@$(BIN)/python -m pip install --quiet --group release
	@$(BIN)/python scripts/wheel.py $(WHEEL)

release: check test conformance wheel ## everything that a release needs but the upload
	@ls -l dist

protos: $(VENV)/.dev ## regenerate the gRPC messages of kubelet, container runtimes and etcd
	@$(BIN)/python -m pip install --quiet --group protos
	@$(BIN)/python scripts/protos.py

types: $(VENV)/.dev ## write the types of documents anew from the API's schema
	@$(BIN)/python scripts/document_types.py

clean: ## remove everything that was generated
	rm -rf $(VENV) .tools site .mypy_cache .ruff_cache .pytest_cache .hypothesis
