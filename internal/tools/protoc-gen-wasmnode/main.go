// Command protoc-gen-wasmnode is the code generator of abi/buf.gen.yaml: it runs
// protoc-gen-go-lite and makes its output use abi/internal/protowire in place of fmt
// and of the generator's own runtime. It runs in the directory abi.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"os/exec"

	"google.golang.org/protobuf/encoding/protowire"
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
	cmd.Env = append(os.Environ(), "GOWORK=off") // with a workspace, -modfile is refused
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
func mapField(message []byte, field protowire.Number, change func([]byte) ([]byte, error)) ([]byte, error) {
	var out []byte
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeField(message)
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		if number != field || kind != protowire.BytesType {
			out = append(out, message[:size]...)
			message = message[size:]
			continue
		}
		old, _ := protowire.ConsumeBytes(message[protowire.SizeTag(number):size])
		changed, err := change(old)
		if err != nil {
			return nil, err
		}
		out = protowire.AppendBytes(protowire.AppendTag(out, number, kind), changed)
		message = message[size:]
	}
	return out, nil
}
