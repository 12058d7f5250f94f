#!/bin/sh
# Compiles the kernels. Two steps on purpose: in one, clang would run an optimiser
# that it finds on the path and that may not know the instructions.
set -e
cd "$(dirname "$0")"
for simd in "" simd; do
	clang-14 --target=wasm32-wasi -mbulk-memory ${simd:+-msimd128} -O3 -c -o kernels.o kernels.c
	clang-14 --target=wasm32-wasi -mexec-model=reactor -Wl,--strip-debug -o "kernels${simd:+_}$simd.wasm" kernels.o
done
rm kernels.o
