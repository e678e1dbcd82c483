#!/usr/bin/env bash
# Checks the release of the last commit: that two builds in two folders have the same bytes, one made with this user's
# build cache and one with an empty one; the service, man pages and other files with the tools for them; and the Debian package by installing it into an empty
# folder, asking the program there and removing it. It takes about ten minutes on two cores, and five where the cache
# has the portable engine. A check whose tool is missing is skipped with a message.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."
[ -z "$(git status --porcelain)" ] || echo "note: changes that are not committed are not checked"
tmp=$(mktemp -d)
server=
clean() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  chmod -R u+w "$tmp" && rm -rf "$tmp"
}
trap clean EXIT

failed=0
fail() { echo "FAILED: $*" >&2; failed=1; }

# has TOOL WHAT: reports whether a tool is there, and says what is skipped if it is not.
has() { command -v "$1" >/dev/null || { echo "SKIPPED: $2, because $1 is not on the PATH"; return 1; }; }

# build NAME CACHE: makes a release in a clone, with a build cache. Tools and modules are shared.
build() {
  git clone --quiet . "$tmp/$1"
  mkdir -p .cache/tools "$tmp/$1/.cache"
  ln -s "$PWD/.cache/tools" "$tmp/$1/.cache/tools"
  env -u CGO_CFLAGS -u CGO_CXXFLAGS GOCACHE="$2" make --no-print-directory -C "$tmp/$1" dist
}

reproducible() {
  echo "two builds"
  build one "$(go env GOCACHE)"
  build a-folder-with-another-name "$tmp/cache"
  rm -rf "$tmp/cache"
  if diff -r "$tmp/one/dist" "$tmp/a-folder-with-another-name/dist"; then
    echo "both have the same bytes"
  else
    fail "the builds differ"
  fi
}

linted() {
  local folder=$1 file
  if has mandoc "man pages"; then # warnings are about the date that is missing, for the same bytes each time
    for file in "$folder"/share/man/man1/*.gz; do
      gzip -dc "$file" | mandoc -Tlint -Werror || fail "$file"
    done
  fi
  if has systemd-analyze "the systemd unit"; then
    mkdir -p "$tmp/unit/runner.service.d"
    for file in none api-keys gpu; do
      sed "s|/usr/bin/runner|$folder/bin/runner|" packaging/systemd/runner.service >"$tmp/unit/runner.service"
      rm -f "$tmp"/unit/runner.service.d/*
      [ $file = none ] || sed "s|/usr/bin/runner|$folder/bin/runner|" packaging/systemd/$file.conf \
        >"$tmp/unit/runner.service.d/$file.conf"
      systemd-analyze verify --man=no "$tmp/unit/runner.service" >"$tmp/verify" 2>&1 || fail "systemd-analyze verify"
      # Units of the system may have warnings of their own.
      ! grep runner "$tmp/verify" || fail "the unit with $file"
    done
    rm -f "$tmp"/unit/runner.service.d/*
    systemd-analyze security --offline=yes --threshold=25 "$tmp/unit/runner.service" | tail -1 ||
      fail "the unit is less protected than it was"
  fi
  if has python3 "the plist for launchd"; then
    python3 -c 'import plistlib, sys; plistlib.load(open(sys.argv[1], "rb"))["ProgramArguments"]' \
      packaging/launchd/runner.plist || fail "packaging/launchd/runner.plist"
  fi
  if has ruby "the syntax of the Homebrew formula"; then
    ruby -c packaging/homebrew/runner.rb >/dev/null || fail "packaging/homebrew/runner.rb"
  fi
  if has podman "the container"; then
    podman build --quiet -f packaging/Containerfile -t runner-check "$folder" || fail "packaging/Containerfile"
  fi
  if has qemu-x86_64 "an old processor"; then
    if qemu-x86_64 -cpu Nehalem "$folder/bin/runner" version 2>"$tmp/old" || [ $? != 1 ] ||
      ! grep -q 'does not have AVX' "$tmp/old"; then
      fail "the program does not say that a processor is too old: $(cat "$tmp/old")"
    fi
  fi
}

# installed DEB: installs the package into an empty folder, asks its program over HTTP and removes it.
installed() {
  local root=$tmp/root port answer i
  has dpkg "the Debian package" || return 0
  if has lintian "what Debian says of the package"; then
    # The package is not from Debian, so it has no maintainer there and no changelog in the form of Debian.
    lintian --allow-root --fail-on error --suppress-tags bogus-mail-host,no-changelog "$1" ||
      fail "lintian"
  fi
  mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
  touch "$root/var/lib/dpkg/status"
  local dpkg=(dpkg --root="$root" --force-script-chrootless --force-not-root --force-depends --log=/dev/null)
  "${dpkg[@]}" --install "$1" 2>"$tmp/dpkg.log" >/dev/null || { cat "$tmp/dpkg.log"; fail "installing $1"; return; }
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  env -i HOME="$tmp/home" XDG_CACHE_HOME="$tmp/home/cache" HF_HOME="$tmp/home/hf" PATH=/usr/bin:/bin \
    "$root/usr/bin/runner" serve --port "$port" 2>"$tmp/serve.log" &
  server=$!
  for i in {1..100}; do
    ! curl --silent --fail "http://127.0.0.1:$port/health" >/dev/null || break
    sleep 0.2
  done
  answer=$(curl --silent --fail "http://127.0.0.1:$port/v1/chat/completions" -H 'Content-Type: application/json' \
    -d '{"model": "demo", "temperature": 0, "messages": [{"role": "user", "content": "What is 17 + 25?"}]}') || true
  kill "$server"
  wait "$server" || fail "the server did not end well"
  server=
  case $answer in
  *"17 + 25 = 42"*) echo "the installed program answers" ;;
  *) cat "$tmp/serve.log"; fail "the installed program answers '$answer' (i=$i)" ;;
  esac
  "${dpkg[@]}" --purge runner 2>"$tmp/dpkg.log" >/dev/null || { cat "$tmp/dpkg.log"; fail "removing the package"; }
  [ -z "$(find "$root" -path "$root/var/lib/dpkg" -prune -o -type f -print)" ] || fail "files stay after removal"
}

reproducible
linted "$(echo "$tmp"/one/dist/runner-*/)"
for deb in "$tmp"/one/dist/*.deb; do
  installed "$deb"
done
(cd "$tmp/one/dist" && sha256sum --check --quiet SHA256SUMS) || fail "checksums"
[ $failed = 0 ] && echo "the release is good"
