module github.com/wasmnode/wasmnode/internal/tools/protoc-gen-go-lite

go 1.26

tool github.com/aperturerobotics/protobuf-go-lite/cmd/protoc-gen-go-lite

require (
	github.com/aperturerobotics/protobuf-go-lite v0.14.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
