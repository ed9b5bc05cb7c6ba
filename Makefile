# Two commands: `make demo` and `make test`. Both set up what they need on a fresh Debian 12 or 13.
# `make check` is for the time between two edits: style, types, layers and the unit tests.
PYTHON := .venv/bin/python
NATIVE_SOURCES := '*.c' '*.h' '*.cpp' '*.hpp' '*.cl' '*.cu'

.PHONY: demo test check lint docs sanitize evidence setup clean

demo: setup
	.venv/bin/xpuprof demo --force -o build/demo

# A file's tests share fixtures, so a worker takes whole files.
test: setup lint
	$(PYTHON) -m pytest -n auto --dist loadfile

check: setup lint
	$(PYTHON) -m pytest -q -n auto -m "not slow" tests/unit

lint: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	git ls-files $(NATIVE_SOURCES) | xargs .venv/bin/clang-format --dry-run --Werror
	$(PYTHON) -m mypy
	.venv/bin/lint-imports --no-logo

# The site, with every link inside it checked; links to other sites are listed in links.txt.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build -q
	@echo "Read it: build/site/index.html"

# The native readers and the clustering code under AddressSanitizer and UBSan: the same inputs each
# time, so that it fails for a change and not by chance. `tools/fuzz/native.sh 3600` looks further.
sanitize: setup
	FUZZ_RUNS=20000 tools/fuzz/native.sh 60

# Public programs through every engine and method, on an idle machine; goes on where it stopped.
evidence: setup
	$(PYTHON) tools/evidence/evidence.py --page build/evidence/evidence.md

setup:
	tools/setup.sh

clean:
	rm -rf build .venv
