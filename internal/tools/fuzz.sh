#!/usr/bin/env bash
# Runs every fuzz target of the project, one after another, each a number of times: as
# many as take about five seconds on one quiet machine. Time does not end it, since a
# busy machine would then check less, and since Go's fuzzer may fail at the end of a time
# without a find ("context deadline exceeded"). A find is a file in the package's
# testdata/fuzz; it becomes a named test.
#
#	FUZZSCALE  that many times as many
#	FUZZTIME   a time for each target instead, such as 10m
set -euo pipefail
cd "$(dirname "$0")/../.."

# How often the targets run that are slow, or that run guests; the others run 20000 times.
declare -A counts=(
	[FuzzNoPathLeadsOutside]=4000  # each makes a tree of files
	[FuzzADiskStaysInItsPlace]=2000 # each unpacks an archive into one
	[FuzzConversation]=1000        # each sends up to a hundred requests
	[FuzzRequest]=10000            # each goes through the whole API
	[FuzzTheEstimateHolds]=200     # each starts a compiler
	[FuzzWriterKeepsTheBytes]=3000 # each may write a thousand files
	[FuzzArguments]=10000          # each is that of every request
	[FuzzReadRecording]=10000      # each is read and written twice
	[FuzzAllocation]=5000          # each reads a whole job
	[FuzzReply]=10000              # each is read as a dozen answers
)

output=$(mktemp)
trap 'rm -f "$output"' EXIT

# fuzz runs a target and reports whether it made no find.
fuzz() {
	local package=$1 target=$2 budget=$3 finds=$1/testdata/fuzz/$2 before after
	before=$(ls "$finds" 2>/dev/null || true)
	if go test -run '^$' -fuzz "^$target\$" -fuzztime "$budget" -fuzzminimizetime 100x "$package" >"$output" 2>&1; then
		tail -n 1 "$output"
		return 0
	fi
	after=$(ls "$finds" 2>/dev/null || true)
	if [ "$before" = "$after" ] && grep -q 'context deadline exceeded' "$output" && ! grep -q 'Failing input' "$output"; then
		echo "no find: the fuzzer ended with its time (context deadline exceeded)"
		return 0
	fi
	cat "$output"
	if [ "$before" != "$after" ]; then
		echo "FIND of $package $target, to be made a named test:"
		comm -13 <(echo "$before") <(echo "$after") | sed "s|^|  $finds/|"
	fi
	return 1
}

failed=0
while read -r file; do
	package=./$(dirname "${file#./}")
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file"); do
		count=${counts[$target]:-20000}
		budget=${FUZZTIME:-$((count * ${FUZZSCALE:-1}))x}
		echo "fuzz $package $target $budget"
		fuzz "$package" "$target" "$budget" || failed=1
	done
done < <(git ls-files '*_test.go' | xargs grep -l '^func Fuzz')
exit $failed
