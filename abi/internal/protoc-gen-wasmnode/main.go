// Command protoc-gen-wasmnode is the code generator of abi/buf.gen.yaml: it runs
// protoc-gen-go-lite and makes its output use the package protowire in place of fmt
// and of the generator's own runtime.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"os/exec"

	"github.com/wasmnode/wasmnode/abi/internal/protowire"
)

// Fields of google.protobuf.compiler.CodeGeneratorResponse and its File.
const (
	responseFile = 15
	fileContent  = 15
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "protoc-gen-wasmnode:", err)
		os.Exit(1)
	}
}

func run() error {
	cmd := exec.Command("go", "tool", "-modfile=../internal/tools/protoc-gen-go-lite/go.mod", "protoc-gen-go-lite")
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	response, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("protoc-gen-go-lite: %w", err)
	}
	response, err = mapField(response, responseFile, func(file []byte) ([]byte, error) {
		return mapField(file, fileContent, rewrite)
	})
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(response)
	return err
}

// rewrite changes what a generated file imports.
func rewrite(source []byte) ([]byte, error) {
	for _, r := range []struct{ old, new string }{
		{"\tfmt \"fmt\"\n", ""},
		{`protobuf_go_lite "github.com/aperturerobotics/protobuf-go-lite"`, `protowire "github.com/wasmnode/wasmnode/abi/internal/protowire"`},
		{"protobuf_go_lite.", "protowire."},
		{"fmt.Errorf(", "protowire.Errorf("},
	} {
		source = bytes.ReplaceAll(source, []byte(r.old), []byte(r.new))
	}
	return format.Source(source)
}

// mapField returns message with change applied to every occurrence of a field of
// bytes.
func mapField(message []byte, field uint64, change func([]byte) ([]byte, error)) ([]byte, error) {
	var out []byte
	for len(message) > 0 {
		size, err := protowire.Skip(message)
		if err != nil {
			return nil, err
		}
		tag, at, err := protowire.DecodeVarint(message, 0)
		if err != nil {
			return nil, err
		}
		if tag != field<<3|2 {
			out = append(out, message[:size]...)
			message = message[size:]
			continue
		}
		_, at, err = protowire.DecodeVarint(message, at)
		if err != nil {
			return nil, err
		}
		changed, err := change(message[at:size])
		if err != nil {
			return nil, err
		}
		out = appendVarint(out, tag)
		out = appendVarint(out, uint64(len(changed)))
		out = append(out, changed...)
		message = message[size:]
	}
	return out, nil
}

func appendVarint(b []byte, v uint64) []byte {
	n := len(b) + protowire.SizeOfVarint(v)
	b = append(b, make([]byte, protowire.SizeOfVarint(v))...)
	protowire.EncodeVarint(b, n, v)
	return b
}
