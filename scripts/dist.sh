#!/usr/bin/env bash
# Makes a release for this machine's system and architecture in the folder dist: a folder with the program and what
# belongs to it, the same as .tar.gz and on Linux as .deb, a formula for Homebrew, a list of components (SBOM), and
# checksums. The same commit gives the same bytes. "make dist" runs this and sets the compilers' flags, BUILD_FLAGS,
# VERSION and COMMIT.
#
# With PROGRAM and DIST it puts a program that is built already into a folder and a .deb in DIST, without a list of
# components. scripts/dist_check.sh checks the packaging with that. It exits with 3 if it cannot install nfpm.
set -euo pipefail
umask 022
export LC_ALL=C TZ=UTC
cd "$(dirname "$0")/.."
: "${MAINTAINER:?run make dist}" "${SOURCE_URL:?run make dist}"
program=${PROGRAM:-} out=dist
[ -z "$program" ] || out=${DIST:?with PROGRAM}
: "${VERSION:?run make dist}"
[ -n "$program" ] || : "${BUILD_FLAGS:?run make dist}" "${COMMIT?run make dist}" "${CGO_CFLAGS:?run make dist}"
tools=$PWD/.cache/tools
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
os=$(go env GOOS) arch=$(go env GOARCH)
name=runner-$VERSION-$os-$arch
folder=$out/$name

# tool NAME PACKAGE VERSION: installs a tool in Go, unless it is there, and puts its file's name into $tool.
tool() {
  tool=$tools/$1-$3
  [ ! -x "$tool" ] || return 0
  echo "installing $1 $3"
  mkdir -p "$tools/bin"
  CGO_ENABLED=0 CGO_CFLAGS='' CGO_CXXFLAGS='' GOFLAGS='' GOBIN=$tools/bin go install -trimpath "$2@$3"
  mv "$tools/bin/$1" "$tool"
}

