# make demo   install, learn from bundled data, end with figures, and with a picture and two pages in demo_output/
# make test   install what the tests need and run them: ten minutes on two cores
# make test-fast  the same without the slow ones: a minute or two
# make test-nightly  the same with the benchmarks' short forms, and with more examples of each property
# make test-nightly COVERAGE=--cov  the same, and which lines they run (works for all of these; half as much time again, less from Python 3.12 on)
# make test-lowest  the fast tests with the lowest versions that pyproject.toml allows, in an environment of their own
# make browser  the browser that the tests of pages drive, where apt-get is (make test does it, too)
# make test-bounds  the fast tests with compiled loops that check every index; no core dumps, only errors
# make lint   ruff and mypy
# make docs   the site in docs/_build/html, from pages, docstrings and examples; runs the examples, a warning fails
# make bench  the benchmarks that need no data set
# make dist   the wheel and the source archive in dist/, checked as for a package index

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
SUDO ?= $(shell test "$$(id -u)" = 0 || echo sudo)

.PHONY: demo test test-fast test-nightly browser lint docs bench clean test-bounds test-lowest dist

demo: $(VENV)/.installed
	$(BIN)/epls demo --output demo_output

# A worker per core, each with one BLAS thread: more only wait for each other on data as small as these. Workers share
# numba's cache. tests/conftest.py says which tests a worker gets.
ONE_THREAD = OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
PYTEST = -m pytest -n auto --dist loadfile --no-loadscope-reorder $(COVERAGE)

test: $(VENV)/.installed-dev browser
	$(ONE_THREAD) $(BIN)/python $(PYTEST)

test-fast: $(VENV)/.installed-dev
	$(ONE_THREAD) $(BIN)/python $(PYTEST) -m "not slow"

test-nightly: $(VENV)/.installed-dev browser
	$(ONE_THREAD) HYPOTHESIS_PROFILE=nightly $(BIN)/python $(PYTEST) -m ""

test-bounds: $(VENV)/.installed-dev
	$(ONE_THREAD) NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/numba-bounds $(BIN)/python $(PYTEST) -m "not slow"

# Old releases warn of what newer ones of their own dependencies deprecate, and scikit-learn's checks of small classes.
test-lowest:
	$(PYTHON) -m venv $(VENV)-lowest
	$(PYTHON) tests/lowest.py > $(VENV)-lowest/versions.txt
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check --requirement $(VENV)-lowest/versions.txt --editable .
	$(ONE_THREAD) $(VENV)-lowest/bin/python $(PYTEST) -m "not slow" \
	  -W default::DeprecationWarning -W "default:The least populated class:UserWarning"

# Debian's packages; where there is another way to get a browser, have chromium and chromedriver on the path. Without a
# browser the tests of pages in one are skipped; where CI is set, as in .ci/run, they fail.
INSTALL_BROWSER = $(SUDO) apt-get install --yes --quiet chromium chromium-driver
browser:
	@{ command -v chromium && command -v chromedriver; } > /dev/null \
	  || { command -v apt-get > /dev/null && { $(INSTALL_BROWSER) || { $(SUDO) apt-get update --quiet && $(INSTALL_BROWSER); }; }; } \
	  || echo "no browser can be installed here: the tests in tests/report/test_browser.py will be skipped (or fail, if CI is set)"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed-dev
	$(BIN)/sphinx-build -W --keep-going $(SPHINXOPTS) -b html docs docs/_build/html

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/bench_training.py
	$(BIN)/python benchmarks/bench_target.py
	$(BIN)/python benchmarks/no_tuning.py

dist: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf $(VENV) $(VENV)-lowest

# The stamps are written only after a successful install, so that an interrupted one is done again.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[all]"
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@
