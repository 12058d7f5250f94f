package process_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/logfile"
	"github.com/wasmnode/wasmnode/workload/process"
)

const testTimeout = 2 * time.Minute

var tokens atomic.Int64

// world runs shell scripts as workloads of one runtime. Every process of a script
// that is a shell has the token in its command line.
type world struct {
	t     testing.TB
	s     *process.Runtime
	token string
}

func newWorld(t testing.TB) *world { return newWorldOf(t, newRuntime(t)) }

func newWorldOf(t testing.TB, s *process.Runtime) *world {
	return &world{t: t, s: s, token: fmt.Sprintf("token-%d-%d-", os.Getpid(), tokens.Add(1))}
}

// script returns the spec of a script; $0 is the token.
func (w *world) script(text string) *workload.Spec {
	dir := w.t.TempDir()
	return &workload.Spec{
		ID:      fmt.Sprintf("%s%d", w.token, tokens.Add(1)),
		Env:     map[string]string{"PATH": "/usr/bin:/bin"},
		Process: &workload.Process{Command: "/bin/sh", Args: []string{"-c", text, w.token}, Dir: dir, Isolation: workload.IsolationNone},
		Logs: workload.Logs{
			StdoutPath: filepath.Join(dir, "out"), StderrPath: filepath.Join(dir, "err"), MaxFiles: 2, MaxFileBytes: 64 << 10,
		},
	}
}

// start starts a script.
func (w *world) start(text string) *workload.Spec {
	w.t.Helper()
	spec := w.script(text)
	require.NoError(w.t, w.s.Start(w.context(), spec))
	return spec
}

// run runs a script to its end.
func (w *world) run(text string) (*structs.ExitResult, string) {
	w.t.Helper()
	spec := w.start(text)
	return w.wait(spec), w.said(spec)
}

func (w *world) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	w.t.Cleanup(cancel)
	return ctx
}

func (w *world) wait(spec *workload.Spec) *structs.ExitResult {
	w.t.Helper()
	result, err := w.s.Wait(w.context(), spec.ID)
	require.NoError(w.t, err)
	return result
}

// ready waits until a script has said something, and returns what.
func (w *world) ready(spec *workload.Spec) string {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.context())
	defer cancel()
	var said string
	err := logfile.Follow(ctx, spec.Logs.StdoutPath, logfile.Options{Follow: true}, func(c logfile.Chunk) error {
		said = string(c.Data)
		cancel()
		return nil
	})
	require.NoError(w.t, err)
	require.NotEmpty(w.t, said)
	return strings.TrimSpace(said)
}

// said returns a script's standard output.
func (w *world) said(spec *workload.Spec) string {
	w.t.Helper()
	numbers, err := logfile.Numbers(spec.Logs.StdoutPath)
	require.NoError(w.t, err)
	var text strings.Builder
	for _, n := range numbers {
		b, err := os.ReadFile(logfile.Path(spec.Logs.StdoutPath, n))
		require.NoError(w.t, err)
		text.Write(b)
	}
	return text.String()
}

// left returns how many processes of the world's scripts run.
func (w *world) left() int { return withToken(w.t, w.token) }

func withToken(t testing.TB, token string) int {
	t.Helper()
	all, err := procfs.AllProcs()
	require.NoError(t, err)
	count := 0
	for _, p := range all {
		line, err := p.CmdLine()
		if err == nil && strings.Contains(strings.Join(line, " "), token) && p.PID != os.Getpid() {
			count++
		}
	}
	return count
}
