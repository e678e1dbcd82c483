#!/usr/bin/env bash
# Checks the release of the last commit: that two builds in two folders have the same bytes, one made with this user's
# build cache and one with an empty one; the service, man pages and other files with the tools for them; and the Debian
# package by installing it into an empty folder, running its service there and removing it. It takes about ten minutes
# on two cores, and five where the cache has the portable engine. A check whose tool is missing is skipped with a
# message.
#
#   dist_check.sh                   all of this
#   dist_check.sh FOLDER            only the checks of a release that "make dist" left in a folder
#   dist_check.sh program PROGRAM   only those of the packaging, with a program that is built already; under a minute
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."
given=${1:-} program=
if [ "$given" = program ]; then
  program=$(cd "$(dirname "${2:?a program}")" && pwd)/$(basename "$2")
fi
tmp=$(mktemp -d)
chmod 755 "$tmp" # the service runs as another user
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

# linted FOLDER: checks the files that belong to the program.
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
    agent "$folder/bin/runner" || fail "packaging/launchd/runner.plist"
  fi
}

# agent PROGRAM: runs the command of the plist for launchd, with an error that has to be in the user's log.
agent() {
  mkdir -p "$tmp/home/Library/Logs"
  HOME=$tmp/home python3 - "$1" <<'PYTHON' && grep -q 'no-such-flag' "$tmp/home/Library/Logs/runner.log"
import plistlib, subprocess, sys
command = plistlib.load(open("packaging/launchd/runner.plist", "rb"))["ProgramArguments"]
start = "/usr/local/bin/runner serve"
assert start in command[-1], command
command[-1] = command[-1].replace(start, f"'{sys.argv[1]}' serve --no-such-flag")
sys.exit(subprocess.run(command).returncode != 2)
PYTHON
}

# release FOLDER: checks what only a release has.
release() {
  local folder=$1
  if has ruby "the syntax of the Homebrew formula"; then
    ruby -c "$folder/../runner.rb" >/dev/null || fail "the formula for Homebrew"
  fi
  if has podman "the container"; then
    podman build --quiet -f packaging/Containerfile -t runner-check "$folder" || fail "packaging/Containerfile"
  fi
  local qemu
  if ! qemu=$(scripts/emulator.sh 2>"$tmp/emulator"); then
    echo "SKIPPED: an old processor: $(tail -n 1 "$tmp/emulator")"
  else
    if "$qemu" -cpu Nehalem "$folder/bin/runner" version 2>"$tmp/old" || [ $? != 1 ] ||
      ! grep -q 'does not have AVX' "$tmp/old"; then
      fail "the program does not say that a processor is too old: $(cat "$tmp/old")"
    fi
  fi
}

# served ROOT DROPIN: runs what the service of an installed package runs, with its environment and as a user without
# rights, and asks it over HTTP. Without root it runs as this user. systemd itself is not there in a sandbox.
served() {
  local root=$1 dropin=$2 port answer i line command=() environment=() as=() key=none
  local state=$tmp/state-${dropin:-none}
  mkdir -p "$state/credentials"
  if [ "$dropin" = api-keys ]; then
    key=$("$root/usr/bin/runner" serve apikey new "$state/credentials/api-keys" check 2>/dev/null)
  fi
  if [ "$(id -u)" = 0 ] && has setpriv "another user for the service"; then
    chown -R 65534:65534 "$state"
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs)
  fi
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  while IFS= read -r line; do
    line=${line//%C/$state/cache} line=${line//%S/$state/lib} line=${line//%d/$state/credentials}
    case $line in
    ExecStart=?*) read -ra command <<<"${line#ExecStart=}" ;;
    Environment=*) environment+=("${line#Environment=}") ;;
    esac
  done < <(cat "$root/usr/lib/systemd/system/runner.service" \
    ${dropin:+"$root/usr/share/doc/runner/examples/$dropin.conf"})
  [ "${command[0]}" = /usr/bin/runner ] || { fail "the service runs ${command[*]}"; return; }
  # Checks listen on this machine only, and on a port that is free.
  (cd / && exec env -i PATH=/usr/bin:/bin "${environment[@]}" "${as[@]}" "$root${command[0]}" "${command[@]:1}" \
    --host 127.0.0.1 --port "$port") 2>"$state/log" &
  server=$!
  for i in {1..150}; do
    if ! kill -0 "$server" 2>/dev/null || health "$port"; then break; fi
    sleep 0.2
  done
  answer=$(curl --silent --fail "http://127.0.0.1:$port/v1/chat/completions" -H 'Content-Type: application/json' \
    -H "Authorization: Bearer $key" \
    -d '{"model": "demo", "temperature": 0, "messages": [{"role": "user", "content": "What is 17 + 25?"}]}') || true
  if [ "$dropin" = api-keys ] && curl --silent --fail "http://127.0.0.1:$port/v1/models" >/dev/null; then
    fail "the service with $dropin answers without a key"
  fi
  kill "$server" 2>/dev/null || true # it may have ended
  wait "$server" || fail "the service did not end well"
  server=
  case $answer in
  *"17 + 25 = 42"*) echo "the installed service${dropin:+ with $dropin} answers${as:+, as another user}" ;;
  *) cat "$state/log"; fail "the installed service answers '$answer' (i=$i)" ;;
  esac
}

