package wasi_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/codetest"
	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/sandbox"
)

// cacheDir makes each program cost one compilation a test run.
var cacheDir string

func TestMain(m *testing.M) {
	sandbox.EnterCompiler()
	dir, err := os.MkdirTemp("", "wasi-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cacheDir = dir
	codetest.Restore(dir)
	goleak.VerifyTestMain(leaktest.WithTimeout(m), goleak.Cleanup(func(code int) {
		codetest.Save(dir)
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}
