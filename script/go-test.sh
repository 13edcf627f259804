#!/usr/bin/env bash
# go-test.sh P TIMEOUT [RACE-PATTERN...] tests every package once, as go test -json writes it: those of the patterns
# under the race detector, and the rest without.
set -euo pipefail
# Nothing from the cache: the tests of proof run a program that go does not know they depend on.
args=(-json -count=1 -p "$1" -timeout "$2")
shift 2

failed=0
all=$(go list ./...)
race=
[ $# = 0 ] || race=$(go list "$@")
if [ -n "$race" ]; then
  # shellcheck disable=SC2086 # a list of words
  CGO_ENABLED=1 go test "${args[@]}" -race $race || failed=1
fi
rest=$(comm -23 <(sort <<<"$all") <(sort <<<"$race"))
# shellcheck disable=SC2086 # a list of words
[ -z "$rest" ] || go test "${args[@]}" $rest || failed=1
exit $failed
