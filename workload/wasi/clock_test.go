package wasi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/importtest"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/internal/racetest"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/wasi"
)

// looping is a program that calls one import for ever.
func looping(l importtest.Loop) []byte {
	m := &modtest.Module{Imports: l.Imports(), Pages: importtest.Pages, Data: l.Data()}
	m.Funcs = []modtest.Func{{Export: "_start", Body: l.Body(0)}}
	return m.Bytes()
}

// Without a clock in a host function, a program that loops around it runs on for minutes; the
// machine may do other work at the same time.
func TestNoImportHoldsAProgramThatIsStopped(t *testing.T) {
	s := newRuntime(t, wasi.Config{})
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, importtest.File), nil, 0o644))
	require.NoError(t, os.Truncate(filepath.Join(dir, importtest.File), 1<<30))
	require.NoError(t, os.Mkdir(filepath.Join(dir, importtest.Directory), 0o755))
	for i := range 5000 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, importtest.Directory, fmt.Sprintf("%0200d", i)), nil, 0o644))
	}
	for _, i := range importtest.WASI(t) {
		loops := importtest.LoopsOf(i)
		if racetest.On {
			loops = loops[len(loops)-1:] // a module takes ten times as long to compile
		}
		for n, l := range loops {
			t.Run(fmt.Sprintf("%s/%d", i.Name, n), func(t *testing.T) {
				sp := spec(t.Name(), looping(l))
				sp.MemoryMaxBytes = 128 * megabyte
				sp.WASI.Mounts = []workload.Mount{{GuestPath: "/", HostPath: dir}}
				sp.Logs = workload.Logs{StdoutPath: filepath.Join(t.TempDir(), "out"), StderrPath: filepath.Join(t.TempDir(), "err"), MaxFiles: 1, MaxFileBytes: megabyte}
				require.NoError(t, s.Start(withTimeout(t), sp))
				begun := filepath.Join(dir, importtest.Begun)
				require.Eventually(t, func() bool { return os.Remove(begun) == nil }, 20*time.Second, time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				require.NoError(t, s.Stop(ctx, sp.ID, "SIGKILL", 0))
				result, err := s.Wait(withTimeout(t), sp.ID)
				require.NoError(t, err)
				require.Equal(t, 9, result.Signal, "%+v", result)
				require.NoError(t, s.Destroy(withTimeout(t), sp.ID))
			})
		}
	}
}
