# Every target sets up what it needs: a virtual environment in .venv with a Python 3.9 to 3.11, and the requirements.

PYTHON ?= $(shell for python in python3.11 python3.10 python3.9 python3 python; do \
	"$$python" -c 'import ensurepip, sys, venv; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 11))' 2>/dev/null \
	&& command -v "$$python" && break; done)
CORPUS ?=
DEMO_DIR ?= demo_output

.PHONY: demo test test-all clean

demo: .venv/installed
	.venv/bin/python -m demo --output_dir=$(DEMO_DIR) --corpus=$(CORPUS)

test: .venv/installed
	.venv/bin/python -m pytest -m "not slow"

test-all: .venv/installed
	.venv/bin/python -m pytest

.venv/installed: requirements.txt
	@test -n "$(PYTHON)" || { echo "albert_tf needs a Python 3.9, 3.10 or 3.11: install one, or name it with PYTHON=/path/to/python" >&2; exit 1; }
	@test -x .venv/bin/python || "$(PYTHON)" -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

clean:
	rm -rf .venv $(DEMO_DIR)
