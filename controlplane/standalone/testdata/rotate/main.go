// Command rotate rotates the root key of a control plane's file, and has all its variables sealed
// with the new one.
package main

import (
	"fmt"
	"os"

	"github.com/wasmnode/wasmnode/controlplane/standalone"
)

func main() {
	if err := rotate(os.Args[2]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func rotate(path string) error {
	cp, err := standalone.Open(standalone.Options{Path: path})
	if err != nil {
		return err
	}
	if _, err := cp.RotateRootKey(true); err != nil {
		return err
	}
	return cp.Close()
}
