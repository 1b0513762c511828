# make demo   set up, then train a population and its single-agent baseline on this machine's CPU (about 8 minutes)
# make test   set up, then run every notebook and the checks
# make export notebooks -> populora/ and README.md, outputs cleaned
# make help   this text

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
export OMP_NUM_THREADS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Waiting threads sleep instead of spinning: on shared cores this is several times faster.
export OMP_WAIT_POLICY ?= PASSIVE
export TOKENIZERS_PARALLELISM = false
export HF_HUB_OFFLINE ?= 1

.PHONY: help setup demo test export clean

help:
	@sed -n 's/^# //p' Makefile | head -4

setup: .venv/ready

.venv/ready: setup.py settings.ini constraints.txt
	@test -n "$(PYTHON)" || { echo "populora needs Python 3.11, 3.12 or 3.13 on the PATH, or PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch .venv/ready

demo: setup
	$(BIN)/populora demo --out runs/demo

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python tools/test.py

export: setup
	$(BIN)/nbdev_export
	$(BIN)/nbdev_clean
	$(BIN)/python tools/readme.py

clean:
	rm -rf .venv build dist *.egg-info runs
