# One command for each task. CI and the README call these and nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

CACHE   := $(CURDIR)/.cache
LINTER  := $(CACHE)/bin/golangci-lint
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
SOURCES := go.mod go.sum $(shell find . -name '*.go' -not -path './.cache/*' -not -path './tools/*')

# The race detector needs cgo and a compiler; without them the tests run without it.
RACE := $(shell test "$$(go env CGO_ENABLED 2>/dev/null)" = 1 && command -v $$(go env CC) >/dev/null && echo -race)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install what is missing on this machine (Debian 12 or 13, root)
	@scripts/setup.sh

.PHONY: build
build: bin/enplace bin/enplace-guest bin/enplace-shim ## Build the programs into bin/

# Static, for any Linux: those for inside run in sandboxes that have no libc that we know of.
bin/enplace-shim: ENTRY := -E main.first
bin/enplace bin/enplace-guest bin/enplace-shim: $(SOURCES) $(shell git ls-files | grep -E '\.(sql|sh|js|py|css|html|toml|conf)$$')
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION) $(ENTRY)' -o $@ ./cmd/$(@F)
	@touch $@

.PHONY: quickstart
quickstart: setup build ## Start a server, build an example environment, run a task in it
	@scripts/quickstart.sh

.PHONY: toolchains
toolchains: setup build ## The same for toolchains: plugins, sets, computers, a bundle
	@scripts/toolchains.sh

.PHONY: test
test: setup build vet base ## Run every test on the real thing; CI runs this, and lint
	go test $(RACE) -p 2 -timeout 20m ./...

.PHONY: base
base: ## Make the base that tests run on, once for this machine (ENPLACE_TEST_DIR, or /var/cache/enplace-test)
	go test -count=1 -timeout 15m -run 'TestDebian$$' ./internal/base

.PHONY: vet
vet: ## Check format, and what go vet finds
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt these:"; echo "$$out"; exit 1; fi
	go vet ./...

.PHONY: lint
lint: vet $(LINTER) ## Check style, too; the first time builds the linter
	$(LINTER) run ./...

# In a module of its own, so that what a linter needs does not choose versions for the product. Built once for its version.
$(LINTER): tools/lint/go.mod
	cd tools/lint && go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

.PHONY: generate
generate: ## Make generated code and documents again
	scripts/generate.sh

.PHONY: verify
verify: lint ## Make generated code again, and fail when it differs from what is committed
	scripts/generate.sh
	@git diff --exit-code -- internal/store docs || { echo "generated files differ: commit them"; exit 1; }
	@echo "reflection by name in the programs (each keeps dead code alive): $$(go build -ldflags=-dumpdep -o /dev/null ./cmd/enplace 2>&1 | grep -c ReflectMethod || true)"

.PHONY: bench
bench: setup build ## Measure the ratios that the design asks for
	go run ./bench

.PHONY: fuzz
fuzz: ## Fuzz every reader of hostile input, 30 seconds each
	@scripts/fuzz.sh

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin .cache
