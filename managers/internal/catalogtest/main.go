package catalogtest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/codetest"
	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/sandbox"
)

// TestTimeout bounds how long a test waits for what must happen; compiling a guest takes
// half a minute under the race detector, on a machine with nothing else to do.
const TestTimeout = 5 * time.Minute

// cacheDir keeps compiled guests for all tests of one run.
var cacheDir string

// Main runs a package's tests and looks for goroutines that they leave behind.
func Main(m *testing.M) {
	var err error
	if cacheDir, err = os.MkdirTemp("", "managers-cache"); err != nil {
		panic(err)
	}
	codetest.Restore(cacheDir)
	goleak.VerifyTestMain(leaktest.WithTimeout(m), goleak.Cleanup(func(code int) {
		codetest.Save(cacheDir)
		_ = os.RemoveAll(cacheDir)
		os.Exit(code)
	}))
}

// Engine returns an engine that lasts as long as the test.
func Engine(t testing.TB) *sandbox.Engine {
	t.Helper()
	e, err := sandbox.Open(sandbox.Config{CacheDir: cacheDir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	return e
}
