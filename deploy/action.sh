#!/usr/bin/env bash
# What the GitHub Action runs: downloads a release, checks it, and runs keelson with the words of KEELSON_ARGS.
# KEELSON_RELEASES replaces the address of the releases.
set -euo pipefail
LC_ALL=C

# fail prints the error $2 as one line for GitHub, which reads each line as a command, and ends with the status $1.
fail() {
  local text=${2//'%'/%25}
  text=${text//$'\r'/%0D}
  printf '::error::keelson: %s\n' "${text//$'\n'/%0A}" >&2
  exit "$1"
}

version=${KEELSON_VERSION:-}
if [[ ! $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z]+([.-][0-9A-Za-z]+)*)?$ ]]; then
  fail 2 "version: got \"${version:0:100}\", want a release such as v1.0.0: set the input \"version\", or use the action at a release"
fi
# The words are those of all lines.
IFS=$' \t\r\n' read -r -d '' -a words <<< "${KEELSON_ARGS:-}" || true
if ((${#words[@]} == 0)); then words=(validate -o github .); fi
case "$(uname -s)" in
Linux) system=linux ;;
Darwin) system=darwin ;;
*) system=windows ;;
esac
case "$(uname -m)" in
arm64 | aarch64) arch=arm64 ;;
*) arch=amd64 ;;
esac
name=keelson_${version#v}_${system}_$arch
archive=$name.tar.gz binary=keelson
if [[ $system = windows ]]; then archive=$name.zip binary=keelson.exe; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
from=${KEELSON_RELEASES:-https://github.com/keelson-io/keelson/releases/download}/$version
for file in checksums.txt "$archive"; do
  curl --fail --silent --show-error --location --retry 3 --output "$work/$file" "$from/$file"
done
sum=$(awk -v name="$archive" '$2 == name {print $1}' "$work/checksums.txt")
got=$( (sha256sum "$work/$archive" 2>/dev/null || shasum -a 256 "$work/$archive") | cut -d' ' -f1)
if [[ -z $sum || $sum != "$got" ]]; then
  fail 1 "$archive: got the checksum $got, want ${sum:-one in checksums.txt}"
fi
if [[ $system = windows ]]; then unzip -q "$work/$archive" -d "$work"; else tar -xzf "$work/$archive" -C "$work"; fi
"$work/$name/$binary" "${words[@]}"
