# Two commands: `make demo` and `make test`. Both set up what they need on a fresh Debian 12.
PYTHON := .venv/bin/python

.PHONY: demo test setup lint clean

demo: setup
	tools/demo.sh

test: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest

lint: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	clang-format-15 --dry-run --Werror $$(git ls-files '*.c' '*.h' '*.cpp' '*.cl')

setup:
	tools/setup.sh

clean:
	rm -rf build .venv
