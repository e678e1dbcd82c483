#!/usr/bin/env bash
# Runs every fuzz target for DURATION. Targets that link the engine run only with ENGINE=1, because fuzzing compiles
# the engine again with instrumentation.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:?usage: [ENGINE=1] scripts/fuzz.sh DURATION}
fuzzed=0 idle=0
for dir in $(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do
  if [ "${ENGINE:-}" != 1 ] && go list -test -deps "$dir" | grep -q '^github.com/ollama/ollama'; then
    continue
  fi
  while IFS= read -r target; do
    printf 'fuzz %s %s %s\n' "$time" "$dir" "$target"
    # Minimizing an input can take longer than the whole run, so it is kept short. Before Go 1.27 a run without findings
    # may fail at its end (go.dev/issue/75804); it is then repeated.
    for try in 1 2 3; do
      out=$(go test -v -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$dir" \
        2>&1 </dev/null) && break
      if [ "$try" = 3 ] || ! grep -q 'context deadline exceeded' <<<"$out" || grep -q 'Failing input' <<<"$out"; then
        printf '%s\n' "$out"
        exit 1
      fi
      echo "  nothing found, but Go failed at the end of the run; repeating it"
    done
    if grep -q -- '--- SKIP' <<<"$out"; then
      idle=$((idle + 1))
      grep -A1 -- '--- SKIP' <<<"$out"
    else
      fuzzed=$((fuzzed + 1))
    fi
  done < <(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | sed 's/^func //' | sort -u)
done
echo "fuzzed $fuzzed targets, $idle skipped"
[ "$fuzzed" -gt 0 ]
