package workloadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

type suiteTest struct {
	name string
	run  func(t *testing.T, w *world)
}

// confined are the tests of what keeps a workload in its place.
var confined = []suiteTest{
	{"mounts are read and written", mounts},
	{"a mount that cannot be made fails the start", badMounts},
	{"memory is bounded", memory},
}

// Run runs the suite.
func Run(t *testing.T, f Fixture) {
	tests := []suiteTest{
		{"a program runs to its exit code", exitCodes},
		{"a program's output is in its logs when it has ended", output},
		{"logs rotate", rotation},
		{"logs can be disabled", noLogs},
		{"a program has its arguments and environment and nothing else", arguments},
		{"standard input is empty", stdin},
		{"clocks are real", clocks},
		{"a signal ends a program, busy or asleep", signals},
		{"signals that cannot be sent are refused", badSignals},
		{"stopping ends a program within its time", stopping},
		{"a workload can be watched", watching},
		{"waiting ends with its context", waiting},
		{"an ID is used once until it is destroyed", identity},
		{"unknown workloads are not found", unknown},
		{"destroying is idempotent, and kills", destroying},
		{"a start that fails leaves nothing", failedStart},
		{"everything at once", hammer},
	}
	if !f.Unconfined {
		tests = append(tests, confined...)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, newWorld(t, f)) })
	}
}

func exitCodes(t *testing.T, w *world) {
	for _, code := range []int{0, 1, 3, 126, 255} {
		spec := w.start("exit", fmt.Sprint(code))
		for range 2 {
			require.Equal(t, &structs.ExitResult{ExitCode: code}, w.wait(spec.ID), "also when it is asked again")
		}
	}
}

func output(t *testing.T, w *world) {
	spec := w.start("print", "to stdout", "to stderr")
	w.wait(spec.ID)
	require.Equal(t, "to stdout", w.said(spec.Logs.StdoutPath))
	require.Equal(t, "to stderr", w.said(spec.Logs.StderrPath))

	again := w.spec("print", ", again", "")
	again.Logs = spec.Logs
	require.NoError(t, w.s.Start(w.context(), again))
	w.wait(again.ID)
	require.Equal(t, "to stdout, again", w.said(spec.Logs.StdoutPath), "a restart appends")
}

func rotation(t *testing.T, w *world) {
	spec := w.spec("lines", "300")
	spec.Logs.MaxFileBytes, spec.Logs.MaxFiles = 100, 2
	require.NoError(t, w.s.Start(w.context(), spec))
	w.wait(spec.ID)
	entries, err := os.ReadDir(filepath.Dir(spec.Logs.StdoutPath))
	require.NoError(t, err)
	require.Len(t, entries, 3, "two of standard output, one of standard error")
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(100))
	}
	require.Contains(t, w.said(spec.Logs.StdoutPath), "line 298\nline 299\n")
}

func noLogs(t *testing.T, w *world) {
	spec := w.spec("print", "a", "b")
	dir := filepath.Dir(spec.Logs.StdoutPath)
	spec.Logs = workload.Logs{Disabled: true}
	require.NoError(t, w.s.Start(w.context(), spec))
	require.True(t, w.wait(spec.ID).Successful())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func arguments(t *testing.T, w *world) {
	spec := w.spec("describe", "two words", "", "ünïcode")
	spec.Env = map[string]string{"B": "2", "A": "1=1", "EMPTY": ""}
	require.NoError(t, w.s.Start(w.context(), spec))
	require.True(t, w.wait(spec.ID).Successful())
	require.Equal(t, `args ["guest" "describe" "two words" "" "ünïcode"]`+"\nenv A=1=1 B=2 EMPTY=\n", w.said(spec.Logs.StdoutPath))
}

func stdin(t *testing.T, w *world) {
	spec := w.start("stdin")
	require.True(t, w.wait(spec.ID).Successful())
	require.Equal(t, "0 bytes, <nil>\n", w.said(spec.Logs.StdoutPath))
}

func clocks(t *testing.T, w *world) {
	spec := w.start("clock")
	require.True(t, w.wait(spec.ID).Successful())
	require.Equal(t, fmt.Sprintf("%d true\n", time.Now().Year()), w.said(spec.Logs.StdoutPath))
}

func mounts(t *testing.T, w *world) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in"), []byte("content"), 0o644))
	mounted := func(readOnly bool, args ...string) (*structs.ExitResult, *workload.Spec) {
		spec := w.spec(args...)
		w.mount(spec, []workload.Mount{{GuestPath: "/data", HostPath: dir, ReadOnly: readOnly}})
		require.NoError(t, w.s.Start(w.context(), spec))
		return w.wait(spec.ID), spec
	}
	result, spec := mounted(true, "cat", "/data/in")
	require.True(t, result.Successful())
	require.Equal(t, "content", w.said(spec.Logs.StdoutPath))

	result, _ = mounted(false, "write", "/data/out", "written")
	require.True(t, result.Successful())
	b, err := os.ReadFile(filepath.Join(dir, "out"))
	require.NoError(t, err)
	require.Equal(t, "written", string(b))

	result, spec = mounted(true, "write", "/data/out", "overwritten")
	require.Equal(t, 3, result.ExitCode)
	require.NotEmpty(t, w.said(spec.Logs.StderrPath))
	result, _ = mounted(false, "cat", "/data/../etc/passwd")
	require.Equal(t, 3, result.ExitCode)

	for _, within := range []string{"", dir} {
		spec = w.spec("cat", "/etc/app.conf")
		w.mount(spec, []workload.Mount{
			{GuestPath: "/etc/app.conf", HostPath: filepath.Join(dir, "in"), Within: within, ReadOnly: true},
			{GuestPath: "/etc/other.conf", HostPath: filepath.Join(dir, "out"), Within: within},
			{GuestPath: "/data", HostPath: dir, Within: within},
		})
		require.NoError(t, w.s.Start(w.context(), spec))
		require.True(t, w.wait(spec.ID).Successful(), w.said(spec.Logs.StderrPath))
		require.Equal(t, "content", w.said(spec.Logs.StdoutPath), "a single file")
	}
}