# licences FOLDER: copies the licence files of Go and of every module that is linked: those in the folder of a linked
# package, or above it in its module. A module without any ends the script. The licences at the beginning of sources in
# C and C++ are added.
licences() {
  local module dir package file found at
  mkdir -p "$1/go"
  cp "$(go env GOROOT)/LICENSE" "$1/go/LICENSE"
  go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}} {{.Dir}} {{$.Dir}}{{end}}{{end}}' \
    ./cmd/runner | sed '/^$/d' | while read -r module dir package; do
    for file in "$package"/*.{c,cc,cpp,h,hpp,m}; do
      head -n 1 "$file" 2>/dev/null | grep -q Copyright || continue # also where the pattern names no file
      found=$1/$module${file#"$dir"}.licence
      mkdir -p "${found%/*}"
      sed -n '/^\/\//!q; s|^// \{0,1\}||p' "$file" >"$found"
    done
    at=$package
    while true; do
      for file in "$at"/{LICEN[CS]E,UNLICENSE,COPYING,NOTICE,PATENTS}*; do
        [ -f "$file" ] && [ "${file##*.}" != go ] || continue
        found=$1/$module${file#"$dir"}
        mkdir -p "${found%/*}"
        cp "$file" "$found"
      done
      [ "$at" != "$dir" ] || break
      at=${at%/*}
    done
    [ -d "$1/$module" ] || { echo "dist: $module has no file with its licence" >&2; exit 1; }
  done
  find "$1" -type f -exec chmod 644 {} +
}

# newest PREFIX: the newest version among the symbols that the program takes from libraries.
newest() { objdump -T "$folder/bin/runner" | grep -o "$1[0-9.]*" | sort -Vu | tail -1 | sed "s/^$1//"; }

nfpm() { tool nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm v2.43.0; }

debian() {
  nfpm
  # A version begins with a digit, and a hyphen would begin the revision of a package.
  local version=${VERSION#v}
  case $version in [0-9]*.*) ;; *) version=0.0.0+git.$version ;; esac
  DIST_VERSION=${version//-/+}
  DIST_ARCH=$arch DIST_ROOT=$(mktemp -d)
  trap 'rm -rf "$DIST_ROOT"' EXIT
  mkdir -p "$DIST_ROOT/usr/lib/systemd/system"
  cp -R "$folder"/* "$DIST_ROOT/usr"
  cp packaging/systemd/runner.service "$DIST_ROOT/usr/lib/systemd/system"
  cp packaging/debian/copyright "$DIST_ROOT/usr/share/doc/runner"
  find "$DIST_ROOT/usr" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  DIST_GLIBC=$(newest GLIBC_)
  # The library of the compiler that was used has every symbol that the compiler asks for.
  DIST_LIBSTDCXX=$("${CXX:-g++}" -dumpversion)
  DIST_MAINTAINER=$MAINTAINER DIST_HOMEPAGE=
  case $SOURCE_URL in http*) DIST_HOMEPAGE=$SOURCE_URL ;; esac
  export DIST_MAINTAINER DIST_HOMEPAGE DIST_VERSION DIST_ARCH DIST_ROOT DIST_GLIBC DIST_LIBSTDCXX
  "$tool" package --config packaging/nfpm.yaml --packager deb --target "$out/$name.deb" >&2
}

archive() {
  local tar=tar
  [ "$os" != darwin ] || tar=gtar
  command -v $tar >/dev/null || { echo "dist: GNU tar ($tar) is not on the PATH" >&2; exit 1; }
  $tar -C dist --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
    -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
}

[ -z "$program" ] || nfpm || exit 3

rm -rf "$out"
doc=$folder/share/doc/runner
mkdir -p "$folder"/{bin,share/man/man1,share/bash-completion/completions,share/zsh/site-functions} \
  "$folder/share/fish/vendor_completions.d" "$doc"/{examples,licences}

if [ -n "$program" ]; then
  cp "$program" "$folder/bin/runner"
else
  echo "building $folder/bin/runner; the first build also compiles the C++ engine, which takes a few minutes"
  # shellcheck disable=SC2086 # the flags are words
  go build $BUILD_FLAGS -buildvcs=false -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" \
    -o "$folder/bin/runner" ./cmd/runner
fi

go run ./scripts/clidocs -version "$VERSION" man "$folder/share/man/man1" >/dev/null
gzip -9n "$folder"/share/man/man1/*.1
"$folder/bin/runner" completion bash >"$folder/share/bash-completion/completions/runner"
"$folder/bin/runner" completion zsh >"$folder/share/zsh/site-functions/_runner"
"$folder/bin/runner" completion fish >"$folder/share/fish/vendor_completions.d/runner.fish"
cp LICENSE CHANGELOG.md "$doc"
cp packaging/systemd/* packaging/launchd/runner.plist packaging/Containerfile "$doc/examples"
licences "$doc/licences"

if [ -n "$program" ]; then
  debian
  exit
fi

tool cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod v1.10.0
# It looks for the licences of the program itself and of Go as those of modules, does not find them, and warns.
"$tool" bin -json -noserial -notimestamp -std -licenses -version "$VERSION" -output "$doc/sbom.cdx.json" \
  "$folder/bin/runner" 2> >(grep -vE 'module=.*(runner|std)@' >&2)
cp "$doc/sbom.cdx.json" "dist/$name.sbom.cdx.json"

sed "s|file:///usr/local/src/runner|$SOURCE_URL|" packaging/homebrew/runner.rb >dist/runner.rb
archive
[ "$os" != linux ] || debian
(cd dist && sha256sum "$name".* runner.rb >SHA256SUMS)
echo "made in dist:"
(cd dist && ls -1p)
case $MAINTAINER$SOURCE_URL in
*@localhost\>* | *file://*)
  echo "note: the package names no maintainer or source that others can reach;" \
    "set MAINTAINER and SOURCE_URL before you publish it"
  ;;
esac
