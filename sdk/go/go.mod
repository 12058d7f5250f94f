module github.com/wasmnode/wasmnode/sdk/go

go 1.24.0

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/tetratelabs/wazero v1.11.0
	github.com/wasmnode/wasmnode/abi v0.1.0
)

require (
	golang.org/x/sys v0.38.0 // indirect
	golang.org/x/text v0.14.0 // indirect
)
