# make demo   install, learn from bundled data, end with pictures and figures in demo_output/
# make test   install what the tests need and run them
# make lint   ruff and mypy
# make bench  the benchmarks that need no data set

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test lint bench clean

demo: $(VENV)/.installed
	$(BIN)/epls demo --output demo_output

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/bench_training.py
	$(BIN)/python benchmarks/bench_target.py
	$(BIN)/python benchmarks/no_tuning.py

clean:
	rm -rf $(VENV)

# The stamps are written only after a successful install, so that an interrupted one is done again.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[all]"
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@
