#!/usr/bin/env bash
# Checks all example plugins against the contract, with what make build made: those that this
# machine can run start tasks, the others do all else. Exits non-zero when a check fails.
set -euo pipefail
cd "$(dirname "$0")/../.."

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir "$home/devices"
printf 'gpu' >"$home/devices/gpu-0"
programs=$PWD/bin/programs
failed=0

# conform checks a plugin, and prints what is not well and the summary.
conform() {
	local name=$1
	shift
	if ! bin/wasmnode plugin conform "$@" "bin/plugins/$name.wasm" >"$home/report"; then
		grep '^FAIL' "$home/report" || cat "$home/report"
		failed=1
	fi
	tail -n 1 "$home/report"
}

wasm="wasm { directories = [\"$programs\"] }"
process='process { commands = ["/bin/sleep"] }'
conform mock_driver -task 'run_for = "1h"'
conform wasi -grant "$wasm" -task "module = \"$programs/sleep.wasm\"
args = [\"1h\"]"
conform assemblyscript_minimal -grant "$wasm" -task "module = \"$programs/sleep.wasm\""
conform c_minimal -grant "$wasm" -task "module = \"$programs/sleep.wasm\""
conform rust_minimal -grant "$wasm" -task "module = \"$programs/sleep.wasm\""
conform zig_minimal -grant "$wasm" -task "module = \"$programs/sleep.wasm\""
conform raw_exec -grant "$process" -task 'command = "/bin/sleep"
args = ["3600"]'
conform exec -grant "$process"
conform java -grant "$process"
conform qemu -grant "$process"
conform docker -grant 'http { endpoint "unix:/nonexistent.sock" { paths = ["/"] } }' -grant 'kv { enabled = true }'
for name in example assemblyscript_example c_example rust_example zig_example; do
	printf 'plugin "%s" {\n  config { dir = "%s" }\n  grant {\n    fs { read_only = ["%s"] }\n  }\n}\n' "$name" "$home/devices" "$home/devices" >"$home/$name.hcl"
	conform "$name" -config "$home/$name.hcl"
done
conform gpu
conform usb
exit $failed
