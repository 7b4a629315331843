# What one does with this workspace. `make` alone lists it.

PREFIX ?= /usr/local
DESTDIR ?=
# Seconds that each fuzz target runs, and in `make conformance`.
FUZZ_SECONDS ?= 60
SHORT_FUZZ_SECONDS := 20
# Not empty: `make run` stays up.
STAY ?=
# Annotations for the pod of `make run`: key=value …
ANNOTATE ?=
# The name of a crate that `make new-plugin` or `make new-shim` writes, and where.
NAME ?=
DIR ?=
# Options for the benchmark; `make bench BENCH=--help` lists them.
BENCH ?=

CARGO ?= cargo
# Programs that `make install` puts into $(PREFIX)/bin; add a name here when a crate under cmd/ builds one.
PROGRAMS :=
DOCUMENTS := README.md CHANGELOG.md LICENSE SECURITY.md

# Crates that others get from a registry.
PUBLISHED := nri-proto nri-adaptation nri-api cri-domain nri-plugin shim-plugins

PEERS := tests/interop/peers
DAEMONS := tests/interop/daemons
FUZZ := tests/fuzz
# What is built by itself, so that other shims are built and tested without it.
WITH_GRPC := --package shim-plugins --features grpc
TARGET := $(or $(CARGO_TARGET_DIR),target)
# One test that fails hides no other.
CARGO_TEST := $(CARGO) test --no-fail-fast
# Tools that `scripts/setup` installed come before the machine's own.
export PATH := $(shell scripts/setup path):$(PATH)

.PHONY: help build run new-plugin new-shim test conformance bench bench-api bench-sdk bench-shim fuzz lint fmt install setup setup-go peers daemons clean
.DEFAULT_GOAL := help

help: ## List what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: setup ## Build everything, optimised
	$(CARGO) build --release --workspace --lib --bins --examples

# The plugins lie beside the program that launches them.
run: setup ## See it work: a runtime, two plugins, a pod's life, who changed what; STAY=1 to connect a plugin of yours, ANNOTATE=key=value to annotate the pod
	$(CARGO) build --package nri-adaptation --package nri-plugin --example demo --example ulimit-adjuster --example device-injector
	@$(TARGET)/debug/examples/demo $(if $(STAY),--stay) $(if $(ANNOTATE),--annotate '$(ANNOTATE)')

new-plugin: ## Write a crate for a plugin of your own: NAME=my-plugin, DIR=../my-plugin
	@scripts/new plugin '$(NAME)' $(DIR)

new-shim: ## Write a crate for a containerd shim of your own: NAME=mine, DIR=../containerd-shim-mine-v1
	@scripts/new shim '$(NAME)' $(DIR)

# Go is found or fetched; where it cannot be had, the tests that need it say so and pass, unless NRI_REQUIRE_GO is set.
# The same goes for runc, which takes root, and NRI_REQUIRE_RUNC.
test: setup ## Run what a contributor runs: all tests, and those against Go's own NRI
	@[ "$$(id -u)" != 0 ] || scripts/setup runc || [ -z "$$NRI_REQUIRE_RUNC" ]
	@if scripts/setup go; then \
	    export NRI_REQUIRE_GO=1; $(MAKE) --no-print-directory peers; \
	else \
	    [ -z "$$NRI_REQUIRE_GO" ] || exit 1; echo 'make: no Go here, tests against Go peers skip themselves'; \
	fi || exit; \
	failed=0; for what in --workspace '$(WITH_GRPC)'; do \
	    echo "$(CARGO_TEST) $$what"; $(CARGO_TEST) $$what || failed=1; \
	done; exit $$failed

