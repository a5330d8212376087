# Everything sets itself up on a machine that has only Python 3.11 or newer, make and a package index.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := build/demo.duckdb

.PHONY: run test browser soak check bench pages horizon pictures clean

run: $(READY)
	@rm -f $(DEMO) $(DEMO).wal; mkdir -p build
	@$(BIN)/python examples/demo.py $(DEMO)

test: $(READY) browser
	$(BIN)/pytest -q -n 2 --dist worksteal tests

# What the dashboard's tests drive: Debian's package, installed where it is missing and that is allowed.
browser:
	@command -v chromium > /dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq \
		&& DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium > /dev/null; } \
		|| echo "install Chromium, for the dashboard's tests: apt-get install chromium"

# What the tests do with organisers, at full size, and ten minutes of a daemon with writers beside it.
soak: $(READY)
	EBB_SOAK=1 $(BIN)/pytest -q -s tests/conformance/test_sharing.py tests/conformance/test_killed_at_random.py \
		tests/conformance/test_lost_connections.py tests/cli/test_metrics.py tests/conformance/test_soak.py tests/service/test_openapi.py \
		tests/conformance/test_crash.py tests/conformance/test_many_callers.py tests/conformance/test_late_facts.py \
		tests/conformance/test_state_machine.py tests/conformance/test_schedule_invariance.py tests/test_anki.py

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The timings of both databases, then what RFC-0007 asks to be published; each writes its page. Hours, in all.
bench: $(READY)
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.published

# How long the dashboard's pages take on the server.
pages: $(READY)
	$(BIN)/python -m benchmarks.pages

horizon: $(READY)
	$(BIN)/python -m benchmarks.published

pictures: $(READY)
	@mkdir -p docs/pictures
	@for file in policies/*.toml; do \
		$(BIN)/ebb policy plot $$file --svg docs/pictures/$$(basename $$file .toml).svg > /dev/null || exit 1; done
	@$(BIN)/python -m tests.service.pictures

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@