func badMounts(t *testing.T, w *world) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/", filepath.Join(dir, "link")))
	file, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "fifo")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.NoError(t, syscall.Mkfifo(fifo, 0o644))
	for name, tc := range map[string]struct {
		mounts []workload.Mount
		code   abi.Code
		fileIn bool
	}{
		"missing":                 {[]workload.Mount{{GuestPath: "/a", HostPath: filepath.Join(dir, "missing")}}, abi.NotFound, false},
		"a FIFO":                  {[]workload.Mount{{GuestPath: "/a", HostPath: fifo}}, abi.InvalidArgument, false},
		"a file as root":          {[]workload.Mount{{GuestPath: "/", HostPath: file}}, abi.InvalidArgument, false},
		"a file twice":            {[]workload.Mount{{GuestPath: "/a/b", HostPath: file}, {GuestPath: "/a/b", HostPath: file}}, abi.InvalidArgument, false},
		"a file in a directory":   {[]workload.Mount{{GuestPath: "/a", HostPath: dir}, {GuestPath: "/a/b", HostPath: file}}, abi.InvalidArgument, true},
		"a directory over a file": {[]workload.Mount{{GuestPath: "/a/b", HostPath: file}, {GuestPath: "/a", HostPath: dir}}, abi.InvalidArgument, true},
		"relative":                {[]workload.Mount{{GuestPath: "a", HostPath: dir}}, abi.InvalidArgument, false},
		"twice":                   {[]workload.Mount{{GuestPath: "/a", HostPath: dir}, {GuestPath: "/a/", HostPath: dir}}, abi.InvalidArgument, false},
		"led away":                {[]workload.Mount{{GuestPath: "/a", HostPath: filepath.Join(dir, "link"), Within: dir}}, abi.PermissionDenied, false},
		"beside":                  {[]workload.Mount{{GuestPath: "/a", HostPath: dir, Within: filepath.Join(dir, "sub")}}, abi.NotFound, false},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.fileIn && w.f.FilesAnywhere {
				t.Skip("that is possible here")
			}
			spec := w.spec("exit", "0")
			w.mount(spec, tc.mounts)
			require.Equal(t, tc.code, abi.CodeOf(w.s.Start(w.context(), spec)))
			_, err := w.s.Inspect(w.context(), spec.ID)
			require.ErrorIs(t, err, abi.ErrTaskNotFound)
		})
	}
}

func signals(t *testing.T, w *world) {
	for name, number := range map[string]int{"SIGTERM": 15, "SIGINT": 2, "SIGKILL": 9, "SIGQUIT": 3, "TERM": 15, "sigkill": 9} {
		for _, verb := range []string{"spin", "sleep"} {
			spec := w.start(verb)
			w.ready(spec)
			began := time.Now()
			require.NoError(t, w.s.Signal(w.context(), spec.ID, name))
			require.Equal(t, &structs.ExitResult{ExitCode: 128 + number, Signal: number}, w.wait(spec.ID), "%s while it does %s", name, verb)
			require.Less(t, time.Since(began), killWithin)
		}
	}
}