# Containers take root, so shims run under containerd only where we have it, and where it could be built.
conformance: setup peers ## Run what takes longer: shims under containerd, more random cases, fuzz targets
	@if [ "$$(id -u)" = 0 ] && scripts/setup runc; then export NRI_REQUIRE_RUNC=1; fi; \
	if [ "$$(id -u)" = 0 ] && $(MAKE) --no-print-directory daemons; then \
	    export NRI_REQUIRE_DAEMONS=1; \
	else \
	    echo 'make: not all containerds are here, tests under those that are missing skip themselves'; \
	fi; \
	export NRI_LONG=1 PROPTEST_CASES=4096 NRI_REQUIRE_GO=1; \
	failed=0; for what in '--workspace --profile conformance' '$(WITH_GRPC) --profile conformance -- grpc'; do \
	    $(CARGO_TEST) $$what || failed=1; \
	done; \
	$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=$(SHORT_FUZZ_SECONDS) || failed=1; exit $$failed

# Of this package alone: what others want of the crates below is not in the program whose memory is measured.
bench: setup peers ## Measure us beside Go, in one interleaved run
	$(CARGO) build --release --package nri-bench --bin relay-bench --bin bench-runtime
	@# All of it is measured, even if a bar is missed early.
	@missed=0; for what in '' merge generate; do \
	    echo "relay-bench $$what"; \
	    $(TARGET)/release/relay-bench $$what --write docs/benchmarks.md $(BENCH) || missed=1; \
	done; exit $$missed

# Instructions are counted, so it may run on a busy machine.
bench-api: setup peers ## Measure what nri-api costs above the adaptation
	@scripts/setup count
	$(CARGO) build --release --bin api-bench
	$(TARGET)/release/api-bench $(PEERS)/bin/v0.12.5/benchplugin --write docs/benchmarks.md

# As small as a program that every node runs should be.
bench-sdk: setup peers ## Measure a plugin of ours beside one on Go's stub
	$(CARGO) build --profile shim --package nri-plugin --example logger
	sync # Pages of a program that are not on the disk yet would count as written to.
	$(CARGO) run --bin sdk-bench -- $(TARGET)/shim/examples/logger $(PEERS)/bin/v0.12.5/logger \
	    $(PEERS)/bin/v0.12.5/runtime --write docs/benchmarks.md

bench-shim: setup daemons ## Measure a shim of ours beside Go's for runc
	$(CARGO) build --profile shim --package shim-plugins --example hello_shim
	sync # Pages of a program that are not on the disk yet would count as written to.
	$(CARGO) run --release --bin shim-bench -- $(TARGET)/shim/examples/hello_shim $(DAEMONS)/bin/v2.4.2

fuzz: setup ## Run each fuzz target for FUZZ_SECONDS, from its corpus
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

install: $(if $(PROGRAMS),build) ## Install below DESTDIR and PREFIX
	install -d '$(DESTDIR)$(PREFIX)/share/doc/nri-rs/docs/decisions' '$(DESTDIR)$(PREFIX)/share/doc/nri-rs/docs/guides'
	install -m 644 $(DOCUMENTS) '$(DESTDIR)$(PREFIX)/share/doc/nri-rs'
	install -m 644 $(wildcard docs/*.*) '$(DESTDIR)$(PREFIX)/share/doc/nri-rs/docs'
	install -m 644 $(wildcard docs/decisions/*.md) '$(DESTDIR)$(PREFIX)/share/doc/nri-rs/docs/decisions'
	install -m 644 $(wildcard docs/guides/*.md) '$(DESTDIR)$(PREFIX)/share/doc/nri-rs/docs/guides'
ifneq ($(PROGRAMS),)
	install -d '$(DESTDIR)$(PREFIX)/bin'
	install -m 755 $(PROGRAMS:%=$(TARGET)/release/%) '$(DESTDIR)$(PREFIX)/bin'
endif

setup: ## Install what a build lacks; runs by itself
	@scripts/setup build

setup-go:
	@scripts/setup go

peers: setup-go ## Build the Go programs that the tests talk to
	$(PEERS)/build

daemons: setup-go ## Build the containerds that shims and plugins are tested under
	$(DAEMONS)/build

clean: ## Remove what was built here; tools of the user stay
	$(CARGO) clean
	rm -rf $(PEERS)/bin $(DAEMONS)/bin $(FUZZ)/target $(FUZZ)/artifacts $(FUZZ)/coverage
