package meter_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// goGuest builds a Go program of testdata, once for all tests.
func goGuest(t testing.TB, name string, flags ...string) []byte {
	t.Helper()
	build, _ := goGuests.LoadOrStore(name, sync.OnceValues(func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "meter-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		out := filepath.Join(dir, "guest.wasm")
		args := append([]string{"build", "-ldflags=-s -w", "-o", out}, flags...)
		cmd := exec.Command("go", append(args, "./testdata/"+name)...)
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, err
		}
		return os.ReadFile(out)
	}))
	b, err := build.(func() ([]byte, error))()
	require.NoError(t, err)
	return b
}

var goGuests sync.Map

func computeGuest(t testing.TB) []byte { return goGuest(t, "compute", "-buildmode=c-shared") }

func kernels(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "kernels", name))
	require.NoError(t, err)
	return b
}

// reactorConfig is for instances of reactors, with the clocks of the host.
func reactorConfig() wazero.ModuleConfig {
	return wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithSysWalltime().WithSysNanotime().WithSysNanosleep()
}

func instantiate(t testing.TB, r wazero.Runtime, b []byte) api.Module {
	t.Helper()
	ctx := context.Background()
	c, err := compile(r, b)
	require.NoError(t, err)
	m, err := r.InstantiateModule(ctx, c, reactorConfig())
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close(ctx) })
	return m
}
