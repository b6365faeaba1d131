# Two commands do all the set-up: `make demo` and `make test`. Each makes .venv from the hash-pinned lock first.
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# the first Python of 3.11-3.13 that really starts; name another with `make demo PYTHON=...`
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)

.PHONY: demo test lint bench lock clean

demo: $(STAMP)
	$(BIN)/aucflow run configs/experiments/quickstart.yaml

# more workers than CI has cores, for many tests wait for a server to start
test: $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

# all parts, 20 to 50 minutes; a peer that is not installed is named as absent (dlib: pip install -e '.[bench]')
bench: $(STAMP)
	$(BIN)/python -m benchmarks

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Expected Python 3.11, 3.12 or 3.13 on PATH, found none. Install one, or name it: make demo PYTHON=/path/to/python3" >&2; exit 2; }
	@echo "installing into $(VENV) (once, about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --no-compile -r requirements.lock
	@$(BIN)/python -m compileall -q -q -j 0 $(VENV)/lib || true  # what pip would do on one core
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $@

# for maintainers: needs uv; writes no registry's name
lock:
	uv pip compile pyproject.toml --extra dev --extra signing --extra openlineage --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --output-file requirements.lock --upgrade

clean:
	rm -rf $(VENV)
