#!/bin/sh
# Runs the tests, with the flags of go test that it is given. A test that fails is run
# once more, as long as no more than five do; what passed only then is listed at the end
# as FLAKY, after the slowest tests. A panic, a data race, a timeout, a package that does
# not build and one that fails outside of its tests are not given a second chance.
#
# Files that tests make are in memory where there is room for them: each write of a database
# waits for the disk otherwise, and a busy disk doubles the time that the tests take. Their
# names are short: what is below them has to fit into the address of a socket.
#
#	PACKAGES  what is tested, the longest first; all by default
#	TMPDIR    where tests make their files
set -u

cd "$(dirname "$0")/../.." || exit 1
events=$PWD/.cache/test-events.json
gotestsum=$(internal/tools/build.sh gotestsum gotest.tools/gotestsum) || exit 1
mkdir -p .cache
room=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)
if [ -z "${TMPDIR:-}" ] && [ "${room:-0}" -gt 8388608 ] && memory=$(mktemp -d /dev/shm/t.XXXXXX); then
	trap 'rm -rf "$memory"' EXIT
	cp /bin/true "$memory" && "$memory/true" && export TMPDIR="$memory" # unless no program runs there
fi
"$gotestsum" --format pkgname --hide-summary skipped --jsonfile "$events" \
	--rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race \
	--packages "${PACKAGES:-./... ./abi/... ./sdk/go/...}" -- "$@"
status=$?
go run ./internal/tools/testreport "$events" "$status"
