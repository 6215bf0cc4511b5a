# Every target makes .venv when it is missing; the machine needs Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMPILED := $(VENV)/.tests-compiled
DIR ?=
# Tests wait more than they compute: five at a time keep two cores busy. Those of interop start JVMs.
WORKERS ?= 5
INTEROP_WORKERS ?= 3
# The tests start hundreds of programs: without bytecode, each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test lint bench golden conformance soak interop rounds foreign messages clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## /  make \1|/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)  ## two clusters, a mirror, a disaster, a failover and a failback: build/demo
	$(BIN)/kmirror demo --output build/demo

# Who collects a test first rewrites its assertions and compiles it: once, on two cores, not in each worker.
$(COMPILED): $(STAMP) $(shell find kmirror tests -name '*.py')
	$(BIN)/python -m compileall -q -j 0 kmirror
	@$(BIN)/python -m pytest tests/unit --collect-only -qq > /dev/null & \
	$(BIN)/python -m pytest tests --ignore tests/unit --collect-only -qq > /dev/null; wait
	touch $@

test: $(STAMP) $(COMPILED)  ## unit, property, golden, conformance and integration tests
	$(BIN)/python -m pytest tests -m "not soak and not interop and not foreign" -n $(WORKERS) --dist loadfile --no-loadscope-reorder

soak: $(STAMP)  ## kills under load, a simulated week, and each safeguard switched off
	$(BIN)/python -m pytest tests --ignore tests/interop -m soak -n $(WORKERS) --dist load

golden: $(STAMP)  ## the golden tests, over other vectors with DIR=folder
	KMIRROR_GOLDEN_DIR=$(if $(DIR),$(abspath $(DIR)),) $(BIN)/python -m pytest tests/golden

conformance: $(STAMP)  ## each rule of KIP-1279 with its tests
	$(BIN)/python tools/conformance.py

interop: $(STAMP)  ## the suites with Apache Kafka and other programs (JDK, Maven)
	$(BIN)/python tools/kafka_jars.py --all
	$(BIN)/python tools/spark_packages.py
	$(BIN)/python -m pytest tests/interop -m "interop and not round" -n $(INTEROP_WORKERS) --dist loadfile --durations=40

rounds: $(STAMP)  ## what CI has no time for: further versions, seeds and campaigns
	$(BIN)/python tools/kafka_jars.py --all
	$(BIN)/python tools/spark_packages.py
	$(BIN)/python tools/foreign_suites.py kafka-streams
	$(BIN)/python -m pytest tests/interop -m round -n $(INTEROP_WORKERS) --dist loadfile

foreign: $(STAMP)  ## other clients' own suites, Kafka's system test programs (cargo, Go, Node, JDK, Maven)
	$(BIN)/python tools/foreign_suites.py
	$(BIN)/python -m pytest tests/interop/foreign -m "foreign and not round" -n 2 --dist load --durations=15

lint: $(STAMP)  ## ruff, generated files, layers, circles of imports, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/generate_messages.py --check
	$(BIN)/python tools/generate_record_schemas.py --check
	$(BIN)/lint-imports
	$(BIN)/python tools/import_circles.py
	$(BIN)/mypy

bench: $(STAMP)  ## every benchmark; python -m benches --list names them
	$(BIN)/python -m benches

messages: $(STAMP)  ## generate the wire modules from protocol/, and the drawing of the states
	$(BIN)/python tools/generate_messages.py
	$(BIN)/python tools/generate_record_schemas.py
	$(BIN)/python tools/state_diagram.py

clean:  ## remove what was built, the virtual environment too
	rm -rf build dist $(VENV)
