#!/bin/sh
# Prints the version of a build of this clone: that of its tag, or else the next one's, with
# the commit behind it, as Semantic Versioning has it.
set -eu

cd "$(dirname "$0")/../.."
tag=$(git describe --tags --exact-match --match 'v[0-9]*' --dirty 2>/dev/null) || tag=
case $tag in
"" | *-dirty) ;;
*)
	echo "${tag#v}"
	exit 0
	;;
esac
next=$(sed -n 's/^var Version = "\(.*\)"$/\1/p' agent/version.go)
commit=$(git describe --always --exclude '*' --dirty=.dirty 2>/dev/null) || commit=
echo "$next${commit:++$commit}"
