package plugintest

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/internal/leaktest"
)

// Main runs the tests of a package that prepares the mock driver, with every write of a bbolt file
// checked, and looks for goroutines that they leave behind.
func Main(m *testing.M) {
	if err := os.Setenv(boltfile.StrictEnv, "1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(leaktest.WithTimeout(m), goleak.Cleanup(func(code int) {
		if err := release(); err != nil {
			panic(err)
		}
		os.Exit(code)
	}))
}

// onPlugin is what a test is called that runs on the plugin.
const onPlugin = "plugin"

// Twice runs a test on a driver in this process, and then on what there is in production:
// the mock driver plugin compiled to wasm, and a store on disk. The test asks [OnPlugin] which.
func Twice(t *testing.T, test func(*testing.T)) {
	t.Helper()
	t.Run("script", test)
	prepare(t)
	t.Run(onPlugin, test)
}

// Bubble is [Twice] for a test in its own time.
func Bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	Twice(t, func(t *testing.T) { synctest.Test(t, test) })
}

// OnPlugin reports whether a test runs on the plugin.
func OnPlugin(t testing.TB) bool { return strings.Contains(t.Name()+"/", "/"+onPlugin+"/") }
