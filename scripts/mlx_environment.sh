#!/usr/bin/env bash
# Makes a Python environment with MLX for the tests, in .cache/mlx. It needs Python 3.11 or newer and the Python package
# index, and takes about a minute. An environment with the right versions is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=backend/mlx/requirements.txt
have=.cache/mlx/requirements.txt
if cmp -s "$wanted" "$have"; then
  exit 0
fi
python=${RUNNER_PYTHON:-}
for p in python3 python3.14 python3.13 python3.12 python3.11; do
  if [ -z "$python" ] && "$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$p
  fi
done
[ -n "$python" ] || { echo "mlx: there is no Python 3.11 or newer" >&2; exit 1; }
echo "mlx: installing MLX for the tests (350 MB) in .cache/mlx"
"$python" -m venv --clear .cache/mlx
.cache/mlx/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
  --only-binary :all: -r "$wanted"
cp "$wanted" "$have"
