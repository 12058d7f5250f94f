#!/bin/sh
# Installs the compiler of AssemblyScript into .cache/assemblyscript, as assemblyscript/ here
# pins it. Without the Node.js that it needs there is nothing to install, which fails with
# CI=true or WASMNODE_STRICT=1 only: make says which plugins it leaves out.
set -eu
cd "$(dirname "$0")/../.."

pinned=internal/tools/assemblyscript
to=.cache/assemblyscript

if [ -x "$to/node_modules/.bin/asc" ] && cmp -s "$pinned/package-lock.json" "$to/package-lock.json"; then
	exit 0
fi
major=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/')
if [ "${major:-0}" -lt 20 ] || ! command -v npm >/dev/null; then
	echo "no Node.js 20 with npm, so no compiler of AssemblyScript: install one (Debian 13: apt install nodejs npm)" >&2
	[ "${CI:-}" != true ] && [ "${WASMNODE_STRICT:-}" != 1 ]
	exit
fi
echo "installing assemblyscript"
mkdir -p "$to"
cp "$pinned/package.json" "$pinned/package-lock.json" "$to/"
if ! text=$(cd "$to" && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline 2>&1); then
	rm -f "$to/package-lock.json" # so that the next run tries again
	echo "$text" >&2
	echo "could not install assemblyscript: run make again where npm reaches a registry" >&2
	exit 1
fi
