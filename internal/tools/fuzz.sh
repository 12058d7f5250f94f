#!/bin/sh
# Runs every fuzz target of the project for FUZZTIME, one after another. A find is
# written to the package's testdata/fuzz and becomes a named test.
set -eu

: "${FUZZTIME:=10s}"
grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
	package=./$(dirname "${file#./}")
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file"); do
		echo "fuzz $package $target for $FUZZTIME"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" "$package"
	done
done
