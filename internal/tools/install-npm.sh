#!/bin/sh
# Installs packages of npm that are missing, in the versions that it is given, below .cache/npm;
# nothing that they bring is run. Their programs are in .cache/npm/node_modules/.bin: of a package
# that does not say which it has, it is told.
#
#	internal/tools/install-npm.sh PACKAGE@VERSION[:PROGRAM]...
set -eu

cache=$(cd "$(dirname "$0")/../.." && pwd)/.cache/npm
missing=""
for p in "$@"; do
	spec=${p%%:*}
	grep -qs "\"version\": \"${spec##*@}[\"+]" "$cache/node_modules/${spec%@*}/package.json" || missing="$missing $spec"
done
if [ -n "$missing" ]; then
	echo "installing$missing"
	mkdir -p "$cache"
	command -v npm >/dev/null || "$(dirname "$0")/install-toolchain.sh" npm
	if ! npm install --prefix "$cache" --ignore-scripts --save-exact --no-audit --no-fund $missing >"$cache/log" 2>&1; then
		cat "$cache/log" >&2
		echo "could not install$missing: install npm, or the compilers themselves, and run make again" >&2
		exit 1
	fi
fi
for p in "$@"; do
	case $p in *:*)
		spec=${p%%:*} program=${p##*:}
		mkdir -p "$cache/node_modules/.bin"
		ln -sf "../${spec%@*}/$program" "$cache/node_modules/.bin/$program"
		;;
	esac
done
