#!/usr/bin/env bash
# Tests bin/runner with official clients for Node and Python, in the versions that the lock files name. They are
# installed into .cache/clients, and installed again when a lock file changes. Clients that cannot run on this machine
# are skipped with a message.
#
#   test.sh                  all clients
#   test.sh short FLAG...    three clients: Vercel's and Ollama's for Node, and OpenAI's for Python
#   test.sh address          OpenAI's, Anthropic's, Ollama's and AG-UI's clients for Node, and OpenAI's for Python. The
#                            servers are in front of a real llama-server, which computes the bundled model
#
# The servers get the flags too. Each runs in another folder, so a path among the flags must be absolute.
# Functions whose names are arguments of install count as never called.
# shellcheck disable=SC2329
set -euo pipefail
mode=all
case ${1:-} in
"") ;;
short) mode=short && shift ;;
address) [ $# = 1 ] && mode=address && shift ;;
esac
[ "$mode" != all ] || [ $# = 0 ] || { echo "usage: $0 [short FLAG... | address]" >&2 && exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
cache=$here/../../../.cache/clients
mkdir -p "$cache"
cache=$(cd "$cache" && pwd -P) # npm refuses a path with a symbolic link
status=0

skip() { echo "SKIPPED: $*"; }

# start_engine starts a llama-server, which ends when this script does, and sets address to its address. It fails if
# none is installed.
start_engine() {
  local root folder
  root=$(cd "$here/../../.." && pwd -P)
  [ -f "$root/.cache/llama-server/wanted" ] || return 1
  folder=$(mktemp -d)
  mkfifo "$folder/in" "$folder/out"
  "$root/.cache/llama-server/bin/python" -c "$(cat "$root/backend/remote/llamaserver/llamaservertest/serve.py")" \
    "{\"model\": \"$root/models/demo/demo.gguf\", \"context\": 2048, \"parallel\": 4, \"threads\": 1, \"port\": 0,
      \"precise\": false, \"key\": \"\"}" <"$folder/in" >"$folder/out" 2>"$folder/log" &
  exec 9>"$folder/in" # its end ends the server
  read -r address <"$folder/out" || { cat "$folder/log" >&2 && exit 1; }
  rm -r "$folder"
}

if [ $mode = address ]; then
  if ! start_engine; then
    skip "clients in front of a llama-server, because there is none; scripts/llama_server_environment.sh installs it" \
      "where it can"
    exit
  fi
  export AT_ADDRESS=yes # what an engine at an address cannot do is refused, and the tests check that
  set -- "demo=$address" --tokenizer demo
fi
SERVER_FLAGS=$(printf '%s\n' "$@") # the tests take a flag from each line
export SERVER_FLAGS

# has NAME COMMAND... fails if a command is missing, and says that NAME is skipped.
has() {
  local command
  for command in "${@:2}"; do
    command -v "$command" >/dev/null || { skip "$1, because $command is not on the PATH" && return 1; }
  done
}

# install NAME FOLDER COMMAND LOCK... calls COMMAND with the folder in the cache, unless the lock files of FOLDER are
# the installed ones. It fails if COMMAND fails.
install() {
  local name=$1 folder=$2 command=$3 at=$cache/$2
  shift 3
  local locks=("${@/#/$here/$folder/}")
  if [ -f "$at/installed" ] && cat "${locks[@]}" | cmp -s - "$at/installed"; then
    return
  fi
  echo "installing $name"
  rm -rf "$at" && mkdir -p "$at" && cp "${locks[@]}" "$at" && "$command" "$at" && cat "${locks[@]}" >"$at/installed"
}

npm_ci() { npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund --loglevel=error; }

npm_install() {
  npm install --prefix "$1" --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error 2>"$1/errors"
}

# pip_install FOLDER OPTION... installs requirements.txt into a virtual environment.
pip_install() {
  python3 -m venv "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check --require-hashes "${@:2}" \
    --requirement "$1/requirements.txt"
}

pip_wheels() { pip_install "$1" --only-binary :all:; }

# The file lists everything that is needed, so pip has nothing to add.
pip_listed() { pip_install "$1" --no-deps; }

# python_since NAME VERSION NEEDS fails if Python is older than VERSION, as in 310, and says that NAME is skipped.
python_since() {
  local version
  version=$(python3 -c 'import sys; print(sys.version_info[0] * 100 + sys.version_info[1])')
  [ "$version" -ge "$2" ] || { skip "$1, because $3 and this is $(python3 --version)" && return 1; }
}

# run_node NAME FOLDER TIMEOUT FILE... runs tests of a folder, or all of them. TIMEOUT is in milliseconds.
run_node() {
  echo "$1"
  (cd "$here/$2" && node --test --test-timeout="$3" --test-reporter=spec "${@:4}") || status=1
}

# run_python NAME FOLDER ARGUMENT... runs tests of a folder, with arguments of Python and of unittest.
run_python() {
  echo "$1"
  (cd "$here/$2" && PYTHONDONTWRITEBYTECODE=1 "$cache/$2/bin/python" "${@:3}") || status=1
}

link_node() { ln -sfn "../../../../.cache/clients/$1/node_modules" "$here/$1/node_modules"; }

test_node() {
  has "the clients for Node" node npm || return 0
  local version
  version=$(node --print 'parseInt(process.versions.node)')
  if [ "$version" -lt 20 ]; then
    skip "the clients for Node, because they need Node 20 and this is Node $version"
    return
  fi
  install "the clients for Node" node npm_ci package.json package-lock.json || exit
  link_node node
  case $mode in
  short) run_node "two clients for Node" node 60000 ai-sdk.test.mjs ollama.test.mjs ;;
  address) run_node "four clients for Node" node 60000 {openai,anthropic,ollama,agui}.test.mjs ;;
  all) run_node "clients for Node" node 60000 ;;
  esac
}

