#!/usr/bin/env bash
# Serves the bundled model with a real vLLM on this machine's processor, for tests:
# scripts/vllm_server.sh [PORT [FLAG...]]. Then run, in another shell:
#
#   RUNNER_VLLM=http://127.0.0.1:8000 go test ./backend/remote/vllm ./cmd/runner -run VLLM
#
# The first start installs vLLM from the package index in .cache/vllm, or the folder that RUNNER_VLLM_FOLDER names. That
# takes 2.8 GB and needs Python 3.12, a C compiler and libnuma1. Without flags, vLLM gets --enable-scale-out.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${RUNNER_VLLM_FOLDER:-.cache/vllm}
port=${1:-8000}
shift || true
[ $# -gt 0 ] || set -- --enable-scale-out
wanted=scripts/vllm_server/requirements.txt
if ! cmp -s "$wanted" "$folder"/requirements.txt; then
  python=${RUNNER_PYTHON:-python3.12}
  "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null ||
    { echo "vllm: there is no Python 3.12" >&2; exit 1; }
  echo "vllm: installing vLLM for processors (2.8 GB) in $folder"
  "$python" -m venv --clear "$folder"
  "$folder"/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
    -r "$wanted"
  "$folder"/bin/python scripts/vllm_server/stubs.py \
    "$folder"/lib/python3.12/site-packages/torch/lib
  "$folder"/bin/python -c 'import torch'
  cp "$wanted" "$folder"/requirements.txt
fi
go run ./scripts/mlx_model -plain models/demo/demo.gguf "$folder"/demo
# One thread: with more, each step waits for all of them, which is slow on a busy machine.
export VLLM_TARGET_DEVICE=cpu VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND="${RUNNER_VLLM_CPU:-0}"
export VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
exec "$folder"/bin/python -m vllm.entrypoints.openai.api_server --model "$folder"/demo --served-model-name demo \
  --host 127.0.0.1 --port "$port" --dtype float32 --max-model-len 4096 --enforce-eager "$@"
