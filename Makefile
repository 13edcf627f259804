# make             what there is
# make test        checks and tests; installs what is missing. CI (.ci/run) runs it
# make prove       what takes long, in slices; keeps doc/proven.md
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Packages whose tests run under the race detector, and only so: those with goroutines of their own whose tests cost
# little. make prove runs all others so. A folder that is not there is passed over.
RACE := flow load job diff apply capture ha/measure store queue catalog
race := $(addprefix ./,$(addsuffix /...,$(wildcard $(RACE))))

# Packages tested at a time, beside one under the race detector. Each has database servers of its own.
P        ?= 2
# Tests of a package that run at a time. Both processors are busy with five; more of them only take longer each.
PARALLEL ?= 5
TIMEOUT  ?= 20m
FUZZTIME ?= 30s
FUZZPKG  ?= ./...

# Packages whose fuzz targets make test runs: what other machines, files of backups and expressions say, and URLs; for a
# moment, and built as for tests. make prove runs all there are, for longer.
FUZZSHORT := . ./advisor ./db2/text ./mysql/... ./postgres/... ./backup/repo ./backup/dump ./queue/jetstream
FUZZEACH  ?= 1s
FUZZPLAIN ?= yes

# What the program says of itself: the last tag, and what has come since.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0

.PHONY: help build test-deps lint test prove test-short demo bench fuzz clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/tidemark, a static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/tidemark ./cmd/tidemark

test-deps: ## install the database servers that the tests need (as root for Debian packages)
	@script/install-test-deps.sh

# As script/suite has it: what vet needs is what the tests have compiled.
lint fuzz: export CGO_ENABLED := 0

lint: ## gofmt, go vet, staticcheck
	@bad=$$(gofmt -l .); [ -z "$$bad" ] || { echo "not gofmt-clean:"; echo "$$bad"; exit 1; }
	go vet ./...
	go -C bench vet ./...
	go run $(STATICCHECK) ./...
	cd bench && go run $(STATICCHECK) ./...

# What is drawn (long tests, cases of matrices, moments of kills) is drawn by the tree that is tested: the same tree gets
# the same answer, here and in CI, and the next one other draws.
test: export TIDEMARK_SEED ?= $(shell git rev-parse 'HEAD^{tree}' 2>/dev/null | cut -c 1-15 | { read -r tree && echo $$((16#$$tree)); })

test: test-deps ## the gate: every check and every test, of the long ones some
	@mkdir -p bin
	@$(MAKE) --no-print-directory lint >bin/lint.log 2>&1 & lint=$$!; \
	trap 'kill $$lint 2>/dev/null || true' EXIT; failed=0; export SUITE_WHILE=$$PPID; \
	script/go-test.sh bin/test.json $(P) $(PARALLEL) $(TIMEOUT) $(race) || failed=1; \
	FUZZPLAIN=$(FUZZPLAIN) $(MAKE) --no-print-directory fuzz FUZZTIME=$(FUZZEACH) FUZZPKG="$(FUZZSHORT)" || failed=1; \
	trap - EXIT; wait $$lint || failed=1; cat bin/lint.log; \
	go run ./script/suite -slowest bin/test.json; \
	exit $$failed
	@if [ -n "$${CI:-}" ] && [ -n "$${TIDEMARK_SAMPLES:-}" ] && grep '"Action":"skip"' bin/test.json | grep '"Test":'; then \
	  echo "tests were skipped: in CI none may"; exit 1; fi

prove: ## all that takes long, from where it ended: every test in its long form, the race detector, fuzzing (FOR=20m)
	@TIDEMARK_TEST=all script/install-test-deps.sh
	@SUITE_WHILE=$$PPID go run ./script/suite -prove $(FOR)

# Tests on real servers, one of each engine, that the fast loop has besides those that need none. They run in the same
# processes: a package is linked once.
SHORTTESTS := TestApply TestFollow TestWriteStops TestLanesLetGo TestRejectKeepsGoodRows TestFreshAndDirect TestPlanTouchesNothing

test-short: ## the fast loop: tests without servers, some with; no checks, no race detector; unchanged packages are not run
	@mkdir -p bin
	@TIDEMARK_SHORT="$(SHORTTESTS)" go run ./script/suite bin/short.json -json -short -vet=off -p 3 -parallel $(PARALLEL) \
	  $$(go list ./cmd/tidemark ./... | awk '!seen[$$0]++' | grep -v -e /proof/ -e /internal/demo) && failed=0 || failed=1; \
	go run ./script/suite -slowest bin/short.json; exit $$failed

demo: ## a tour on real servers
	go run ./internal/demo

bench: ## compare with other tools (NAME=pg-shop, BENCH_FLAGS="--rounds 3"; without NAME the list)
	go -C bench run . $(or $(NAME),list) $(BENCH_FLAGS)

fuzz: ## every fuzz target for FUZZTIME
	@script/fuzz.sh $(FUZZTIME) $(FUZZPKG)

clean: ## remove what was built
	rm -rf bin dist
