# Everything a developer types. `make` alone lists it.
# Each target does its own set-up: the environment .venv is made, and renewed when pyproject.toml or
# constraints.txt change. Another interpreter: `make test PYTHON=python3.12`.

PYTHON ?= python3
VENV := .venv
PIP_INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# What each stamp stands for: dtrainer itself; the tools of its developers; the builder of its site.
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs

.PHONY: help demo test lint format types docs bench bench-peers clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(RUN) ## train PPO on CartPole with two actors until it is solved, and plot it (one minute)
	@name="demo-$$(date +%Y%m%d-%H%M%S)"; run="results/$$name"; set -e; \
	$(VENV)/bin/dtrainer train examples/cartpole-ppo.yaml --results results --name "$$name"; \
	$(VENV)/bin/dtrainer plot "$$run" -o "$$run/learning-curve.png"; \
	printf '%s\n' "" "The run is in $$run:" \
	  "  $$run/learning-curve.png    the learning curve" \
	  "  $$run/progress.csv          one line an iteration" \
	  "  $$run/checkpoints           what a run resumes from" \
	  "" \
	  "What to type next:" \
	  "  source $(VENV)/bin/activate" \
	  "  dtrainer list" \
	  "  dtrainer evaluate $$run --episodes 20" \
	  "  dtrainer train examples/pendulum-ppo.yaml" \
	  "  dtrainer train examples/cartpole-ppo.yaml config.lr=1e-3 num_workers=1"

test: $(DEV) ## run all tests
	$(VENV)/bin/python -m pytest

lint: $(DEV) ## check style and formatting
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(DEV) ## rewrite the code as `make lint` wants it
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

types: $(DEV) ## check the types of dtrainer/ with mypy --strict
	$(VENV)/bin/mypy

docs: $(DOCS) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict --clean
	@echo "Open site/index.html"

bench: $(RUN) ## measure sampling and solving CartPole against the peers, if they are installed
	$(VENV)/bin/python -m benchmarks.sampling
	$(VENV)/bin/python -m benchmarks.ppo_cartpole

bench-peers: .venv-peers/.installed ## install ray[rllib] and stable-baselines3 into .venv-peers (2 GB)
	@echo "The peers are installed. Now type: make bench"

clean: ## delete what was built and cached; keeps the environments and results/
	rm -rf site build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "dtrainer needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another interpreter: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing dtrainer into $(VENV) (PyTorch makes this a few minutes the first time) …"
	$(PIP_INSTALL) -e .
	@touch $@

$(DEV): $(RUN)
	$(PIP_INSTALL) -e '.[dev,box2d]'
	@touch $@

$(DOCS): $(RUN)
	$(PIP_INSTALL) -e '.[docs]'
	@touch $@

# PyTorch first and by its exact version: asked for by the others it would be the newest, with CUDA.
.venv-peers/.installed: benchmarks/peers-requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
	  echo "The peers' pinned versions want Python 3.11, and $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name it: make PYTHON=python3.11 bench-peers" >&2; exit 1; }
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet $$(grep '^torch==' $<)
	.venv-peers/bin/python -m pip install --quiet -r $<
	@touch $@
