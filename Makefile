# Everything that CI runs, and the demo. Needs Python 3.11 or later, and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python
JOBS   ?= 2

# Models come from installed packages; nothing is fetched while anything runs.
export HF_HUB_OFFLINE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

PYTEST := $(PY) -m pytest -n $(JOBS) --dist loadfile

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all lint typecheck format docs lock clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(VENV)/.installed-demo ## check a real pretrained transformer, then one with a planted fault
	$(PY) examples/demo.py

test: lint typecheck ## run what CI runs
	$(PYTEST)

test-all: lint typecheck ## the same, and the tests marked slow
	$(PYTEST) -m "slow or not slow"

lint: $(VENV)/.installed-dev ## style, layers, and whether generated pages are up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(PY) docs/generate.py --check

typecheck: $(VENV)/.installed-dev ## check types, strictly
	$(BIN)/mypy

format: $(VENV)/.installed-dev ## put the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-dev ## write the pages that come from docstrings
	$(PY) docs/generate.py

clean: ## remove everything that these commands made
	rm -rf $(VENV) build dist src/*.egg-info .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment, made once and made again when a lock or pyproject.toml changes.
# The stamp comes last, so that an interrupted installation is taken up again.

$(VENV)/.installed-%: requirements/%.txt requirements/models.txt pyproject.toml | $(PY)
	$(PY) -m pip install --quiet -r requirements/$*.txt
	$(PY) -m pip install --quiet --no-deps -r requirements/models.txt
	$(PY) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rootdk needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Try make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The locks are what a fresh environment resolves to; the demo's is part of the other.
# A local version (+cpu) names a build, not a release, and stays out.

LOCKED := requirements/.lock
lock: ## resolve requirements/*.in anew
	rm -rf $(LOCKED)
	$(PYTHON) -m venv $(LOCKED)
	for name in demo dev; do \
	  $(LOCKED)/bin/python -m pip install --quiet --upgrade -r requirements/$$name.in && \
	  { echo "# Made from $$name.in by 'make lock': do not edit."; \
	    $(LOCKED)/bin/python -m pip freeze --all --exclude pip | sed 's/+[a-z0-9.]*$$//'; \
	  } > requirements/$$name.txt || exit 1; \
	done
	rm -rf $(LOCKED)
