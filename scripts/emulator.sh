#!/usr/bin/env bash
# Prints the path of an emulator of other x86-64 processors, qemu-x86_64, for tests on Linux. It takes the one on the
# PATH, or else Debian's static one, which it unpacks into .cache/emulator. It installs nothing on the machine and needs
# no root. If there is none to be had, it says why and fails.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
fail() { echo "$1" >&2 && exit 1; }

if [ "$(uname -sm)" != "Linux x86_64" ]; then
  fail "emulator: the tests on other processors are for Linux on x86-64"
fi
if command -v qemu-x86_64; then exit; fi
mkdir -p "$root/.cache"
cache=$(cd "$root/.cache" && pwd -P)
into=$cache/emulator
if [ -x "$into/qemu-x86_64" ]; then
  echo "$into/qemu-x86_64"
  exit
fi
for command in apt-get dpkg; do
  command -v "$command" >/dev/null ||
    fail "emulator: qemu-x86_64 is not on the PATH, and this machine has no $command to get Debian's"
done
work=$(mktemp -d "$cache/emulator-XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# Since Debian 13 the static emulators are in the package qemu-user, and qemu-user-static is empty.
for package in qemu-user-static qemu-user; do
  echo "emulator: unpacking Debian's $package into .cache/emulator (once)" >&2
  (cd "$work" && apt-get download --quiet --quiet -o APT::Sandbox::User=root $package >/dev/null 2>"$work/errors") ||
    fail "emulator: Debian's $package cannot be downloaded: $(tail -n 1 "$work/errors")"
  dpkg -x "$work/$package"_*.deb "$work/root" && rm "$work"/*.deb
  for name in qemu-x86_64-static qemu-x86_64; do
    [ ! -f "$work/root/usr/bin/$name" ] || [ -f "$work/qemu-x86_64" ] || mv "$work/root/usr/bin/$name" "$work/qemu-x86_64"
  done
  [ ! -f "$work/qemu-x86_64" ] || break
done
rm -rf "$work/root" "$work/errors" # the other processors' emulators are 200 MB
"$work/qemu-x86_64" --version >/dev/null || fail "emulator: the unpacked emulator does not run"
rm -rf "$into" && mv "$work" "$into"
trap - EXIT
echo "$into/qemu-x86_64"
