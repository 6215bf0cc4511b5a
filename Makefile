# Every target makes .venv when it is missing; the machine needs Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DIR ?=
# Tests wait more than they compute: three at a time keep two cores busy.
WORKERS ?= 3

.PHONY: demo test lint bench golden conformance interop foreign messages clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/kmirror demo --output build/demo

test: $(STAMP)
	$(BIN)/python -m pytest tests -m "not interop and not foreign" -n $(WORKERS) --dist loadfile

golden: $(STAMP)
	KMIRROR_GOLDEN_DIR=$(if $(DIR),$(abspath $(DIR)),) $(BIN)/python -m pytest tests/golden

conformance: $(STAMP)
	$(BIN)/python tools/conformance.py

interop: $(STAMP)
	$(BIN)/python tools/kafka_jars.py --all
	$(BIN)/python -m pytest tests/interop -m interop -n $(WORKERS) --dist loadfile

foreign: $(STAMP)
	$(BIN)/python tools/foreign_suites.py
	$(BIN)/python -m pytest tests/interop/foreign -m foreign

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/generate_messages.py --check
	$(BIN)/python tools/generate_record_schemas.py --check
	$(BIN)/lint-imports
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m benches

messages: $(STAMP)
	$(BIN)/python tools/generate_messages.py
	$(BIN)/python tools/generate_record_schemas.py

clean:
	rm -rf build dist $(VENV)
