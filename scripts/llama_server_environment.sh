#!/usr/bin/env bash
# Makes a Python environment with xllamacpp, which contains a llama-server, for the tests, in .cache/llama-server. It
# needs Python 3.10 or newer and the Python package index. An environment with the right version is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=xllamacpp==2026.10.11549
if [ "$(cat .cache/llama-server/wanted 2>/dev/null)" = "$wanted" ]; then
  exit 0
fi
python=${RUNNER_PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  { echo "llama-server: there is no Python 3.10 or newer" >&2; exit 1; }
echo "llama-server: installing $wanted for the tests (34 MB) in .cache/llama-server"
"$python" -m venv --clear .cache/llama-server
.cache/llama-server/bin/pip install --quiet --disable-pip-version-check --only-binary :all: "$wanted"
.cache/llama-server/bin/python -c 'import xllamacpp'
echo "$wanted" >.cache/llama-server/wanted
