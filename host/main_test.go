package host_test

import (
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/codetest"
	"github.com/wasmnode/wasmnode/internal/leaktest"
)

// codeCache is shared by the tests: a Go plugin takes a second to compile.
var codeCache string

func TestMain(m *testing.M) {
	var err error
	if codeCache, err = os.MkdirTemp("", "wasmnode-host-test"); err != nil {
		log.Fatal(err)
	}
	codetest.Restore(codeCache)
	goleak.VerifyTestMain(leaktest.WithTimeout(m), goleak.Cleanup(func(code int) {
		codetest.Save(codeCache)
		os.RemoveAll(codeCache)
		os.Exit(code)
	}))
}
