# Everything runs in .venv, which the first target that needs it makes: python3 >= 3.11, make and a
# package index are enough. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Test processes; each takes whole files, so that what one test computes or compiles the next one has.
# Seconds after which a test is held to hang: where it stands is printed, and the run ends. A process in its place would
# wait for ever: pytest-xdist 3.8 may give it nothing but files that are done.
JOBS ?= 2
HANGS ?= 900
SHARED := -n $(JOBS) --dist loadfile --max-worker-restart=0 --benchmark-disable
OUT ?= results

# Newer than pyproject.toml: the environment is as pyproject.toml asks.
STAMP := $(VENV)/.setup-done
# mypy cannot follow the import hook of an editable install; a tree of links shows it the same packages.
TYPING := build/typing
# Of tests/processors/suite.py: names of processors, or a commit whose hash chooses one and a part of the tests.
PROCESSORS ?=
# An environment of its own, and which of the tests run in it.
LOWEST := build/lowest
TESTS ?= tests
FOLDERS := derive generated numerics papers

.PHONY: help setup run test test-all test-processors compare-processors test-lowest docs-test derive derive-check lint format bench bench-short bench-links verify constants docs docs-serve docs-setup clean distclean
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv with the package (editable), its test and lint tools, and jax on its CPU device

$(STAMP): pyproject.toml
	@if ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "attnlimits needs Python 3.11 or newer, but '$(PYTHON)' is" \
	        "$$("$(PYTHON)" --version 2>&1 || echo missing); try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	    exit 1; \
	fi
	@if ! "$(BIN)/python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "making $(VENV)"; \
	    "$(PYTHON)" -m venv --clear $(VENV) || { \
	        rm -rf $(VENV); \
	        echo "could not make $(VENV): '$(PYTHON)' needs the venv and ensurepip modules" \
	            "(on Debian and Ubuntu: the package python3-venv)" >&2; \
	        exit 1; \
	    }; \
	fi
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[test,lint,gpu]'
	@touch $@

run: setup ## the main job: thresholds, state evolution and the figure of the two-layer model, under results/
	$(BIN)/attnlimits figure troiani2025-1 --out $(OUT)

# Threads for matrix products of several processes would wait for each other, turning.
test test-all: export OPENBLAS_NUM_THREADS ?= 1
# Arrays that come and go stay with the process: the C library of Linux would give each back to the system, and ask again.
test test-all test-processors: export MALLOC_MMAP_THRESHOLD_ ?= 1073741824
test test-all test-processors: export MALLOC_TRIM_THRESHOLD_ ?= 1073741824
# The commands that tests start find their modules compiled, also where the environment asks Python to keep none.
test test-all test-processors: export PYTHONDONTWRITEBYTECODE =
test: setup ## the tests, without those marked slow
	$(BIN)/python -m pytest $(SHARED) -m "not slow" \
	    -o faulthandler_timeout=$(HANGS) -o faulthandler_exit_on_timeout=true

test-all: setup ## every test, the slow ones included
	$(BIN)/python -m pytest $(SHARED)

test-processors: setup ## the tests that reach floating point, as five older processors compute
	$(BIN)/python tests/processors/suite.py --jobs $(JOBS) $(PROCESSORS)

compare-processors: setup ## fits and commands on these processors: equal decisions, and numbers within their errors
	$(BIN)/python tests/processors/compare.py --jobs $(JOBS)

# Old packages use what newer ones below them have deprecated: that is theirs.
test-lowest: ## the tests, with the lowest versions of the dependencies that pyproject.toml allows (Python 3.11)
	@"$(PYTHON)" -m venv --clear $(LOWEST)
	"$(PYTHON)" .ci/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --disable-pip-version-check -c $(LOWEST)/constraints.txt -e '.[test]'
	$(LOWEST)/bin/python -m pytest $(SHARED) -m "not slow" \
	    -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning $(TESTS)

derive: setup ## derive the expressions and write generated/
	$(BIN)/python -m attnlimits.derive

derive-check: setup ## derive again and compare with generated/
	$(BIN)/python -m attnlimits.derive --check

lint: setup ## ruff (rules and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@rm -rf $(TYPING) && mkdir -p $(TYPING)/attnlimits
	@ln -s $(patsubst %,../../../%,$(wildcard numerics/front/*.py numerics/front/verbs)) $(TYPING)/attnlimits/
	@for folder in $(FOLDERS); do ln -s "../../../$$folder" "$(TYPING)/attnlimits/$$folder" || exit 1; done
	MYPYPATH=$(TYPING) $(BIN)/mypy -p attnlimits

format: setup ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## the benchmarks, with their ratios beside those of tests/benchmarks/ratios.json
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only -s

bench-short: setup ## half a minute of them: fails on a ratio that is 1.5 times worse
	$(BIN)/python -m pytest tests/benchmarks/test_short.py --benchmark-only --benchmark-quiet -q

bench-links: setup ## links beside the scripts of a competent user, which docs/results/speed.md then shows (minutes)
	$(BIN)/python -m tests.benchmarks.competent --page

verify: setup ## run the check of every equation of every paper and print the coverage tables
	$(BIN)/attnlimits verify --paper all

constants: setup ## compute papers/troiani2025/constants.toml again; an interrupted run goes on where it stopped
	$(BIN)/python -m attnlimits.papers.troiani2025.constants

docs: setup ## the site, into build/docs, with warnings as errors
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e '.[docs]'
	$(BIN)/python -m sphinx -a -W --keep-going -q -c docs -d build/doctrees . build/docs

docs-setup: setup ## install what the site and its tests need, where it can be had
	.ci/site install

docs-test: setup ## build the site and open its pages in a browser, where these can be had
	.ci/site

docs-serve: docs ## show the site at port 8000 of this machine
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/docs 8000

clean: ## remove caches, builds and results
	rm -rf build dist *.egg-info $(OUT) .pytest_cache .ruff_cache .mypy_cache .hypothesis .benchmarks
	find $(FOLDERS) tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## clean, and remove .venv as well
	rm -rf $(VENV)
