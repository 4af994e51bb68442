# Every target sets up what it needs: a virtual environment with a Python 3.11 to 3.13, and the requirements, which
# choose TensorFlow by the version of Python. STACK=newest takes the newest TensorFlow on Python 3.11 too.

STACK ?=
CORPUS ?=
DEMO_DIR ?= demo_output
TESTS ?= not long and not slow
# Processes that share the tests; each takes about 2 GB.
TEST_WORKERS ?= 2
# No environment that a user made, such as .venv, is changed or removed.
ENVIRONMENTS := .environments

ifeq ($(STACK),newest)
VENV := $(ENVIRONMENTS)/newest
REQUIREMENTS := requirements-newest.txt
VERSIONS := 3.13 3.12 3.11
else ifeq ($(STACK),)
VENV := $(ENVIRONMENTS)/tests
REQUIREMENTS := requirements.txt
VERSIONS := 3.11 3.13 3.12
else
$(error STACK must be newest or empty. Received: $(STACK))
endif

PYTHON ?= $(shell for python in $(VERSIONS:%=python%) python3 python; do \
	"$$python" -c 'import ensurepip, sys, venv; sys.exit("%d.%d" % sys.version_info[:2] not in "$(VERSIONS)".split())' 2>/dev/null \
	&& command -v "$$python" && break; done)

.PHONY: demo test test-all environment test-jax test-peers drills lint docs page dist clean

demo: $(VENV)/installed
	$(VENV)/bin/python -m demo --output_dir=$(DEMO_DIR) --corpus=$(CORPUS) $(FLAGS)

test: $(VENV)/installed
	$(VENV)/bin/python -m pytest -n $(TEST_WORKERS) --dist loadfile -m "$(TESTS)"

test-all: $(VENV)/installed
	$(VENV)/bin/python -m pytest -n $(TEST_WORKERS) --dist loadfile

# Runs by jax beside those by TensorFlow. JAX is the folder of the environment; it may be VENV of the newest TensorFlow.
JAX ?= $(ENVIRONMENTS)/jax
# The environment alone, which .ci/run sets up while the tests of the other stack run.
environment: $(JAX)/installed

test-jax: $(JAX)/installed
	$(JAX)/bin/python -m pytest tests/training/test_jax_runtime.py -m "not slow"

# The files that other libraries read; each library has an environment of its own (7 GB in all).
PEERS := $(ENVIRONMENTS)/transformers $(ENVIRONMENTS)/transformers-4 $(ENVIRONMENTS)/keras-hub $(ENVIRONMENTS)/openai \
	$(ENVIRONMENTS)/onnx-readers $(ENVIRONMENTS)/optimum
TRANSFORMERS_JS := $(if $(shell command -v npm),$(ENVIRONMENTS)/transformers-js)
test-peers: $(VENV)/installed $(JAX)/installed $(PEERS:%=%/installed) $(TRANSFORMERS_JS:%=%/installed)
	ALBERT_TF_PEER_PYTHON=$(ENVIRONMENTS)/transformers/bin/python ALBERT_TF_TRANSFORMERS_4_PYTHON=$(ENVIRONMENTS)/transformers-4/bin/python \
	ALBERT_TF_KERAS_HUB_PYTHON=$(ENVIRONMENTS)/keras-hub/bin/python ALBERT_TF_JAX_PYTHON=$(JAX)/bin/python \
	ALBERT_TF_OPENAI_PYTHON=$(ENVIRONMENTS)/openai/bin/python ALBERT_TF_ONNX_READERS_PYTHON=$(ENVIRONMENTS)/onnx-readers/bin/python \
	ALBERT_TF_OPTIMUM_PYTHON=$(ENVIRONMENTS)/optimum/bin/python ALBERT_TF_TRANSFORMERS_JS=$(TRANSFORMERS_JS) \
	$(VENV)/bin/python -m pytest tests/weights tests/export/test_serving.py tests/export/test_onnx_hugging_face.py tests/server/test_protocols.py \
	tests/test_device_steps.py -k "transformers or keras_hub or keras_3 or by_jax_alone or openai or milvus" -m "not slow"

