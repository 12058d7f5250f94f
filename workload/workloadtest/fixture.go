package workloadtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/logfile"
)

// GuestPackage is the program that the suite runs, from the repository's root. Its
// first argument is a verb; see its source.
const GuestPackage = "workload/workloadtest/testdata/guest"

// Fixture is how to test an implementation.
type Fixture struct {
	// New returns a runtime without workloads, which ends with the test.
	New func(t testing.TB) workload.Runtime
	// Program makes a spec run the program of [GuestPackage] with these arguments.
	// The rest of the spec is the suite's.
	Program func(t testing.TB, spec *workload.Spec, args ...string)
	// Unconfined workloads have the node's files and memory: they have no mounts, and
	// no limit.
	Unconfined bool
	// Mount has the program of a spec see these; nil: the spec's WASIProgram has the field.
	Mount func(spec *workload.Spec, mounts []workload.Mount)
	// FilesAnywhere: a single file can be mounted in a mounted directory.
	FilesAnywhere bool
	// Undeliverable is a signal that such a workload cannot receive; empty: there is none.
	Undeliverable string
	// MemoryMaxBytes is a limit within which the program runs.
	MemoryMaxBytes uint64
}

// testTimeout is how long the suite waits for what must happen; compiling the guest takes
// half a minute under the race detector, on a machine with nothing else to do.
const testTimeout = 5 * time.Minute

// killWithin bounds how long a kill may take: what is not killed runs for good, and the
// machine may do other work at the same time.
const killWithin = 20 * time.Second

var workloads atomic.Int64

// world is one test's runtime.
type world struct {
	t testing.TB
	f Fixture
	s workload.Runtime
}

func newWorld(t testing.TB, f Fixture) *world {
	return &world{t: t, f: f, s: f.New(t)}
}

// spec returns a spec with an ID and log files of its own.
func (w *world) spec(args ...string) *workload.Spec {
	w.t.Helper()
	base := filepath.Join(w.t.TempDir(), "task")
	spec := &workload.Spec{
		ID:             fmt.Sprintf("workload-%d", workloads.Add(1)),
		MemoryMaxBytes: w.f.MemoryMaxBytes,
		Logs:           workload.Logs{StdoutPath: base + ".stdout", StderrPath: base + ".stderr", MaxFiles: 3, MaxFileBytes: 1 << 20},
	}
	w.f.Program(w.t, spec, args...)
	return spec
}

// mount has a spec's program see these.
func (w *world) mount(spec *workload.Spec, mounts []workload.Mount) {
	if w.f.Mount == nil {
		spec.WASI.Mounts = mounts
		return
	}
	w.f.Mount(spec, mounts)
}

// start starts a workload.
func (w *world) start(args ...string) *workload.Spec {
	w.t.Helper()
	spec := w.spec(args...)
	require.NoError(w.t, w.s.Start(w.context(), spec))
	return spec
}

func (w *world) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	w.t.Cleanup(cancel)
	return ctx
}

func (w *world) wait(id string) *structs.ExitResult {
	w.t.Helper()
	result, err := w.s.Wait(w.context(), id)
	require.NoError(w.t, err)
	return result
}

// ready waits until the program has printed that it is running.
func (w *world) ready(spec *workload.Spec) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.context())
	defer cancel()
	said := false
	err := logfile.Follow(ctx, spec.Logs.StdoutPath, logfile.Options{Follow: true}, func(logfile.Chunk) error {
		said = true
		cancel()
		return nil
	})
	require.NoError(w.t, err)
	require.True(w.t, said, "the program did not say that it is ready")
}

// said returns a log's text.
func (w *world) said(base string) string {
	w.t.Helper()
	numbers, err := logfile.Numbers(base)
	require.NoError(w.t, err)
	var text strings.Builder
	for _, n := range numbers {
		b, err := os.ReadFile(logfile.Path(base, n))
		require.NoError(w.t, err)
		text.Write(b)
	}
	return text.String()
}
