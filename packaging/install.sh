#!/bin/sh
# Installs both programs of a release, after a check of its SHA-256: install.sh VERSION SHA256 DIRECTORY
#
# TRAINC_RELEASES is the URL below which the release is, e.g. https://HOST/OWNER/REPOSITORY/releases/download. The checksum is
# that of the archive for this machine, a line of SHA256SUMS of the release.
set -eu

fail() {
    echo "install.sh: $1" >&2
    exit 2
}

version=${1:-} sha256=${2:-} directory=${3:-}
[ -n "$version" ] || fail "no version: name a release, e.g. 1.2.3"
[ -n "$directory" ] || fail "no directory to install into"
[ -n "${TRAINC_RELEASES:-}" ] || fail "TRAINC_RELEASES is not set"
case $sha256 in
*[!0-9a-f]* | '') fail "no checksum: a SHA-256 has 64 hexadecimal digits" ;;
esac
[ "${#sha256}" = 64 ] || fail "no checksum: a SHA-256 has 64 hexadecimal digits"

case $(uname -s) in
Linux) system=unknown-linux-gnu ;;
Darwin) system=apple-darwin ;;
*) fail "no archive for $(uname -s)" ;;
esac
case $(uname -m) in
x86_64 | amd64) machine=x86_64 ;;
aarch64 | arm64) machine=aarch64 ;;
*) fail "no archive for $(uname -m)" ;;
esac
name=trainc-$version-$machine-$system

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
curl --silent --show-error --fail --location --proto '=https,file' --retry 3 \
    --output "$scratch/archive" "$TRAINC_RELEASES/v$version/$name.tar.gz"
if command -v sha256sum >/dev/null 2>&1; then
    found=$(sha256sum "$scratch/archive")
else
    found=$(shasum -a 256 "$scratch/archive")
fi
[ "${found%% *}" = "$sha256" ] || fail "$name.tar.gz has the checksum ${found%% *}, not $sha256"
tar -xzf "$scratch/archive" -C "$scratch"
mkdir -p "$directory"
for program in trainc trainc-worker; do
    install -m 755 "$scratch/$name/$program" "$directory/$program"
done
