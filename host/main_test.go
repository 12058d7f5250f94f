package host_test

import (
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// codeCache is shared by the tests: a Go plugin takes a second to compile.
var codeCache string

func TestMain(m *testing.M) {
	var err error
	if codeCache, err = os.MkdirTemp("", "wasmnode-host-test"); err != nil {
		log.Fatal(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(codeCache)
		os.Exit(code)
	}))
}