# Codex is separate from the other clients for Node, because its package contains a program of 400 MB that some
# machines cannot get.
test_codex() {
  has Codex node npm || return 0
  if ! install Codex codex npm_ci package.json package-lock.json; then
    skip "Codex, because npm could not install it"
    return
  fi
  link_node codex
  if ! "$here/codex/node_modules/.bin/codex" --version >/dev/null 2>&1; then
    skip "Codex, because its package holds no program that runs on this machine"
    return
  fi
  run_node Codex codex 330000
}

# This package has no lock file, because the registry of the lock files does not have it. package.json names its exact
# version, and no install scripts run.
test_debrief() {
  local name="the debrief of Reactive Agents"
  has "$name" node npm || return 0
  if ! install "$name" debrief npm_install package.json; then
    skip "$name, because npm could not install it:" \
      "$(grep -m1 -E 'E[0-9]{3}|[Ee]rror' "$cache/debrief/errors" | sed 's/^npm error //')"
    return
  fi
  link_node debrief
  if ! "$here/debrief/node_modules/.bin/rax-diagnose" help 2>/dev/null | grep -q debrief; then
    skip "$name, because the package has no debrief that this machine's Node can run"
    return
  fi
  run_node "debrief of Reactive Agents" debrief 120000
}

test_python() {
  local name="the client for Python"
  has "$name" python3 && python_since "$name" 310 "it needs Python 3.10" || return 0
  install "$name" python pip_wheels requirements.txt || exit
  local only=()
  [ $mode = all ] || only=(test_openai)
  run_python "client for Python" python -W error::ResourceWarning -m unittest --verbose "${only[@]+"${only[@]}"}"
}

# The evaluation harness is separate from the other clients for Python, because it needs 750 MB of packages.
test_lm_eval() {
  local name="the evaluation harness"
  has "$name" python3 || return 0
  if ! install "$name" lm_eval pip_listed requirements.txt; then
    skip "$name, because pip could not install it"
    return
  fi
  run_python "evaluation harness" lm_eval -m unittest --verbose
}

# LiteLLM and LangChain are separate from the other clients for Python, because they need another version of OpenAI's
# package, and 450 MB.
test_libraries() {
  local name="LiteLLM and LangChain"
  has "$name" python3 && python_since "$name" 311 "their versions here are for Python 3.11" || return 0
  if ! install "$name" libraries pip_wheels requirements.txt; then
    skip "$name, because pip could not install them"
    return
  fi
  # Their packages print many warnings that are not about the server.
  run_python "$name" libraries -W ignore -m unittest --verbose
}

# The page needs no client but a browser. Its server has invented models, so it is built here.
test_browser() {
  has "the page in a browser" node npm go || return 0
  local browser
  if ! browser=$("$here/../../../scripts/browser.sh" 2>"$cache/browser-errors"); then
    skip "the page in a browser: $(tail -n 1 "$cache/browser-errors")"
    return
  fi
  install "the driver of the browser" browser npm_ci package.json package-lock.json || exit
  link_node browser
  (cd "$here/browser" && CGO_ENABLED=0 go build -o "$cache/browser/site" ./site) || { status=1 && return; }
  BROWSER=$browser SITE=$cache/browser/site run_node "the page in a browser" browser 300000
}

test_node
test_python
if [ $mode = all ]; then
  test_browser
  test_codex
  test_debrief
  test_libraries
  test_lm_eval
fi
exit "$status"
