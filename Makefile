# spprof: everything that one does with this source, as short commands. `make` or `make help` lists them.
# PYTHON: the interpreter to build for (3.9 or newer). STEPS: of `make check`. T: tests for `make t`.
# Everything made lies in .venv/, build/ and examples/out/.
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --disable-pip-version-check
DEMO := examples/out/demo
DEMO_RATE ?= 1000

.DEFAULT_GOAL := help
.PHONY: help demo test dev t build few-statistics check ctest matrix bench browser viewer collector docs lint format wheel sdist completions venv clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/made ## build, profile a real program, show its hottest functions, leave a page and files for viewers
	$(PIP_INSTALL) --no-build-isolation --config-settings=build-dir=build/meson/demo . -r examples/requirements.txt
	@mkdir -p examples/out
	$(BIN)/spprof run --rate $(DEMO_RATE) -o $(DEMO).spprof examples/demo.py
	@$(BIN)/spprof convert $(DEMO).spprof -o $(DEMO).html
	@$(BIN)/spprof convert $(DEMO).spprof -f speedscope -o $(DEMO).speedscope.json
	@$(BIN)/spprof convert $(DEMO).spprof -f collapsed -o $(DEMO).collapsed.txt
	@echo
	@echo "The profile, to look at again with '$(BIN)/spprof report':   $(DEMO).spprof"
	@echo "A page for your browser (flame graph, table, source):        $(DEMO).html"
	@echo "For speedscope (its web page, or 'npx speedscope FILE'):     $(DEMO).speedscope.json"
	@echo "For flame graph tools (flamegraph.pl, inferno):              $(DEMO).collapsed.txt"

test: build ## set up and run the exact tests: unit, integration, C
	$(BIN)/python -m pytest -n auto --dist loadfile --max-worker-restart 0 tests/unit tests/integration
	tools/ctest

dev: .venv/made ## compile what changed into .venv, in seconds; writes compile_commands.json
	tools/dev

t: .venv/made ## the same, then the tests of T: make t T='tests/unit/test_tree.py -k root', T=tests/c/test_queue.c
	@tools/dev $(T)

build: .venv/made
	$(PIP_INSTALL) --no-build-isolation --config-settings=build-dir=build/meson/test \
	  --config-settings=setup-args=-Dstrict=true --config-settings=setup-args=-Db_ndebug=false --config-settings=setup-args=-Ddebug=true ".[test,symbols,consumers,hosts]"

# One in some 100,000 runs fails by chance, tried once; what is off for good fails three times.
few-statistics: build
	$(BIN)/python tests/tries.py -n 1 -m statistical tests/integration/test_time.py tests/integration/test_crowded.py \
	  tests/integration/test_life.py tests/integration/test_forks.py tests/integration/test_restricted.py \
	  -k "cpu-perf-self or cpu-signal-self or pause_takes_no_time or exec_that_fails_costs or counted_itself or on_the_samplers \
	  or (what_was_lost_is_counted and (one-busy-perf or one-busy-signal))"

check: ## every check there is, hours of them; STEPS='torture lint' runs some (tools/check --list)
	tools/check $(STEPS)

ctest: .venv/made ## the C tests alone: plain, then under ASan+UBSan, then under TSan
	tools/ctest
	tools/ctest --sanitize address,undefined
	tools/ctest --sanitize thread

matrix: ## build for each interpreter at hand and run the exact tests on each (tools/matrix --help)
	tools/matrix

bench: .venv/made ## the figures of docs/results.md, measured here
	$(PIP_INSTALL) --no-build-isolation --config-settings=build-dir=build/meson/bench ".[bench]"
	$(BIN)/python -m bench

browser: ## what the tests in a real browser need: speedscope and a driver for Chromium, from npm
	cd tests/browser && npm ci --silent --no-audit --no-fund

viewer: ## the page of `-f html`, made from viewer/ into src/spprof/viewers/page.html
	cd viewer && npm ci --silent --no-audit --no-fund --ignore-scripts && npm test --silent && npm run --silent build
	cp build/viewer/index.html src/spprof/viewers/page.html
collector: .venv/made ## a real OpenTelemetry collector, built with Go (two minutes), receives our OTLP profiles
	$(PIP_INSTALL) --no-build-isolation --config-settings=build-dir=build/meson/test ".[test,otlp]"
	tests/collector/build
	$(BIN)/python -m pytest tests/collector

docs: .venv/made ## the documentation as a site, in build/site; broken links are errors
	$(PIP_INSTALL) --no-build-isolation --config-settings=build-dir=build/meson/docs ".[docs]"
	$(BIN)/python tools/site

lint: ## style and static checks: clang-format, cppcheck, ruff, mypy
	tools/lint

format: ## the same, putting right what can be
	tools/lint --fix

wheel: ## a source archive and a wheel for each interpreter at hand, of HEAD, in dist/; WHEELS=--one: one for all
	$(PYTHON) tools/wheels $(WHEELS)

sdist: ## the source archive alone
	$(PYTHON) tools/wheels --sdist

completions: .venv/made ## what shells complete, and the manual page, in build/share/; wheels have them in share/
	$(PIP_INSTALL) -c tools/backend.txt shtab argparse-manpage
	$(BIN)/python tools/completions build/share

venv: .venv/made ## .venv with the build tools, for make's other targets

.venv/made:
	@tools/check-system $(PYTHON)
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) --upgrade pip "meson-python>=0.18" "meson>=1.2" "ninja>=1.10"
	@touch $@

clean: ## remove everything that was made
	rm -rf .venv build dist wheelhouse examples/out tests/browser/node_modules viewer/node_modules
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
