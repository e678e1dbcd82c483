#!/usr/bin/env bash
# Checks runner on hardware that its developers may not have, and writes a report to send in:
#
#   scripts/check_hardware.sh mac    Apple silicon: Metal, and MLX if Python 3.11 or newer is there
#   scripts/check_hardware.sh gpu    an NVIDIA GPU; ENGINE=DIR names a llama.cpp release with its CUDA libraries
#
# Every check runs even if one before it fails. The report has no prompts and no names of the machine or its user.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
what=${1:-}
case $what in
mac)
  [ "$(uname -s)-$(uname -m)" = Darwin-arm64 ] || { echo "check: this is not a Mac with Apple silicon" >&2; exit 2; }
  ;;
gpu) command -v nvidia-smi >/dev/null || { echo "check: nvidia-smi is not on the PATH" >&2; exit 2; } ;;
*) echo "usage: $0 mac|gpu" >&2; exit 2 ;;
esac
report=check-$what.txt
failed=0
: >"$report"

# check TITLE COMMAND...: runs a command and adds its last lines, and whether it passed, to the report. Tests that are
# not there on this system have not passed.
check() {
  local title=$1 out how=passed
  shift
  echo "check: $title"
  out=$("$@" 2>&1) || { how=FAILED; failed=1; }
  if [ $how = passed ] && grep -q 'no tests to run' <<<"$out"; then
    how="NOT RUN, because there is no such test on this system"
  elif [ $how = passed ] && grep -q -- '--- SKIP' <<<"$out"; then
    how="passed, but tests were SKIPPED"
  fi
  printf '== %s: %s\n' "$title" "$how" >>"$report"
  printf '%s\n' "$out" | tail -n "${LINES_KEPT:-15}" | sed "s|$HOME|~|g; s|$PWD|.|g" >>"$report"
}

{
  echo "runner $(git describe --tags --always --dirty 2>/dev/null), $(uname -srm), $(go version)"
  if [ "$what" = mac ]; then
    sysctl -n machdep.cpu.brand_string hw.memsize
  else
    nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
  fi
} >>"$report"

check "build" make build
check "doctor" bin/runner doctor
check "engines" bin/runner engines
check "conformance of the engine in the program" go test ./backend/llamacpp -run '^TestConformance$' -count=1
check "conformance in a process of its own" go test ./backend/llamacpp -run '^TestIsolatedConformance$' -count=1
check "crashes of a process" go test ./backend/child/... -count=1
crashes='^(TestAnswersOutliveTheEngine|TestPoisonedRequestFailsAlone|TestTheEngineEndsWithTheServer'
crashes+='|TestStoppedServerFindsNoHang)$'
LINES_KEPT=30 check "answers outlive the engine" go test ./cmd/runner -run "$crashes" -count=1 -v
if [ "$what" = gpu ] && [ -n "${ENGINE:-}" ]; then
  check "conformance of the engine in a folder" env RUNNER_TEST_ENGINE="$ENGINE" \
    go test ./backend/llamacpp -run '^TestFolder' -count=1
  check "an answer from the folder's engine" bin/runner run --engine "$ENGINE" --temperature 0 "What is 17 + 25?"
fi
if [ "$what" = mac ] && scripts/mlx_environment.sh >>"$report" 2>&1; then
  check "MLX" env RUNNER_LONG=1 go test ./backend/mlx/... -count=1
  served='^(TestAnswersOutliveMLX|TestDoctorOfMLX|TestServerWithMLX|TestMLXEndsWithTheServer'
  served+='|TestMLXModelIsTruncatedUnderTheServer|TestPoisonedRequestFailsAloneInMLX)$'
  LINES_KEPT=40 check "MLX in commands and servers" go test ./cmd/runner -run "$served" -count=1 -v
fi
LINES_KEPT=40 check "speed" go test ./backend/llamacpp -run '^$' -bench 'Decode|Prefill|Isolation' -benchtime 1s
echo "check: the report is in $report"
exit $failed
