#!/usr/bin/env bash
# go-test.sh FILE P PARALLEL TIMEOUT RACE-PATTERNS SOME-PATTERNS TEST... tests every package once, and
# keeps what go test -json writes in FILE: those of RACE-PATTERNS under the race detector, of those of SOME-PATTERNS
# the tests that are named, and all else without it. All run side by side: most tests wait for
# servers most of the time. Of the tests in script/long-tests, as many as take a twentieth of their time are drawn; a
# test that is not in that file always runs. make prove runs all.
set -euo pipefail
file=$1 p=$2 race=$5 some=$6
# Nothing from the cache: the tests of proof run a program that go does not know they depend on. Vet is make lint's.
args=(-json -count=1 -vet=off -parallel "$3" -timeout "$4")
shift 6
tests="Test($(IFS='|'; echo "$*"))"
left=$(go run ./script/suite -leave-out script/long-tests 0.05)

# shellcheck disable=SC2086 # lists of words
{
  [ -z "$race" ] || race=$(go list $race | sort)
  # What takes longest comes first, so that at the end nothing runs alone.
  some=$({ go list ./cmd/tidemark; go list $some; } | awk '!seen[$0]++')
  rest=$(go list ./proof/ddl ./proof/misuse ./... | awk '!seen[$0]++' | grep -Fxv "$race"$'\n'"$some")
  # Of these, the packages that have such tests: others would be built for nothing.
  raced=$(go list -f '{{.ImportPath}} {{.Dir}}' $some | while read -r pkg dir; do
    ! grep -qsE "^func $tests\(" "$dir"/*_test.go || echo "$pkg"
  done)
  groups=("${args[@]}" -p "$p" -skip "^($tests|$left)\$" $some -- "${args[@]}" -p "$p" -skip "^($left)\$" $rest)
  groups+=(-- -C bench "${args[@]}" -p 1 ./...) # a module of its own
  [ -z "$race" ] || groups+=(-- "${args[@]}" -p 1 -race -skip "^($left)\$" $race)
  [ -z "$raced" ] || groups+=(-- "${args[@]}" -p 1 -race -run "^$tests\$" -skip "^($left)\$" $raced)
  exec go run ./script/suite "$file" "${groups[@]}"
}
