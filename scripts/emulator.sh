#!/usr/bin/env bash
# Prints the path of an emulator of other processors, qemu-x86_64 or for "aarch64" qemu-aarch64, for tests on Linux. It
# takes the one on the PATH, or else Debian's static one, which it unpacks into .cache/emulator. It installs nothing on
# the machine and needs no root. If there is none to be had, it says why and fails.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
name=qemu-${1:-x86_64}
fail() { echo "$1" >&2 && exit 1; }

if [ "$(uname -sm)" != "Linux x86_64" ]; then
  fail "emulator: the tests on other processors are for Linux on x86-64"
fi
if command -v "$name"; then exit; fi
mkdir -p "$root/.cache"
cache=$(cd "$root/.cache" && pwd -P)
into=$cache/emulator
if [ -x "$into/$name" ]; then
  echo "$into/$name"
  exit
fi
for command in apt-get dpkg; do
  command -v "$command" >/dev/null ||
    fail "emulator: $name is not on the PATH, and this machine has no $command to get Debian's"
done
work=$(mktemp -d "$cache/emulator-XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# Since Debian 13 the static emulators are in the package qemu-user, and qemu-user-static is empty.
for package in qemu-user-static qemu-user; do
  echo "emulator: unpacking $name of Debian's $package into .cache/emulator (once)" >&2
  (cd "$work" && apt-get download --quiet --quiet -o APT::Sandbox::User=root $package >/dev/null 2>"$work/errors") ||
    fail "emulator: Debian's $package cannot be downloaded: $(tail -n 1 "$work/errors")"
  dpkg -x "$work/$package"_*.deb "$work/root" && rm "$work"/*.deb
  for file in "$name-static" "$name"; do
    [ ! -f "$work/root/usr/bin/$file" ] || [ -f "$work/$name" ] || mv "$work/root/usr/bin/$file" "$work/$name"
  done
  [ ! -f "$work/$name" ] || break
done
"$work/$name" --version >/dev/null || fail "emulator: the unpacked emulator does not run"
mkdir -p "$into"
mv "$work/$name" "$into/$name"
echo "$into/$name"
