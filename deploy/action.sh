#!/usr/bin/env bash
# What the GitHub Action runs: downloads a release, checks it, and runs keelson with the words of KEELSON_ARGS.
# KEELSON_RELEASES replaces the address of the releases.
set -euo pipefail

version=${KEELSON_VERSION:-}
if [[ ! $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]]; then
  echo "::error::keelson: version: got \"$version\", want a release such as v1.0.0: set the input \"version\", or use the action at a release" >&2
  exit 2
fi
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
  echo "::error::keelson: $archive: got the checksum $got, want ${sum:-one in checksums.txt}" >&2
  exit 1
fi
if [[ $system = windows ]]; then unzip -q "$work/$archive" -d "$work"; else tar -xzf "$work/$archive" -C "$work"; fi
read -ra words <<< "${KEELSON_ARGS:-validate -o github .}"
"$work/$name/$binary" "${words[@]}"
