#!/usr/bin/env bash
# Checks runner on hardware that its developers may not have, and writes a report to send in:
#
#   scripts/check_hardware.sh mac    Apple silicon: Metal, and MLX if Python 3.11 or newer is there
#   scripts/check_hardware.sh gpu    an NVIDIA GPU with the engine in the program, whose CUDA library it builds, or
#                                    with a llama.cpp release for CUDA: ENGINE=DIR names its folder
#
# Every check runs even if one before it fails, but without a layer on the GPU nothing of it can be checked. The report
# has no names of the machine or its user.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
what=${1:-}
case $what in
mac)
  [ "$(uname -s)-$(uname -m)" = Darwin-arm64 ] || { echo "check: this is not a Mac with Apple silicon" >&2; exit 2; }
  ;;
gpu)
  command -v nvidia-smi >/dev/null || { echo "check: nvidia-smi is not on the PATH" >&2; exit 2; }
  if [ -n "${ENGINE:-}" ]; then
    ENGINE=$(cd "$ENGINE" && pwd) || { echo "check: ENGINE is no folder" >&2; exit 2; }
  fi
  ;;
*) echo "usage: $0 mac|gpu" >&2; exit 2 ;;
esac
report=check-$what.txt
failed=0
: >"$report"

# check TITLE COMMAND...: runs a command and adds its last lines, and whether it passed, to the report. Tests that are
# not there on this system have not passed. go test reports what it skips with -v only; what that adds about tests that
# passed is left out.
check() {
  local title=$1 out
  how=passed
  shift
  echo "check: $title"
  out=$("$@" 2>&1) || { how=FAILED; failed=1; }
  if [ $how = passed ] && grep -q 'no tests to run' <<<"$out"; then
    how="NOT RUN, because there is no such test on this system"
  elif [ $how = passed ] && grep -q -- '--- SKIP' <<<"$out"; then
    how="passed, but tests were SKIPPED"
  fi
  printf '== %s: %s\n' "$title" "$how" >>"$report"
  grep -vE '^ *(=== |--- PASS|PASS$)' <<<"$out" | tail -n "${LINES_KEPT:-30}" |
    sed "s|$HOME|~|g; s|$PWD|.|g" >>"$report"
}

{
  echo "runner $(git describe --tags --always --dirty 2>/dev/null), $(uname -srm), $(go version)"
  if [ "$what" = mac ]; then
    sysctl -n machdep.cpu.brand_string hw.memsize
  else
    nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
  fi
} >>"$report"

# tests ARGUMENTS...: runs go test so that its programs find the library that make cuda builds.
# shellcheck disable=SC2329 # step calls it by its name
tests() {
  go test -ldflags "-X runner/backend/llamacpp/enginefolder.linkedFolder=$PWD/lib/runner" -count=1 -v "$@"
}

# answer: asks for a sum and compares the answer.
# shellcheck disable=SC2329 # step calls it by its name
answer() {
  local out
  out=$(bin/runner run ${ENGINE:+--engine "$ENGINE"} --temperature 0 --reasoning none "What is 17 + 25?") || return
  echo "$out"
  grep -qw 42 <<<"$out" || { echo "the answer is not 42"; return 1; }
}

# on_gpu: runs a short benchmark and checks that layers of the model were on a GPU.
# shellcheck disable=SC2329 # step calls it by its name
on_gpu() {
  local out layers
  out=$(bin/runner bench -o json -p 256 -n 32 -r 3 ${ENGINE:+--engine "$ENGINE"}) || { echo "$out"; return 1; }
  echo "$out"
  layers=$(grep -oE '"n_gpu_layers": *[0-9]+' <<<"$out" | grep -oE '[0-9]+$' | sort -n | head -n 1)
  [ "${layers:-0}" -gt 0 ] || { echo "no layer of the model was on a GPU"; return 1; }
}

crashes='^(TestAnswersOutliveTheEngine|TestPoisonedRequestFailsAlone|TestTheEngineEndsWithTheServer'
crashes+='|TestStoppedServerFindsNoHang)$'

if [ "$what" = gpu ] && [ -z "${ENGINE:-}" ]; then
  check "the CUDA library" make cuda
fi
check "build" make build
check "doctor" bin/runner doctor ${ENGINE:+--engine "$ENGINE"}
check "engines" bin/runner engines ${ENGINE:+--engine "$ENGINE"}
if [ "$what" = gpu ]; then
  LINES_KEPT=100 check "layers on the GPU, and speed" on_gpu
  if [ "$how" != passed ]; then
    echo "== NOT RUN ON A GPU: the rest was left out, because it would check the processor only" >>"$report"
    echo "check: NOT RUN ON A GPU; $report says why" >&2
    exit 1
  fi
  export RUNNER_TEST_GPU=1 # tests of conformance put all layers on it
fi
check "an answer" answer
if [ -n "${ENGINE:-}" ]; then
  check "conformance of the engine in a folder" env RUNNER_TEST_ENGINE="$ENGINE" \
    go test ./backend/llamacpp ./backend/llamacpp/enginefolder -run '^TestFolder' -count=1 -v
  check "answers outlive the engine in a folder" env RUNNER_TEST_ENGINE="$ENGINE" \
    go test ./cmd/runner -run '^TestAnswersOutliveAFoldersEngine$' -count=1 -v
else
  check "conformance of the engine in the program" tests ./backend/llamacpp -run '^TestConformance$'
  check "conformance in a process of its own" tests ./backend/llamacpp -run '^TestIsolatedConformance$'
  check "crashes of a process" tests ./backend/child/...
  check "answers outlive the engine" tests ./cmd/runner -run "$crashes"
  LINES_KEPT=40 check "speed" tests ./backend/llamacpp -run '^$' -bench 'Decode|Prefill|Isolation' -benchtime 1s
fi
if [ "$what" = mac ] && ! scripts/mlx_environment.sh >>"$report" 2>&1; then
  echo "== MLX: NOT RUN, because it cannot be installed here" >>"$report"
elif [ "$what" = mac ]; then
  check "MLX" env RUNNER_LONG=1 go test ./backend/mlx/... -count=1 -v
  served='^(TestAnswersOutliveMLX|TestDoctorOfMLX|TestServerWithMLX|TestMLXEndsWithTheServer'
  served+='|TestMLXModelIsTruncatedUnderTheServer|TestPoisonedRequestFailsAloneInMLX)$'
  LINES_KEPT=40 check "MLX in commands and servers" go test ./cmd/runner -run "$served" -count=1 -v
fi
echo "check: the report is in $report"
exit $failed
