#!/usr/bin/env bash
# fuzz.sh TIME PATTERN... runs every fuzz target of these packages for TIME, two at a time. Each package's test binary is
# built once, and not, as by go test -fuzz, for each target. With FUZZPLAIN set it is built as for tests, so that nothing
# is compiled a second time: inputs are changed at random then, and no coverage guides that, which takes minutes to matter.
set -euo pipefail
time=$1
shift
cd "$(dirname "$0")/.."
bin=$PWD/bin/fuzz
mkdir -p "$bin"
cache=$(go env GOCACHE)/fuzz

# one TIME CACHE BINARY FOLDER TARGET; what it says is printed at its end, since others run beside it.
one() {
  local out
  if out=$(cd "$4" && "$3" -test.run '^$' -test.fuzz "^$5\$" -test.fuzztime "$1" -test.fuzzminimizetime 1s -test.fuzzcachedir "$2" -test.parallel 1 2>&1); then
    echo "$2 $5: $(grep '^fuzz: elapsed' <<<"$out" | tail -n 1 | cut -d' ' -f3-)" | sed "s|.*/fuzz/||"
  elif grep -q 'context deadline exceeded' <<<"$out" && ! grep -q 'Failing input written' <<<"$out"; then
    echo "$2 $5: its time was over amid an input" | sed "s|.*/fuzz/||" # golang/go#75804, until Go 1.27
  else
    printf '%s %s fails:\n%s\n' "$2" "$5" "$out"
    return 1
  fi
}
export -f one

targets=()
while read -r pkg dir; do
  grep -q '^func Fuzz' "$dir"/*_test.go 2>/dev/null || continue
  program=$bin/${pkg//\//_}.test
  go test -c -vet=off -ldflags='-s -w' $([ -n "${FUZZPLAIN:-}" ] || echo -fuzz .) -o "$program" "$pkg"
  for target in $(cd "$dir" && "$program" -test.list '^Fuzz'); do
    targets+=("$time" "$cache/$pkg" "$program" "$dir" "$target")
  done
done < <(go list -f '{{.ImportPath}} {{.Dir}}' "$@")
[ ${#targets[@]} -gt 0 ] || { echo "no fuzz targets in $*" >&2; exit 1; }
printf '%s\0' "${targets[@]}" | xargs -0 -n 5 -P 2 bash -c 'one "$@"' one
