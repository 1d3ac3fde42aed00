# Everything happens in .venv; `make demo` and `make test` set it up when it is missing or out of date.
PYTHON ?= $(shell sh tools/python.sh)
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Left out: whatever starts hosts, Spark or a server of its own for most of its tests (chaos, protocol, spark, tpch, sql,
# unit/changelog, unit/cli, unit/exec), all that asks random queries or examples by the thousand (oracle, property,
# unit/plan/split), and two slow modules.
FAST := tests/unit/cluster tests/unit/pipelines tests/unit/plan tests/unit/sql tests/unit/state tests/unit/test_*.py \
	--ignore tests/unit/plan/split --ignore tests/unit/sql/test_budgets.py --ignore tests/unit/test_reproduction.py
JDBC_DRIVER := org.apache.arrow:flight-sql-jdbc-driver:18.3.0
KAFKA := $(VENV)/share/livestate/kafka
CLIENTS := $(VENV)/share/livestate/clients
SPARK_CLASSES := $(VENV)/share/livestate/spark.jsa

.PHONY: help setup java prometheus nginx jdbc kafka clients demo demo-kafka pipeline test test-needs test-fast lint check bench clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "livestate needs Python 3.11 or newer; set PYTHON=python3.11, say.")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	touch $@

setup: $(VENV)/.installed ## install into .venv

java: ## make sure that Java 17 or newer is there, for Spark
	@sh tools/java.sh

prometheus: ## see that Prometheus is there, for the test of dashboard and alerts; without it the test is skipped
	@sh tools/prometheus.sh

jdbc: ## fetch the JDBC driver that one test talks through; without Maven the test is skipped
	@if command -v mvn >/dev/null 2>&1; then mvn --quiet --batch-mode -Dstyle.color=never dependency:get -Dartifact=$(JDBC_DRIVER) -Dtransitive=false; fi

nginx: ## install nginx, through which one test talks; without it the test is skipped
	@sh tools/nginx.sh

kafka: $(VENV)/.kafka ## fetch Kafka and Spark's connector to it; without Maven the tests that need them are skipped

$(VENV)/.kafka: spark_pipeline/kafka.xml | setup
	@if command -v mvn >/dev/null 2>&1; then $(BIN)/livestate kafka --directory $(KAFKA) && touch $@; fi

clients: $(VENV)/.clients ## build the programs of examples/clients in Go and Node, where these are there

$(VENV)/.clients: tools/clients.sh $(wildcard examples/clients/go/* examples/clients/node/*) | setup
	@sh $< $(CLIENTS) && touch $@

# Spark starts in half the time with it, and as well without it.
$(SPARK_CLASSES): $(VENV)/.installed | java
	@$(BIN)/python -m tests.support.spark_classes >/dev/null 2>&1 || echo "There is no file of Spark's classes: tests take longer."

demo: setup java ## music charts, live; pass options with ARGS="--duration 30"
	$(BIN)/livestate demo $(ARGS)

demo-kafka: setup java kafka ## the same, with the plays in a Kafka topic
	$(BIN)/livestate demo --kafka $(ARGS)

pipeline: setup java kafka ## a ready-made pipeline with a host and its queries: make pipeline NAME=leaderboard ARGS="--source kafka"
	$(BIN)/livestate pipeline $(or $(NAME),--help) $(if $(NAME),--serve) $(ARGS)

# Tests start some hundred processes, none of which should compile all modules again.
test test-needs test-fast: export PYTHONDONTWRITEBYTECODE =

# One more than cores: a third of the time it takes two, tests wait for hosts, polls and time-outs. Quick ones do not.
test: WORKERS ?= 3
test-fast: WORKERS ?= 2

test-needs: setup java prometheus nginx jdbc kafka clients $(SPARK_CLASSES) ## fetch and build what tests talk to, where that is possible

test: test-needs ## every test, in WORKERS=3 processes; pass options with ARGS="-k name"
	$(BIN)/python -m pytest --numprocesses $(WORKERS) $(ARGS)

test-fast: setup ## quick tests of the engine's parts, for the hand that edits; `make test` has them all
	$(BIN)/python -m pytest --numprocesses $(WORKERS) $(FAST) $(ARGS)

lint: setup ## style, types and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test ## what CI runs

bench: setup java ## every benchmark; see benchmarks/README.md
	$(BIN)/python -m benchmarks $(ARGS)

clean: ## remove what was installed and built
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