$(ENVIRONMENTS)/transformers/installed: PACKAGES = torch==2.13.0 transformers==5.24.0 sentence-transformers==6.2.0 sentencepiece protobuf
$(ENVIRONMENTS)/transformers-4/installed: PACKAGES = torch==2.13.0 transformers==4.57.6 sentencepiece protobuf
$(ENVIRONMENTS)/keras-hub/installed: PACKAGES = keras-hub==0.32.0 tensorflow==2.21.0 safetensors sentencepiece
$(ENVIRONMENTS)/openai/installed: PACKAGES = openai==3.57.0 huggingface_hub==2.4.0 numpy
$(ENVIRONMENTS)/onnx-readers/installed: PACKAGES = transformers==5.24.0 onnxruntime==1.32.0 fastembed==0.9.1 pymilvus-model==0.3.4 requests
# sentence-transformers reads ONNX models by optimum, which does not install beside transformers 5.
$(ENVIRONMENTS)/optimum/installed: PACKAGES = torch==2.13.0 transformers==4.57.6 sentence-transformers==5.7.0 optimum-onnx[onnxruntime]==0.1.0
$(ENVIRONMENTS)/transformers-js/installed:
	mkdir -p $(@D)
	npm install --ignore-scripts --no-audit --no-fund --prefix $(@D) @huggingface/transformers@4.3.1
	@touch $@

# The JavaScript of export_to_onnx --layout=web, as albert_tf/server/web.py pins it.
$(ENVIRONMENTS)/web/installed:
	mkdir -p $(@D)
	npm install --ignore-scripts --no-audit --no-fund --prefix $(@D) onnxruntime-web@1.30.0 @huggingface/tokenizers@0.2.0
	@touch $@

$(PEERS:%=%/installed):
	"$(PYTHON)" -m venv $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check $(PACKAGES)
	@touch $@

# Kills, signals, pairs of commands, failing calls and power cuts (docs/results/reliability.md). FLAGS: those of tests/drills/run.py.
drills: $(VENV)/installed
	$(VENV)/bin/python tests/drills/run.py $(FLAGS)

# Ruff and mypy need neither TensorFlow nor an environment of the tests.
lint: $(ENVIRONMENTS)/lint/installed
	$(ENVIRONMENTS)/lint/bin/ruff check
	$(ENVIRONMENTS)/lint/bin/mypy
	$(ENVIRONMENTS)/lint/bin/hadolint Dockerfile

# The pages of docs/ and the reference as HTML; a warning is an error.
docs: $(ENVIRONMENTS)/docs/installed
	$(ENVIRONMENTS)/docs/bin/python -m sphinx --quiet -W --keep-going docs docs/_build

# The page without a server with albert_tiny_en, in docs/_build/demo.
page: $(VENV)/installed $(ENVIRONMENTS)/web/installed
	$(VENV)/bin/python -m albert_tf export_to_onnx --init_checkpoint=albert_tiny_en --layout=web \
	--node_modules=$(ENVIRONMENTS)/web/node_modules --output_dir=docs/_build/demo

# The package as sources and as a wheel, in dist/, and whether the package index would take them.
dist: $(ENVIRONMENTS)/release/installed
	rm -rf dist
	$(ENVIRONMENTS)/release/bin/python -m build
	$(ENVIRONMENTS)/release/bin/python -m twine check --strict dist/*

# JAX may be VENV, which then has both.
$(VENV)/installed: PACKAGES += -r $(REQUIREMENTS) --group beam
$(JAX)/installed: PACKAGES += -r requirements-newest.txt --group jax
$(ENVIRONMENTS)/lint/installed: PACKAGES := --group dev
$(ENVIRONMENTS)/docs/installed: PACKAGES := --group docs
$(ENVIRONMENTS)/release/installed: PACKAGES := --group release
$(VENV)/installed: $(REQUIREMENTS)
$(JAX)/installed: requirements-newest.txt
$(sort $(VENV)/installed $(JAX)/installed): COST := 3 GB, 3 minutes or more
$(ENVIRONMENTS)/lint/installed: COST := 0.2 GB, a minute
$(ENVIRONMENTS)/docs/installed: COST := 0.2 GB, a minute
$(ENVIRONMENTS)/release/installed: COST := 0.1 GB, a minute
$(sort $(VENV)/installed $(JAX)/installed) $(ENVIRONMENTS)/lint/installed $(ENVIRONMENTS)/docs/installed $(ENVIRONMENTS)/release/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "albert_tf needs one of Python $(VERSIONS), with its module venv: install one and name it with PYTHON=/path/to/python (uv venv --python 3.12 ../python3.12 makes ../python3.12/bin/python)" >&2; exit 1; }
	@test -x $(@D)/bin/python || "$(PYTHON)" -m venv $(@D)
	@echo "Setting up $(@D) with $(strip $(PACKAGES)): about $(COST), once. Packages are listed as they come; the last step installs all of them."
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(@D)/bin/python -m pip install --progress-bar=off --disable-pip-version-check $(PACKAGES)
	@touch $@

clean:
	rm -rf $(ENVIRONMENTS) docs/_build dist $(DEMO_DIR)
