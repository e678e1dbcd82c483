#!/usr/bin/env bash
# Tests bin/runner with the official clients for Node and Python, in the versions that the lock files name. They are installed into
# .cache/clients, anew when a lock file changes. A machine without Node or Python skips that part and says so.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$here/../../../.cache/clients
status=0

# fresh STAMP LOCK... tells whether what the lock files name is installed.
fresh() { [ -f "$1" ] && cat "${@:2}" | cmp -s - "$1"; }

test_node() {
  if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "SKIPPED: the clients for Node, because node and npm are not both on the PATH"
    return
  fi
  local version
  version=$(node --print 'parseInt(process.versions.node)')
  if [ "$version" -lt 20 ]; then
    echo "SKIPPED: the clients for Node, because they need Node 20 and this is Node $version"
    return
  fi
  local at=$cache/node
  if ! fresh "$at/installed" "$here/node/package.json" "$here/node/package-lock.json"; then
    echo "installing the clients for Node"
    rm -rf "$at" && mkdir -p "$at"
    cp "$here/node/package.json" "$here/node/package-lock.json" "$at"
    npm ci --prefix "$at" --ignore-scripts --no-audit --no-fund --loglevel=error
    cat "$here/node/package.json" "$here/node/package-lock.json" >"$at/installed"
  fi
  ln -sfn ../../../../.cache/clients/node/node_modules "$here/node/node_modules"
  echo "clients for Node"
  (cd "$here/node" && node --test --test-timeout=60000 --test-reporter=spec) || status=1
}

# Codex is apart from the other clients for Node, because its package holds a program of 400 MB that not every machine can have.
test_codex() {
  if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "SKIPPED: Codex, because node and npm are not both on the PATH"
    return
  fi
  local at=$cache/codex
  if ! fresh "$at/installed" "$here/codex/package.json" "$here/codex/package-lock.json"; then
    echo "installing Codex"
    rm -rf "$at" && mkdir -p "$at"
    cp "$here/codex/package.json" "$here/codex/package-lock.json" "$at"
    if ! npm ci --prefix "$at" --ignore-scripts --no-audit --no-fund --loglevel=error; then
      echo "SKIPPED: Codex, because npm could not install it"
      return
    fi
    cat "$here/codex/package.json" "$here/codex/package-lock.json" >"$at/installed"
  fi
  ln -sfn ../../../../.cache/clients/codex/node_modules "$here/codex/node_modules"
  if ! "$here/codex/node_modules/.bin/codex" --version >/dev/null 2>&1; then
    echo "SKIPPED: Codex, because its package holds no program that runs on this machine"
    return
  fi
  echo "Codex"
  (cd "$here/codex" && node --test --test-timeout=120000 --test-reporter=spec) || status=1
}

# The registry that the lock files were made from does not have this package, so that it has no lock file: package.json names its exact
# version, and no install scripts run.
test_debrief() {
  if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "SKIPPED: the debrief of Reactive Agents, because node and npm are not both on the PATH"
    return
  fi
  local at=$cache/debrief
  if ! fresh "$at/installed" "$here/debrief/package.json"; then
    echo "installing the debrief of Reactive Agents"
    rm -rf "$at" && mkdir -p "$at"
    cp "$here/debrief/package.json" "$at"
    if ! npm install --prefix "$at" --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error 2>"$at/errors"; then
      echo "SKIPPED: the debrief of Reactive Agents, because npm could not install it: $(grep -m1 -E 'E[0-9]{3}|[Ee]rror' "$at/errors" | sed 's/^npm error //')"
      return
    fi
    cp "$here/debrief/package.json" "$at/installed"
  fi
  ln -sfn ../../../../.cache/clients/debrief/node_modules "$here/debrief/node_modules"
  if ! "$here/debrief/node_modules/.bin/rax-diagnose" help 2>/dev/null | grep -q debrief; then
    echo "SKIPPED: the debrief of Reactive Agents, because the package has no debrief that this machine's Node can run"
    return
  fi
  echo "debrief of Reactive Agents"
  (cd "$here/debrief" && node --test --test-timeout=120000 --test-reporter=spec) || status=1
}

test_python() {
  if ! command -v python3 >/dev/null; then
    echo "SKIPPED: the client for Python, because python3 is not on the PATH"
    return
  fi
  local version
  version=$(python3 -c 'import sys; print(sys.version_info[0] * 100 + sys.version_info[1])')
  if [ "$version" -lt 310 ]; then
    echo "SKIPPED: the client for Python, because it needs Python 3.10 and this is $(python3 --version)"
    return
  fi
  local at=$cache/python
  if ! fresh "$at/installed" "$here/python/requirements.txt"; then
    echo "installing the client for Python"
    rm -rf "$at"
    python3 -m venv "$at"
    "$at/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --requirement "$here/python/requirements.txt"
    cp "$here/python/requirements.txt" "$at/installed"
  fi
  echo "client for Python"
  (cd "$here/python" && PYTHONDONTWRITEBYTECODE=1 "$at/bin/python" -W error::ResourceWarning -m unittest --verbose) || status=1
}

# The evaluation harness is apart from the other clients for Python, because what it needs takes 750 MB. Its file lists all
# of that, so that pip has nothing to add.
test_lm_eval() {
  if ! command -v python3 >/dev/null; then
    echo "SKIPPED: the evaluation harness, because python3 is not on the PATH"
    return
  fi
  local at=$cache/lm_eval
  if ! fresh "$at/installed" "$here/lm_eval/requirements.txt"; then
    echo "installing the evaluation harness"
    rm -rf "$at"
    python3 -m venv "$at"
    if ! "$at/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement "$here/lm_eval/requirements.txt"; then
      echo "SKIPPED: the evaluation harness, because pip could not install it"
      return
    fi
    cp "$here/lm_eval/requirements.txt" "$at/installed"
  fi
  echo "evaluation harness"
  (cd "$here/lm_eval" && PYTHONDONTWRITEBYTECODE=1 "$at/bin/python" -m unittest --verbose) || status=1
}

# LiteLLM and LangChain are apart from the other clients for Python, because they need another version of OpenAI's, and
# 450 MB.
test_libraries() {
  if ! command -v python3 >/dev/null; then
    echo "SKIPPED: LiteLLM and LangChain, because python3 is not on the PATH"
    return
  fi
  local version
  version=$(python3 -c 'import sys; print(sys.version_info[0] * 100 + sys.version_info[1])')
  if [ "$version" -lt 311 ]; then
    echo "SKIPPED: LiteLLM and LangChain, because their versions here are for Python 3.11 and this is $(python3 --version)"
    return
  fi
  local at=$cache/libraries
  if ! fresh "$at/installed" "$here/libraries/requirements.txt"; then
    echo "installing LiteLLM and LangChain"
    rm -rf "$at"
    python3 -m venv "$at"
    if ! "$at/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --requirement "$here/libraries/requirements.txt"; then
      echo "SKIPPED: LiteLLM and LangChain, because pip could not install them"
      return
    fi
    cp "$here/libraries/requirements.txt" "$at/installed"
  fi
  echo "LiteLLM and LangChain"
  # Their packages warn of much that is none of the server's business.
  (cd "$here/libraries" && PYTHONDONTWRITEBYTECODE=1 "$at/bin/python" -W ignore -m unittest --verbose) || status=1
}

test_node
test_codex
test_debrief
test_python
test_libraries
test_lm_eval
exit "$status"