func badSignals(t *testing.T, w *world) {
	spec := w.start("sleep")
	w.ready(spec)
	for _, name := range []string{"", "SIGNONE", "9", "SIG", "HUPPLA"} {
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(w.s.Signal(w.context(), spec.ID, name)), name)
	}
	if w.f.Undeliverable != "" {
		require.Equal(t, abi.Unimplemented, abi.CodeOf(w.s.Signal(w.context(), spec.ID, w.f.Undeliverable)))
	}
	require.Equal(t, abi.InvalidArgument, abi.CodeOf(w.s.Stop(w.context(), spec.ID, "SIGNONE", 0)))
	status, err := w.s.Inspect(w.context(), spec.ID)
	require.NoError(t, err)
	require.Equal(t, workload.Running, status.State, "none of these did anything")
	require.NoError(t, w.s.Signal(w.context(), spec.ID, "SIGTERM"))
	w.wait(spec.ID)
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(w.s.Signal(w.context(), spec.ID, "SIGTERM")), "it has ended")
}

func stopping(t *testing.T, w *world) {
	for _, signal := range []string{"", "SIGINT", "SIGTERM", w.f.Undeliverable} {
		spec := w.start("spin")
		w.ready(spec)
		began := time.Now()
		require.NoError(t, w.s.Stop(w.context(), spec.ID, signal, 50*time.Millisecond))
		require.Less(t, time.Since(began), killWithin)
		require.NotZero(t, w.wait(spec.ID).Signal, signal)
		require.NoError(t, w.s.Stop(w.context(), spec.ID, signal, 0), "an ended one is not an error")
	}
}

func memory(t *testing.T, w *world) {
	spec := w.start("grow")
	result := w.wait(spec.ID)
	require.False(t, result.Successful())
	stats, err := w.s.Stats(w.context(), spec.ID)
	require.NoError(t, err)
	require.NotNil(t, stats.MemoryMaxBytes)
	require.LessOrEqual(t, *stats.MemoryMaxBytes, w.f.MemoryMaxBytes)
	require.Greater(t, *stats.MemoryMaxBytes, w.f.MemoryMaxBytes/4, "it had what it may have")

	spec = w.spec("exit", "0")
	spec.MemoryMaxBytes = 0
	require.Error(t, w.s.Start(w.context(), spec), "no memory is not unlimited memory")
}

func watching(t *testing.T, w *world) {
	before := time.Now()
	spec := w.spec("sleep")
	spec.Owner = "somebody"
	require.NoError(t, w.s.Start(w.context(), spec))
	w.ready(spec)
	status, err := w.s.Inspect(w.context(), spec.ID)
	require.NoError(t, err)
	require.Equal(t, spec.ID, status.ID)
	require.Equal(t, "somebody", status.Owner)
	require.Equal(t, workload.Running, status.State)
	require.WithinRange(t, status.StartedAt, before, time.Now())
	require.Zero(t, status.ExitedAt)
	require.Nil(t, status.Exit)
	stats, err := w.s.Stats(w.context(), spec.ID)
	require.NoError(t, err)
	require.WithinRange(t, stats.Time, before, time.Now())
	require.NotNil(t, stats.MemoryBytes)
	require.NotZero(t, *stats.MemoryBytes)

	other := w.start("exit", "4")
	w.wait(other.ID)
	list, err := w.s.List(w.context())
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, []string{spec.ID, other.ID}, []string{list[0].ID, list[1].ID})
	require.Equal(t, []string{"somebody", ""}, []string{list[0].Owner, list[1].Owner})
	require.Equal(t, workload.Exited, list[1].State)
	require.Equal(t, 4, list[1].Exit.ExitCode)
	require.WithinRange(t, list[1].ExitedAt, list[1].StartedAt, time.Now())
}

func waiting(t *testing.T, w *world) {
	spec := w.start("sleep")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.s.Wait(ctx, spec.ID)
	require.ErrorIs(t, err, context.Canceled)
	status, err := w.s.Inspect(w.context(), spec.ID)
	require.NoError(t, err)
	require.Equal(t, workload.Running, status.State, "only the wait ended")

	require.Error(t, w.s.Start(ctx, w.spec("exit", "0")), "a start with a context that has ended")
}

