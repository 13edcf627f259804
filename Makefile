# make             what there is
# make test        all that CI runs (.ci/run): installs what is missing, checks, tests
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Packages whose tests run under the race detector (and only so): those with concurrency of their own. A folder that
# is not there is passed over.
RACE := flow load job diff apply capture
race := $(addprefix ./,$(addsuffix /...,$(wildcard $(RACE))))

# Packages tested at a time: each has database servers of its own.
P        ?= 2
TIMEOUT  ?= 60m
FUZZTIME ?= 30s
FUZZPKG  ?= ./...

# Packages whose fuzz targets make test runs: what other machines, files of backups and expressions say, and URLs. With
# 1 s each these are some 25 targets in less than three minutes of two cores, most of it for compiling; 10 s each would
# be five minutes more in every run. "make test FUZZEACH=10s" does that, and "make fuzz FUZZTIME=10m" all there are.
FUZZSHORT := . ./mysql ./postgres ./backup/repo ./backup/dump ./queue/jetstream
FUZZEACH  ?= 1s

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0
GOTESTSUM   := gotest.tools/gotestsum@v1.13.0

.PHONY: help build test-deps lint test test-all test-short demo bench fuzz clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/tidemark, a static binary
	CGO_ENABLED=0 go build -trimpath -o bin/tidemark ./cmd/tidemark

test-deps: ## install the database servers that the tests need (as root for Debian packages)
	@script/install-test-deps.sh

lint: ## gofmt, go vet, staticcheck
	@bad=$$(gofmt -l .); [ -z "$$bad" ] || { echo "not gofmt-clean:"; echo "$$bad"; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...

test: test-deps lint ## every check and every test, each once
	@mkdir -p bin
	@go run $(GOTESTSUM) --format pkgname --jsonfile bin/test.json --raw-command -- script/go-test.sh $(P) $(TIMEOUT) $(race)
	@$(MAKE) --no-print-directory fuzz FUZZTIME=$(FUZZEACH) FUZZPKG="$(FUZZSHORT)"
	@if [ -n "$${CI:-}" ] && [ -n "$${TIDEMARK_SAMPLES:-}" ] && grep '"Action":"skip"' bin/test.json | grep '"Test":'; then \
	  echo "tests were skipped: in CI none may"; exit 1; fi

test-all: ## make test with every test in its long form (hours)
	TIDEMARK_TEST=all TIDEMARK_STEPS=all TIDEMARK_CHAINS=20 $(MAKE) test TIMEOUT=6h

test-short: ## the tests that are quick, without checks or the race detector
	go test -short -p $(P) -timeout $(TIMEOUT) ./...

demo: ## a tour on real servers
	go run ./internal/demo

bench: ## compare with other tools (NAME=pg-shop, BENCH_FLAGS="--rounds 3"; without NAME the list)
	go run ./bench $(or $(NAME),list) $(BENCH_FLAGS)

fuzz: ## every fuzz target for FUZZTIME
	@for pkg in $$(go list $(FUZZPKG)); do \
	  for target in $$(go test -list '^Fuzz' "$$pkg" | grep '^Fuzz' || true); do \
	    echo "$$pkg $$target"; \
	    go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$$pkg"; \
	  done; \
	done

clean: ## remove what was built
	rm -rf bin dist
