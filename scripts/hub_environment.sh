#!/usr/bin/env bash
# Makes a Python environment with huggingface_hub for the tests, in .cache/hub. It needs Python 3.10 or newer and the
# Python package index. An environment with the right version is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=huggingface_hub==2.4.0
if [ "$(cat .cache/hub/wanted 2>/dev/null)" = "$wanted" ]; then
  exit 0
fi
python=${RUNNER_PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  { echo "hub: there is no Python 3.10 or newer" >&2; exit 1; }
echo "hub: installing $wanted for the tests (30 MB) in .cache/hub"
"$python" -m venv --clear .cache/hub
.cache/hub/bin/pip install --quiet --disable-pip-version-check "$wanted"
echo "$wanted" >.cache/hub/wanted
