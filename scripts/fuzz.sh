#!/usr/bin/env bash
# Runs every fuzz target of the packages that do not link the engine, each for the time given.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:?usage: scripts/fuzz.sh DURATION}
found=0
for dir in $(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do
  case $dir in ./backend/llamacpp*|./cmd/*) continue ;; esac
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | sed 's/^func //' | sort -u); do
    found=$((found + 1))
    printf 'fuzz %s %s %s\n' "$time" "$dir" "$target"
    out=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir" 2>&1) || { printf '%s\n' "$out"; exit 1; }
  done
done
echo "fuzzed $found targets"
