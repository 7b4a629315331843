# The targets of this workspace. `make` without a target lists them.

PREFIX ?= /usr/local
DESTDIR ?=
# Seconds that each fuzz target runs: in `make fuzz`, and in `make conformance`.
FUZZ_SECONDS ?= 60
SHORT_FUZZ_SECONDS := 20
# If not empty, the demo of `make run` keeps running.
STAY ?=
# Annotations for the pod of `make run`: key=value …
ANNOTATE ?=
# The name of the crate that `make new-plugin` or `make new-shim` writes, and its directory.
NAME ?=
DIR ?=
# Options of the benchmark. `make bench BENCH=--help` lists them.
BENCH ?=

CARGO ?= cargo
# Programs that `make install` copies to $(PREFIX)/bin. Add the name when a crate in cmd/ builds a program.
PROGRAMS :=
DOCUMENTS := README.md CHANGELOG.md LICENSE SECURITY.md

# Crates that are published to a registry.
PUBLISHED := nri-proto nri-adaptation nri-api cri-domain nri-plugin shim-plugins

PEERS := tests/interop/peers
DAEMONS := tests/interop/daemons
FUZZ := tests/fuzz
# The feature `grpc` is built separately, so that other shims are built and tested without the feature.
WITH_GRPC := --package shim-plugins --features grpc
TARGET := $(or $(CARGO_TARGET_DIR),target)
# Crates with tests that take long because of computing. Only these are built in a second, optimised profile; all other long
# tests wait for processes, and run from what `make test` has built.
COMPUTING := nri-proto nri-adaptation nri-api cri-domain nri-plugin nri-tests
OPTIMISED := $(COMPUTING:%=--package %) --profile conformance
# A failed test does not stop the tests after it.
CARGO_TEST := $(CARGO) test --no-fail-fast
# The tools that `scripts/setup` installs take precedence over those of the machine.
export PATH := $(shell scripts/setup path):$(PATH)

.PHONY: help build run new-plugin new-shim test conformance bench bench-api bench-sdk bench-shim fuzz lint fmt install setup setup-go peers daemons clean
.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: setup ## Build everything, optimised
	$(CARGO) build --release --workspace --lib --bins --examples

# The demo launches the plugins from its own directory, so all programs are built together.
run: setup ## Run a demo: a runtime, two plugins, a pod, the recorded changes; STAY=1 keeps it running, ANNOTATE=key=value annotates the pod
	$(CARGO) build --package nri-adaptation --package nri-plugin --example demo --example ulimit-adjuster --example device-injector
	@$(TARGET)/debug/examples/demo $(if $(STAY),--stay) $(if $(ANNOTATE),--annotate '$(ANNOTATE)')

new-plugin: ## Write a crate for a plugin of your own: NAME=my-plugin, DIR=../my-plugin
	@scripts/new plugin '$(NAME)' $(DIR)

new-shim: ## Write a crate for a containerd shim of your own: NAME=mine, DIR=../containerd-shim-mine-v1
	@scripts/new shim '$(NAME)' $(DIR)

# `scripts/setup` fetches Go if the machine has none. If Go cannot be fetched, tests that need it print a message and
# pass, unless NRI_REQUIRE_GO is set. The same applies to runc, which needs root, and NRI_REQUIRE_RUNC.
test: setup ## Run the tests for contributors, including those against Go's NRI
	@[ "$$(id -u)" != 0 ] || scripts/setup runc || [ -z "$$NRI_REQUIRE_RUNC" ]
	@if scripts/setup go; then \
	    export NRI_REQUIRE_GO=1; $(MAKE) --no-print-directory peers; \
	else \
	    [ -z "$$NRI_REQUIRE_GO" ] || exit 1; echo 'make: no Go here, tests against Go peers skip themselves'; \
	fi || exit; \
	failed=0; for what in --workspace '$(WITH_GRPC)'; do \
	    echo "$(CARGO_TEST) $$what"; $(CARGO_TEST) $$what || failed=1; \
	done; exit $$failed

# Containers need root. Without root, or without a containerd that could be built, tests of shims skip themselves.
conformance: setup peers ## Run the long tests: shims under containerd, more random cases, fuzz targets
	@if [ "$$(id -u)" = 0 ] && scripts/setup runc; then export NRI_REQUIRE_RUNC=1; fi; \
	if [ "$$(id -u)" = 0 ] && $(MAKE) --no-print-directory daemons; then \
	    export NRI_REQUIRE_DAEMONS=1; \
	else \
	    echo 'make: not all containerds are here, tests under those that are missing skip themselves'; \
	fi; \
	export NRI_LONG=1 PROPTEST_CASES=4096 NRI_REQUIRE_GO=1; \
	failed=0; run() { echo "$(CARGO_TEST) $$*"; $(CARGO_TEST) "$$@" || failed=1; }; \
	$(CARGO) build $(OPTIMISED) --examples || failed=1; \
	run $(OPTIMISED) --lib; \
	run $(OPTIMISED) --test interop --test memory; \
	run $(OPTIMISED) --test it -- model fuzz limits; \
	$(CARGO) build --workspace --examples || failed=1; \
	run --workspace --test daemons --test runc; \
	run $(WITH_GRPC) --lib; \
	run $(WITH_GRPC) -- grpc; \
	$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=$(SHORT_FUZZ_SECONDS) || failed=1; exit $$failed