func identity(t *testing.T, w *world) {
	spec := w.start("sleep")
	require.Equal(t, abi.AlreadyExists, abi.CodeOf(w.s.Start(w.context(), spec)))
	require.NoError(t, w.s.Signal(w.context(), spec.ID, "SIGKILL"))
	w.wait(spec.ID)
	require.Equal(t, abi.AlreadyExists, abi.CodeOf(w.s.Start(w.context(), spec)), "an ended one has its ID until it is destroyed")
	require.NoError(t, w.s.Destroy(w.context(), spec.ID))
	require.NoError(t, w.s.Start(w.context(), spec))
}

func unknown(t *testing.T, w *world) {
	ctx := w.context()
	_, err := w.s.Wait(ctx, "nobody")
	require.ErrorIs(t, err, abi.ErrTaskNotFound)
	_, err = w.s.Stats(ctx, "nobody")
	require.ErrorIs(t, err, abi.ErrTaskNotFound)
	_, err = w.s.Inspect(ctx, "nobody")
	require.ErrorIs(t, err, abi.ErrTaskNotFound)
	require.ErrorIs(t, w.s.Stop(ctx, "nobody", "SIGINT", 0), abi.ErrTaskNotFound)
	require.ErrorIs(t, w.s.Signal(ctx, "nobody", "SIGINT"), abi.ErrTaskNotFound)
	require.NoError(t, w.s.Destroy(ctx, "nobody"))
	list, err := w.s.List(ctx)
	require.NoError(t, err)
	require.Empty(t, list)
}

func destroying(t *testing.T, w *world) {
	spec := w.start("spin")
	w.ready(spec)
	for range 2 {
		require.NoError(t, w.s.Destroy(w.context(), spec.ID))
	}
	_, err := w.s.Inspect(w.context(), spec.ID)
	require.ErrorIs(t, err, abi.ErrTaskNotFound)

	spec = w.start("spin")
	waited := make(chan error, 1)
	go func() {
		_, err := w.s.Wait(context.Background(), spec.ID)
		waited <- err
	}()
	require.NoError(t, w.s.Destroy(w.context(), spec.ID))
	err = <-waited
	require.True(t, err == nil || abi.CodeOf(err) == abi.NotFound, "the wait returns: %v", err)
}

func failedStart(t *testing.T, w *world) {
	spec := w.spec("exit", "0")
	good := spec.Logs
	spec.Logs.StderrPath = filepath.Join(t.TempDir(), "missing", "log")
	err := w.s.Start(w.context(), spec)
	require.Error(t, err)
	require.True(t, abi.IsRecoverable(err), "a directory can appear")
	list, err := w.s.List(w.context())
	require.NoError(t, err)
	require.Empty(t, list)
	spec.Logs = good
	require.NoError(t, w.s.Start(w.context(), spec), "the ID is free")
}

// hammer has many callers use a few workloads in every way at once. What each call
// answers depends on the others; that none hangs, races or answers something else is
// the test.
func hammer(t *testing.T, w *world) {
	const workers, rounds = 8, 12
	specs := make([]*workload.Spec, 3)
	for i := range specs {
		specs[i] = w.spec([]string{"spin", "sleep", "exit"}[i], "0")
	}
	allowed := map[abi.Code]bool{0: true, abi.NotFound: true, abi.AlreadyExists: true, abi.FailedPrecondition: true, abi.Cancelled: true}
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			ctx := w.context()
			for round := range rounds {
				spec := specs[(worker+round)%len(specs)]
				short, cancel := context.WithTimeout(ctx, time.Millisecond)
				_, waitErr := w.s.Wait(short, spec.ID)
				cancel()
				if waitErr != nil && !errors.Is(waitErr, context.DeadlineExceeded) && abi.CodeOf(waitErr) != abi.NotFound {
					t.Errorf("wait: %v", waitErr)
				}
				_, statsErr := w.s.Stats(ctx, spec.ID)
				_, inspectErr := w.s.Inspect(ctx, spec.ID)
				_, listErr := w.s.List(ctx)
				for name, err := range map[string]error{
					"start": w.s.Start(ctx, spec), "stats": statsErr, "inspect": inspectErr, "list": listErr,
					"signal": w.s.Signal(ctx, spec.ID, "SIGTERM"), "stop": w.s.Stop(ctx, spec.ID, "SIGINT", 0), "destroy": w.s.Destroy(ctx, spec.ID),
				} {
					if !allowed[abi.CodeOf(err)] {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, spec := range specs {
		require.NoError(t, w.s.Destroy(w.context(), spec.ID))
	}
	list, err := w.s.List(w.context())
	require.NoError(t, err)
	require.Empty(t, list)
}
