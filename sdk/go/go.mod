module github.com/wasmnode/wasmnode/sdk/go

go 1.24.0

require (
	github.com/santhosh-tekuri/jsonschema/v5 v5.3.1
	github.com/tetratelabs/wazero v1.11.0
	github.com/wasmnode/wasmnode/abi v0.1.0
)

require golang.org/x/sys v0.38.0
