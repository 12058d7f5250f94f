package process_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaktest"
)

// buildDir keeps what a test run compiles.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "process-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	goleak.VerifyTestMain(leaktest.WithTimeout(m), goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}
