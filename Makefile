# Every task of the project. `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SHARED ?= ../shared

.DEFAULT_GOAL := help
.PHONY: help up down status demo test unit check format chaos conformance bench tools docs protos types clean

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

# Compiled once here, so that a start never waits for it, whatever PYTHONDONTWRITEBYTECODE says. Folders tell of most
# changes; a file that was changed in place is compiled anew by whoever imports it.
$(VENV)/.compiled: $(VENV)/.run $(shell find src -name __pycache__ -prune -o -type d -print)
	@$(BIN)/python -m compileall -q src
	@touch $@

tools: $(VENV)/.dev $(VENV)/.compiled ## fetch the real components that tests talk to (kubectl, helm, etcd, containerd)
	@$(BIN)/python scripts/tools.py

# --- the main job -----------------------------------------------------------------------------------------------

up: $(VENV)/.compiled ## set everything up and start a whole DRA cluster
	@$(BIN)/dray up --detach

down: ## stop the cluster
	@test ! -x $(BIN)/dray || $(BIN)/dray down

status: $(VENV)/.run ## say what is running
	@$(BIN)/dray status

demo: $(VENV)/.compiled ## play the tour on the running cluster
	@$(BIN)/dray demo

# --- quality ----------------------------------------------------------------------------------------------------

check: $(VENV)/.dev ## lint, formatting, types, import contracts
	@$(BIN)/ruff check src tests scripts
	@$(BIN)/ruff format --check src tests scripts
	@$(BIN)/python scripts/document_types.py --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/.dev ## put the code into shape
	@$(BIN)/ruff check --fix src tests scripts
	@$(BIN)/ruff format src tests scripts

unit: $(VENV)/.dev ## the quick tests only
	@$(BIN)/pytest tests/unit -n 2

test: tools ## every test, against real components where they can be had
	@$(BIN)/pytest tests --ignore tests/chaos -n 2 --dist loadgroup
	@$(BIN)/pytest tests/chaos # by itself: it kills by the clock, and what it kills must have time to come back

chaos: $(VENV)/.dev $(VENV)/.compiled ## kill schedulers and controllers while 2,000 pods with devices come and go
	@$(BIN)/python -m tests.chaos $(CHAOS)

conformance: $(VENV)/.dev $(VENV)/.compiled ## compare with upstream's recorded answers and print the scores
	@$(BIN)/python scripts/conformance.py --data $(SHARED)/conformance

bench: $(VENV)/.dev $(VENV)/.compiled ## measure the hot paths and print the figures
	@$(BIN)/python scripts/bench.py --data $(SHARED)

docs: $(VENV)/.dev ## write the gallery anew from what the tools say
	@$(BIN)/python -m tests.support.gallery

protos: $(VENV)/.dev ## regenerate the gRPC messages of kubelet, container runtimes and etcd
	@$(BIN)/python -m pip install --quiet --group protos
	@$(BIN)/python scripts/protos.py

types: $(VENV)/.dev ## write the types of documents anew from the API's schema
	@$(BIN)/python scripts/document_types.py

clean: ## remove everything that was generated
	rm -rf $(VENV) .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis
