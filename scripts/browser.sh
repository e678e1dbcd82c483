#!/usr/bin/env bash
# Prints the path of a Chromium for the tests of the page. It takes the one on the PATH, or else Debian's, which it
# unpacks into .cache/browser with the libraries that this machine lacks. It installs nothing on the machine and needs
# no root. If there is no Chromium to be had, it says why and fails.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
fail() { echo "$1" >&2 && exit 1; }

for name in chromium chromium-browser google-chrome; do
  if command -v "$name"; then exit; fi
done
mkdir -p "$root/.cache"
cache=$(cd "$root/.cache" && pwd -P)
into=$cache/browser
if [ -x "$into/chromium" ]; then
  echo "$into/chromium"
  exit
fi
for command in apt-get dpkg; do
  command -v "$command" >/dev/null ||
    fail "no Chromium is on the PATH, and this machine has no $command to get Debian's"
done
work=$(mktemp -d "$cache/browser-XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# What apt-get would install is what is missing here. The names stand before the first underscore of the files' names.
list=$(apt-get --print-uris --yes --quiet --quiet --no-install-recommends -o Debug::NoLocking=1 \
  install chromium fonts-dejavu-core 2>"$work/errors") || fail "no Chromium is on the PATH, and apt-get finds none: $(
  tail -n 1 "$work/errors")"
mapfile -t packages < <(awk '{ sub(/_.*/, "", $2); print $2 }' <<<"$list")
[ "${#packages[@]}" -gt 0 ] || fail "apt-get says that Chromium is installed, but it is not on the PATH"
echo "unpacking Debian's Chromium into .cache/browser (${#packages[@]} packages, once)" >&2
(cd "$work" && apt-get download --quiet --quiet -o APT::Sandbox::User=root "${packages[@]}" \
  >/dev/null 2>"$work/errors") ||
  fail "Debian's Chromium cannot be downloaded: $(tail -n 1 "$work/errors")"
for package in "$work"/*.deb; do
  dpkg -x "$package" "$work/root" && rm "$package"
done
rm -f "$work/errors"
cat >"$work/fonts.conf" <<'FONTS'
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir prefix="relative">root/usr/share/fonts</dir><dir>/usr/share/fonts</dir><cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
FONTS
# Some libraries lie in folders of their own. Only the wrapper knows where it is.
# shellcheck disable=SC2016
libraries=$(cd "$work" && find root -name '*.so*' -path '*/lib/*' -not -path '*/chromium/*' -printf '$here/%h\n' |
  sort -u | paste -sd :)
cat >"$work/chromium" <<WRAPPER
#!/bin/sh
# Debian's Chromium with the libraries that it needs.
here=\$(dirname "\$0")
export LD_LIBRARY_PATH="$libraries" FONTCONFIG_FILE="\$here/fonts.conf" XDG_CACHE_HOME="\$here"
exec "\$here/root/usr/lib/chromium/chromium" "\$@"
WRAPPER
chmod +x "$work/chromium"
"$work/chromium" --version >/dev/null 2>"$work/errors" ||
  fail "the unpacked Chromium does not run: $(tail -n 1 "$work/errors")"
rm -rf "$into" && mv "$work" "$into"
trap - EXIT
echo "$into/chromium"
