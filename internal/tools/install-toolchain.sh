#!/bin/sh
# Installs packages that are missing, where apt is there to ask: those that it is given,
# or the compilers for WebAssembly of the examples in C and Rust.
set -eu

packages="${*:-clang-14 lld-14 wasi-libc libclang-rt-14-dev-wasm32 rustc libstd-rust-dev-wasm32}"

missing=""
for p in $packages; do
	dpkg -s "$p" >/dev/null 2>&1 || missing="$missing $p"
done
[ -z "$missing" ] && exit 0

sudo=""
[ "$(id -u)" -eq 0 ] || sudo="sudo"
echo "installing$missing"
if ! { $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing; } >/tmp/wasmnode-apt.$$ 2>&1; then
	cat /tmp/wasmnode-apt.$$ >&2
	rm -f /tmp/wasmnode-apt.$$
	echo "could not install$missing: install them by hand and run make again" >&2
	exit 1
fi
rm -f /tmp/wasmnode-apt.$$
