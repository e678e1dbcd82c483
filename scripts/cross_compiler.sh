#!/usr/bin/env bash
# Prints the path of a C++ compiler for Linux on arm64, aarch64-linux-gnu-g++, for tests of the kernels there. It takes
# the one on the PATH, or else Debian's, which it unpacks into .cache/cross (200 MB). It installs nothing on the machine
# and needs no root. If there is none to be had, it says why and fails.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
name=aarch64-linux-gnu-g++
fail() { echo "$1" >&2 && exit 1; }

if [ "$(uname -sm)" != "Linux x86_64" ]; then
  fail "cross compiler: the tests of arm64 are for Linux on x86-64"
fi
if command -v "$name"; then exit; fi
mkdir -p "$root/.cache"
cache=$(cd "$root/.cache" && pwd -P)
into=$cache/cross
if [ -x "$into/$name" ]; then
  echo "$into/$name"
  exit
fi
for command in apt-get dpkg; do
  command -v "$command" >/dev/null ||
    fail "cross compiler: $name is not on the PATH, and this machine has no $command to get Debian's"
done
work=$(mktemp -d "$cache/cross-XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

echo "cross compiler: unpacking Debian's g++-aarch64-linux-gnu into .cache/cross (once)" >&2
mapfile -t packages < <(apt-get install --simulate --no-install-recommends "g++-aarch64-linux-gnu" 2>"$work/errors" |
  sed -n 's/^Inst \([^ ]*\) .*/\1/p')
[ "${#packages[@]}" -gt 0 ] ||
  fail "cross compiler: Debian's g++-aarch64-linux-gnu cannot be found: $(tail -n 1 "$work/errors")"
(cd "$work" &&
  apt-get download --quiet --quiet -o APT::Sandbox::User=root "${packages[@]}" >/dev/null 2>"$work/errors") ||
  fail "cross compiler: Debian's packages cannot be downloaded: $(tail -n 1 "$work/errors")"
for package in "$work"/*.deb; do
  dpkg -x "$package" "$work/root" && rm "$package"
done
rm -rf "$work"/root/usr/share "$work"/root/usr/bin/*lto-dump* "$work/errors"

# The compiler's own libraries and those of arm64 are where it was unpacked.
cat >"$work/$name" <<'SCRIPT'
#!/bin/sh
root=$(dirname "$0")/root
LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu exec "$root/usr/bin/aarch64-linux-gnu-g++" --sysroot="$root" "$@"
SCRIPT
chmod 755 "$work/$name"
echo 'int main() {}' >"$work/empty.cpp"
"$work/$name" -static -o "$work/empty" "$work/empty.cpp" 2>/dev/null ||
  fail "cross compiler: the unpacked compiler does not work"
rm "$work"/empty*
rm -rf "$into" && mv "$work" "$into"
trap - EXIT
echo "$into/$name"
