#!/usr/bin/env bash
# Runs every fuzz target for DURATION, or the targets of some packages. Targets that link the engine run only with
# ENGINE=1, because fuzzing compiles the engine again with instrumentation.
#
# A package is compiled once for all its targets. As many packages run at a time as there are processors, and each
# target has one worker, because most of a short run is compiling, linking and reading seeds.
set -euo pipefail
cd "$(dirname "$0")/.."
usage="usage: [ENGINE=1] scripts/fuzz.sh DURATION [./PACKAGE...]"

# fuzz_target BINARY DURATION DIR CACHE TARGET prints what a failed run printed, and why a target was skipped.
fuzz_target() {
  local out try
  printf 'fuzz %s %s %s\n' "$2" "$3" "$5"
  # Minimizing an input can take longer than the whole run, so it is kept short. Before Go 1.27 a run without findings
  # may fail at its end (go.dev/issue/75804); it is then repeated.
  for try in 1 2 3; do
    out=$(cd "$3" && "$1" -test.v -test.run '^$' -test.fuzz "^$5\$" -test.fuzztime "$2" -test.fuzzminimizetime 10x \
      -test.fuzzcachedir "$4" -test.parallel 1 2>&1 </dev/null) && break
    if [ "$try" = 3 ] || ! grep -q 'context deadline exceeded' <<<"$out" || grep -q 'Failing input' <<<"$out"; then
      printf '%s\n' "$out"
      return 1
    fi
    echo "  nothing found, but Go failed at the end of the run; repeating it"
  done
  if grep -q -- '--- SKIP' <<<"$out"; then
    grep -B1 -- '--- SKIP' <<<"$out" # the reason is above
  elif ! grep -q '^fuzz: elapsed: ' <<<"$out"; then
    printf '%s\n' "$out" "$5 was not fuzzed"
    return 1
  fi
}

# fuzz_package DURATION DIR TEMPORARY runs the targets of a package. It checks each status itself: set -e does nothing
# where the caller takes the status of a function.
fuzz_package() {
  local binary cache target status=0
  binary=$(mktemp "$3/XXXXXX")
  cache=$(go env GOCACHE)/fuzz/$(go list "$2")
  go test -c -fuzz . -o "$binary" "$2" || return 1
  while IFS= read -r target; do
    fuzz_target "$binary" "$1" "$2" "$cache" "$target" || status=1
  done < <(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$2"/*_test.go | sed 's/^func //' | sort -u)
  rm "$binary"
  return "$status"
}

# The script calls itself for each package.
if [ "${1:-}" = --package ]; then
  status=0
  out=$(fuzz_package "${@:2}" 2>&1) || status=$?
  printf '%s\n' "$out" | tee -a "$4/output"
  [ "$status" = 0 ] || exit 255 # ends xargs
  exit
fi

time=${1:?$usage}
shift
if [ $# = 0 ]; then
  while IFS= read -r dir; do
    set -- "$@" "$dir"
  done < <(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u)
fi
if [ "${ENGINE:-}" != 1 ]; then
  engine=$(go list -test -f '{{.Dir}} {{join .Deps " "}}' "$@" |
    sed -n 's|^\([^ ]*\) .*github.com/ollama/ollama.*|\1|p')
  for dir; do
    shift
    grep -qxF "$(cd "$dir" && pwd -P)" <<<"$engine" || set -- "$@" "$dir"
  done
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
printf '%s\n' "$@" | xargs -P "$(getconf _NPROCESSORS_ONLN)" -I DIR scripts/fuzz.sh --package "$time" DIR "$tmp"
skipped=$(grep -c -- '--- SKIP' "$tmp/output" || true)
fuzzed=$(($(grep -c '^fuzz [^ ]* \./' "$tmp/output" || true) - skipped))
echo "fuzzed $fuzzed targets, $skipped skipped"
[ "$fuzzed" -gt 0 ]
