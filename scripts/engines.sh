#!/usr/bin/env bash
# Installs a llama.cpp in shared libraries for tests, with the headers of every version that backend/llamacpp accepts,
# in .cache/engines. The versions and checksums are fixed. It needs npm, and cargo for the headers of 0.6. It names what
# it cannot get; tests that need that are skipped. Without network it takes no time if everything is there.
set -euo pipefail
umask 022 # the program refuses libraries that others can write
cd "$(dirname "$0")/.."
dir=.cache/engines
mkdir -p $dir
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# pack NAME@VERSION SHA512: downloads a package of npm to $tmp/package.
pack() {
  rm -rf "${tmp:?}"/*
  (cd "$tmp" && npm pack --silent "$1" >/dev/null) || { echo "engines: npm does not have $1" >&2; return 1; }
  local file=("$tmp"/*.tgz)
  [ "$(openssl dgst -sha512 -binary "${file[0]}" | base64 -w0)" = "$2" ] ||
    { echo "engines: $1 has a wrong checksum" >&2; return 1; }
  tar -xzf "${file[0]}" -C "$tmp"
}

install_engine() {
  [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || { echo "engines: only for Linux on x86-64" >&2; return 1; }
  pack @node-llama-cpp/linux-x64@3.22.1 \
    5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OAmatoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg== || return 1
  rm -rf $dir/llama.cpp-0.5.0.new
  mkdir $dir/llama.cpp-0.5.0.new
  cp "$tmp"/package/bins/linux-x64/*.so "$tmp"/package/LICENSE $dir/llama.cpp-0.5.0.new
  mv $dir/llama.cpp-0.5.0.new $dir/llama.cpp-0.5.0
}

# headers TREE NAME: keeps a tree's headers and its list of architectures.
headers() {
  rm -rf "$dir/$2.new"
  mkdir -p "$dir/$2.new/ggml" "$dir/$2.new/src"
  cp -R "$1/include" "$dir/$2.new/include"
  cp -R "$1/ggml/include" "$dir/$2.new/ggml/include"
  cp "$1/src/llama-arch.cpp" "$1/src/llama-arch.h" "$dir/$2.new/src"
  mv "$dir/$2.new" "$dir/$2"
}

headers_05() {
  pack node-llama-cpp@3.22.1 \
    bltIipuWmc123H7tMIgDGKSsSrhmhlQYeVUC48XTjVW7XGJJiJJyCdlTMzQ/LiWoPkGDpcL4FviDpgw7qfTiDw== || return 1
  git -c advice.detachedHead=false clone --quiet "$tmp/package/llama/gitRelease.bundle" "$tmp/tree"
  headers "$tmp/tree" headers-0.5
}

headers_06() {
  local crate=llama-cpp-sys-2-0.1.161
  rm -rf "${tmp:?}"/*
  printf '[package]\nname = "headers"\nversion = "0.0.0"\n[lib]\npath = "lib.rs"\n[dependencies]\n%s = "=%s"\n' \
    "${crate%-*}" "${crate##*-}" >"$tmp/Cargo.toml"
  touch "$tmp/lib.rs"
  (cd "$tmp" && cargo fetch --quiet) || { echo "engines: cargo does not have $crate" >&2; return 1; }
  local file=("${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"$crate".crate)
  [ "$(openssl dgst -sha256 -r "${file[0]}" | cut -d' ' -f1)" = "$1" ] ||
    { echo "engines: $crate has a wrong checksum" >&2; return 1; }
  tar -xzf "${file[0]}" -C "$tmp"
  headers "$tmp/$crate/llama.cpp" headers-0.6
}

failed=0
[ -d $dir/llama.cpp-0.5.0 ] || install_engine || failed=1
[ -d $dir/headers-0.5 ] || headers_05 || failed=1
[ -d $dir/headers-0.6 ] || headers_06 e9bea77fde41bbc15a278891cd5edd2ba07c5260d162614b41080ba1f100b39b || failed=1
exit $failed