# health PORT: reports whether a server is healthy, as the container's own check finds out.
health() {
  python3 - "$1" <<'PYTHON'
import json, re, subprocess, sys
text = open("packaging/Containerfile").read()
command = json.loads(re.search(r"HEALTHCHECK(?:.|\n)*?CMD (\[(?:.|\n)*?\])\n", text).group(1).replace("\\\n", ""))
assert "8080" in command[2]
command[2] = command[2].replace("8080", sys.argv[1])
sys.exit(subprocess.run(command, stderr=subprocess.DEVNULL).returncode)
PYTHON
}

# installed DEB: installs the package into an empty folder, runs its service and removes it.
installed() {
  local root=$tmp/root
  has dpkg "the Debian package" || return 0
  if [ -z "$program" ] && has lintian "what Debian says of the package"; then
    # The package is not from Debian, so it has no maintainer there and no changelog in the form of Debian.
    lintian --allow-root --fail-on error --suppress-tags bogus-mail-host,no-changelog "$1" ||
      fail "lintian"
  fi
  mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
  touch "$root/var/lib/dpkg/status"
  local dpkg=(dpkg --root="$root" --force-script-chrootless --force-not-root --force-depends --log=/dev/null)
  "${dpkg[@]}" --install "$1" 2>"$tmp/dpkg.log" >/dev/null || { cat "$tmp/dpkg.log"; fail "installing $1"; return; }
  served "$root" ""
  served "$root" api-keys
  "${dpkg[@]}" --purge runner 2>"$tmp/dpkg.log" >/dev/null || { cat "$tmp/dpkg.log"; fail "removing the package"; }
  [ -z "$(find "$root" -path "$root/var/lib/dpkg" -prune -o -type f -print)" ] || fail "files stay after removal"
}

if [ -n "$program" ]; then
  if [ "$(uname)" != Linux ]; then
    echo "SKIPPED: the packaging, because only Linux has the Debian package"
    exit
  fi
  has objdump "the packaging" && has python3 "the packaging" && has curl "the packaging" || exit 0
  made=0
  PROGRAM=$program DIST=$tmp/dist SOURCE_DATE_EPOCH=1000000000 VERSION=${VERSION:-unknown} \
    MAINTAINER='Jane Doe <jane@localhost>' SOURCE_URL=file:/// scripts/dist.sh || made=$?
  if [ $made = 3 ]; then
    echo "SKIPPED: the packaging, because nfpm cannot be installed"
    exit
  fi
  [ $made = 0 ] || exit 1
  dist=$tmp/dist
  linted "$(echo "$dist"/runner-*/)"
  for deb in "$dist"/*.deb; do
    installed "$deb"
  done
  [ $failed = 0 ] && echo "the packaging is good"
  exit $failed
elif [ -n "$given" ]; then
  dist=$(cd "$given" && pwd)
else
  [ -z "$(git status --porcelain)" ] || echo "note: changes that are not committed are not checked"
  dist=$tmp/one/dist
  reproducible
fi
linted "$(echo "$dist"/runner-*/)"
release "$(echo "$dist"/runner-*/)"
for deb in "$dist"/*.deb; do
  installed "$deb"
done
(cd "$dist" && sha256sum --check --quiet SHA256SUMS) || fail "checksums"
[ $failed = 0 ] && echo "the release is good"
