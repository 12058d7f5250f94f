#!/bin/sh
# Builds a development tool from its own module, internal/tools/NAME, and prints where
# it is. A workspace would mix its requirements with the project's, so it has none.
#
#	tool=$(internal/tools/build.sh NAME PACKAGE)
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/.cache/tools/$1
GOWORK=off go build -C "$root/internal/tools/$1" -o "$out" "$2" >&2
echo "$out"
