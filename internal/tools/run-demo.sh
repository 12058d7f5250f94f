#!/usr/bin/env bash
# Starts a node in a temporary directory, runs a real job on it, shows the job's
# output, and leaves nothing behind. Exits non-zero when any of that fails.
set -euo pipefail
cd "$(dirname "$0")/../.."

wasmnode=bin/wasmnode
home=$(mktemp -d)
log=$home/agent.log
agent=

cleanup() {
	if [ -n "$agent" ]; then
		kill "$agent" 2>/dev/null || true
		wait "$agent" 2>/dev/null || true
	fi
	rm -rf "$home"
}
trap cleanup EXIT

fail() {
	echo "run: $1" >&2
	[ -f "$log" ] && tail -n 30 "$log" >&2
	exit 1
}

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

say "$wasmnode agent -dev &"
$wasmnode agent -dev -http-addr 127.0.0.1:0 -plugin-dir bin/plugins >"$log" 2>&1 &
agent=$!
for _ in $(seq 600); do
	address=$(sed -n 's/.*agent is ready.*http_addr=\([0-9.:]*\).*/\1/p' "$log" | head -n 1)
	[ -n "$address" ] && break
	kill -0 "$agent" 2>/dev/null || fail "the agent did not start"
	sleep 0.1
done
[ -n "${address:-}" ] || fail "the agent was not ready after a minute"
grep 'agent is ready' "$log"
export NOMAD_ADDR=http://$address

# An agent goes on without plugins that take long to compile; the job would not.
for _ in $(seq 600); do
	$wasmnode plugin status | grep -q ' loading ' || break
	sleep 0.1
done
say "$wasmnode plugin status"
$wasmnode plugin status

job=guest-examples/jobs/hello.nomad.hcl
say "$wasmnode job run -var programs=\$PWD/bin/programs $job"
$wasmnode job run -var "programs=$PWD/bin/programs" "$job" || fail "the job did not run"

alloc=$($wasmnode job allocs -json hello | sed -n 's/^ *"ID": "\([0-9a-f-]*\)".*/\1/p' | head -n 1)
[ -n "$alloc" ] || fail "the job has no allocation"
for _ in $(seq 300); do
	status=$($wasmnode alloc status -json "$alloc" | sed -n 's/^ *"ClientStatus": "\([a-z]*\)".*/\1/p' | head -n 1)
	[ "$status" = complete ] && break
	[ "$status" = failed ] && break
	sleep 0.1
done

say "$wasmnode alloc status ${alloc%%-*}"
$wasmnode alloc status "${alloc%%-*}"
say "$wasmnode alloc logs ${alloc%%-*}"
$wasmnode alloc logs "${alloc%%-*}"
[ "$status" = complete ] || fail "the allocation is $status, not complete"

say "$wasmnode job stop -purge hello"
$wasmnode job stop -purge hello
