// Command write writes a file: write replace PATH, or write new PATH.
package main

import (
	"os"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/internal/failpoint"
)

func main() {
	if err := write(os.Args[1], os.Args[2]); err != nil {
		panic(err)
	}
}

func write(how, path string) error {
	f, err := durable.Begin(path, 0o640)
	if err != nil {
		return err
	}
	defer f.Drop()
	failpoint.Here("begun")
	if _, err := f.WriteString("new "); err != nil {
		return err
	}
	failpoint.Here("half")
	if _, err := f.WriteString("content"); err != nil {
		return err
	}
	failpoint.Here("written")
	if how == "new" {
		return f.CommitNew()
	}
	err = f.Commit()
	failpoint.Here("renamed")
	return err
}
