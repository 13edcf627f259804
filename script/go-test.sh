#!/usr/bin/env bash
# go-test.sh FILE P PARALLEL TIMEOUT PATTERN... tests every package once, those of PATTERNS under the race detector, and
# keeps what go test -json writes in FILE. All run side by side: most tests wait for servers most of the time. Of the
# tests in script/long-tests, as many as take a tenth of their time are drawn; a test that is not in that file always
# runs. make prove runs all.
set -euo pipefail
file=$1 p=$2
# Nothing from the cache: the tests of proof run a program that go does not know they depend on. Vet is make lint's.
args=(-json -count=1 -vet=off -parallel "$3" -timeout "$4")
shift 4
args+=(-skip "^($(go run ./script/suite -leave-out script/long-tests 0.1))\$")

race=$([ $# = 0 ] || go list "$@")
# What takes longest comes first, so that at the end nothing runs alone.
rest=$(go list ./cmd/tidemark ./proof/ddl ./proof/misuse ./... | awk '!seen[$0]++' | grep -Fxv "$race")
# bench is a module of its own.
groups=("${args[@]}" -p "$p" $rest -- -C bench "${args[@]}" -p 1 ./...) # shellcheck disable=SC2206 # a list of words
[ -z "$race" ] || groups+=(-- "${args[@]}" -p 1 -race $race)           # shellcheck disable=SC2206
exec go run ./script/suite "$file" "${groups[@]}"