# Only this package is built: features that other packages enable in its dependencies would change the measured memory.
bench: setup peers ## Compare our NRI with Go's, in one interleaved run
	$(CARGO) build --release --package nri-bench --bin relay-bench --bin bench-runtime
	@# A bar that is not met does not stop the measurements after it.
	@missed=0; for what in '' merge generate; do \
	    echo "relay-bench $$what"; \
	    $(TARGET)/release/relay-bench $$what --write docs/benchmarks.md $(BENCH) || missed=1; \
	done; exit $$missed

# This benchmark counts instructions, so other load on the machine does not affect it.
bench-api: setup peers ## Measure the cost of nri-api on top of the adaptation
	@scripts/setup count
	$(CARGO) build --release --bin api-bench
	$(TARGET)/release/api-bench $(PEERS)/bin/v0.12.5/benchplugin --write docs/benchmarks.md

# The profile `shim` builds small programs; a plugin runs on every node.
bench-sdk: setup peers ## Compare a plugin on nri-plugin with one on Go's stub
	$(CARGO) build --profile shim --package nri-plugin --example logger
	sync # Otherwise pages of the new program that are not on disk yet would be measured as dirty.
	$(CARGO) run --bin sdk-bench -- $(TARGET)/shim/examples/logger $(PEERS)/bin/v0.12.5/logger \
	    $(PEERS)/bin/v0.12.5/runtime --write docs/benchmarks.md

bench-shim: setup daemons ## Compare a shim on shim-plugins with Go's shim for runc
	$(CARGO) build --profile shim --package shim-plugins --example hello_shim
	sync # Otherwise pages of the new program that are not on disk yet would be measured as dirty.
	$(CARGO) run --release --bin shim-bench -- $(TARGET)/shim/examples/hello_shim $(DAEMONS)/bin/v2.4.2

fuzz: setup ## Run each fuzz target for FUZZ_SECONDS, starting from its corpus
	@scripts/setup fuzz
	scripts/fuzz $(FUZZ_SECONDS)

lint: setup setup-go ## Check format, lints, documentation, licences and sources of dependencies, packages, scripts, Go
	@scripts/setup lint
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path $(FUZZ)/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy $(WITH_GRPC) --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc $(WITH_GRPC) --no-deps --locked
	$(CARGO) deny --locked check bans licenses sources
	$(CARGO) package --locked --allow-dirty --no-verify $(PUBLISHED:%=--package %)
	shellcheck .ci/run scripts/* $(PEERS)/build $(DAEMONS)/build
	$(PEERS)/build vet
	cd $(DAEMONS)/v2.4.2 && go vet ./...
	unformatted=$$(gofmt -l $(PEERS) $(DAEMONS)) && [ -z "$$unformatted" ] || \
	    { echo "make: gofmt would change these, see make fmt: $$unformatted"; exit 1; }

fmt: setup setup-go ## Format Rust and Go
	$(CARGO) fmt --all
	$(CARGO) fmt --manifest-path $(FUZZ)/Cargo.toml
	gofmt -w $(PEERS) $(DAEMONS)

install: $(if $(PROGRAMS),build) ## Install documents and programs under DESTDIR and PREFIX
	install -d '$(DESTDIR)$(PREFIX)/share/doc/nri-rs/docs/decisions' '$(DESTDIR)$(PREFIX)/share/doc/nri-rs/docs/guides'
	install -m 644 $(DOCUMENTS) '$(DESTDIR)$(PREFIX)/share/doc/nri-rs'
	install -m 644 $(wildcard docs/*.*) '$(DESTDIR)$(PREFIX)/share/doc/nri-rs/docs'
	install -m 644 $(wildcard docs/decisions/*.md) '$(DESTDIR)$(PREFIX)/share/doc/nri-rs/docs/decisions'
	install -m 644 $(wildcard docs/guides/*.md) '$(DESTDIR)$(PREFIX)/share/doc/nri-rs/docs/guides'
ifneq ($(PROGRAMS),)
	install -d '$(DESTDIR)$(PREFIX)/bin'
	install -m 755 $(PROGRAMS:%=$(TARGET)/release/%) '$(DESTDIR)$(PREFIX)/bin'
endif

setup: ## Install missing tools for a build; other targets run it
	@scripts/setup build

setup-go:
	@scripts/setup go

peers: setup-go ## Build the Go peers of the tests
	$(PEERS)/build

daemons: setup-go ## Build the versions of containerd that tests run
	$(DAEMONS)/build

clean: ## Remove all build output; tools in the user's cache stay
	$(CARGO) clean
	rm -rf $(PEERS)/bin $(DAEMONS)/bin $(FUZZ)/target $(FUZZ)/artifacts $(FUZZ)/coverage
