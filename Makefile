# Everything a person or CI runs. `make demo` and `make test` are the two commands of the README.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

CARGO ?= cargo
TARGET := $${CARGO_TARGET_DIR:-target}
CLUSTER := tests/cluster/cluster
# The tests that need more than Rust; together, so that they are built once.
MORE := --features runner-tests/cluster,runner-tests/overlay,runner-tests/scripted
DENY_VERSION := 0.20.2
CYCLONEDX_VERSION := 0.5.9

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

.PHONY: prerequisites
prerequisites:
	@scripts/prerequisites

.PHONY: demo
demo: build ## a workload starts, runs a command and stops, on the embedded cluster
	$(TARGET)/debug/runner-host demo

# The whole workspace at once, and everywhere in this file: parts of it would build wasmtime again with other features.
.PHONY: build
build: prerequisites ## debug binary, tests and benches; says how big the shipped plugins are
	$(CARGO) build --locked --workspace --all-targets
	@cd $(TARGET)/plugins/wasm32-wasip2/plugin && wc -c plugin_*.wasm | \
		awk '$$2 != "total" { printf "%-32s %7d bytes of at most 200000\n", $$2, $$1 }'

.PHONY: release
release: prerequisites ## the release binary, without the embedded cluster
	$(CARGO) build --locked --release -p runner-host --no-default-features

.PHONY: test
test: build ## all tests that need no Kubernetes
	$(CARGO) test --locked --workspace --lib --bins --test all
	$(CARGO) test --locked --workspace --doc

.PHONY: cluster-up
cluster-up: ## start a real one-node Kubernetes (see tests/cluster/README.md)
	$(CLUSTER) up

.PHONY: cluster-down
cluster-down: ## stop it; nothing stays behind
	$(CLUSTER) down

.PHONY: cluster-test
cluster-test: build cluster-up ## the tests against real Kubernetes
	$(CARGO) test --locked --workspace $(MORE) --test cluster --no-run
	tests/cluster/python >/dev/null
	$(CLUSTER) in $(CARGO) test --locked --offline --workspace $(MORE) --test cluster

.PHONY: overlay-test
overlay-test: build ## the tests on an OpenZiti overlay; its test double is built with Go
	$(CARGO) test --locked --workspace $(MORE) --test double --test overlay

.PHONY: scripted-test
scripted-test: build ## plugins in Python and JavaScript, swapped while calls run; built with pip and npm
	plugins/examples/build-scripted $(TARGET)/debug/runner-host
	$(CARGO) test --locked --workspace $(MORE) --test scripted

.PHONY: check
check: fmt clippy docs deny chart-lint ## every check that is not a test

CHART := charts/k8s-runner
.PHONY: chart-lint
chart-lint: ## lint the chart, with its defaults and with every option; helm is built with Go the first time
	helm=$$($(CLUSTER) helm) && $$helm lint --strict $(CHART) && \
	  $$helm lint --strict $(CHART) --values $(CHART)/ci/everything-values.yaml && \
	  $$helm package --destination $(TARGET)/chart $(CHART) >/dev/null

.PHONY: image
image: release ## the image as a docker-archive, without a container engine
	scripts/image $(TARGET)/runner-host-image.tar

.PHONY: sbom
sbom: ## the program's dependencies, as CycloneDX; with those of the embedded cluster, which the release is without
	@command -v cargo-cyclonedx >/dev/null || $(CARGO) install --locked cargo-cyclonedx@$(CYCLONEDX_VERSION)
	$(CARGO) cyclonedx --manifest-path host/runner/Cargo.toml --no-default-features --target $$(rustc -vV | sed -n 's/^host: //p') \
	  --format json --describe binaries --no-build-deps
	mkdir -p $(TARGET)/sbom && find host plugins tests -name '*.cdx.json' -exec mv {} $(TARGET)/sbom/ \;
	@ls $(TARGET)/sbom/runner-host_bin.cdx.json

.PHONY: reproducible
reproducible: build ## build the shipped plugins again elsewhere: the bytes have to be the same
	scripts/reproducible-plugins

.PHONY: fmt
fmt:
	$(CARGO) fmt --all --check

.PHONY: clippy
clippy: prerequisites
	$(CARGO) clippy --locked --workspace --all-targets $(MORE) -- -D warnings

.PHONY: docs
docs: prerequisites
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --exclude misbehave --exclude wrong-world

.PHONY: deny
deny:
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny@$(DENY_VERSION)
	$(CARGO) deny --locked check bans licenses sources

.PHONY: advisories
advisories: ## known vulnerabilities of dependencies
	$(CARGO) deny --locked check advisories
