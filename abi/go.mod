module github.com/wasmnode/wasmnode/abi

go 1.21
