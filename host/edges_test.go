package host

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host/outbound"
	"github.com/wasmnode/wasmnode/workload"
)

func filled[T any](n int, of func() T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = of()
	}
	return all
}

// TestWhatIsAskedForIsBoundedAtItsEdge: the bounds of abi/ABI.md permit as much as they say, and
// refuse one more.
func TestWhatIsAskedForIsBoundedAtItsEdge(t *testing.T) {
	helper := func(change func(r *wasmnodev1.ProcessRunRequest, n int)) func(int) error {
		return func(n int) error {
			r := &wasmnodev1.ProcessRunRequest{Command: "/bin/true"}
			change(r, n)
			return checkHelper(r)
		}
	}
	command := func(change func(r *wasmnodev1.WorkloadExecRequest, n int)) func(int) error {
		return func(n int) error {
			r := &wasmnodev1.WorkloadExecRequest{Command: "/bin/true"}
			change(r, n)
			return checkCommand(r)
		}
	}
	names := func(n int) []string { return slices.Repeat(linuxCapabilities, 2)[:n] }
	capabilities := func(change func(r *wasmnodev1.ProcessStartRequest, n int)) func(int) error {
		return func(n int) error {
			r := &wasmnodev1.ProcessStartRequest{}
			change(r, n)
			return setCapabilities(&workload.Process{Isolated: &workload.Isolated{}}, r, "test", ProcessGrant{Capabilities: linuxCapabilities})
		}
	}
	headers := func(n, bytes int) error {
		line := func() *wasmnodev1.HttpHeader { return &wasmnodev1.HttpHeader{Name: "X"} }
		m := &wasmnodev1.HttpRequest{Method: "GET", Url: "http://localhost/", Headers: filled(n, line)}
		m.Headers[0].Value = strings.Repeat("x", bytes)
		_, err := outbound.NewRequest(m)
		return err
	}
	task := &wasmnodev1.TaskConfig{
		Directories: &wasmnodev1.TaskDirectories{Task: t.TempDir()}, Ports: []*wasmnodev1.Port{{Label: "http", HostIp: "127.0.0.1", HostPort: 1}},
	}
	for name, c := range map[string]struct {
		most int
		ask  func(n int) error
	}{
		"arguments of a helper":  {256, helper(func(r *wasmnodev1.ProcessRunRequest, n int) { r.Args = make([]string, n) })},
		"a helper's time":        {300_000, helper(func(r *wasmnodev1.ProcessRunRequest, n int) { r.TimeoutMs = int64(n) })},
		"a helper's memory":      {2 << 30, helper(func(r *wasmnodev1.ProcessRunRequest, n int) { r.MemoryMaxBytes = uint64(n) })},
		"memory below the least": {-4 << 20, helper(func(r *wasmnodev1.ProcessRunRequest, n int) { r.MemoryMaxBytes = uint64(-n) })},
		"a helper's output":      {1 << 20, helper(func(r *wasmnodev1.ProcessRunRequest, n int) { r.OutputMaxBytes = uint64(n) })},
		"limits of a process": {16, func(n int) error {
			_, err := boundsOf(&wasmnodev1.ProcessStartRequest{Limits: make([]*wasmnodev1.ProcessLimit, n)})
			return err
		}},
		"added capabilities":   {41, capabilities(func(r *wasmnodev1.ProcessStartRequest, n int) { r.AddCapabilities = names(n) })},
		"dropped capabilities": {41, capabilities(func(r *wasmnodev1.ProcessStartRequest, n int) { r.DropCapabilities = names(n) })},
		"paths": {128, func(n int) error {
			path := func() *wasmnodev1.ProcessPath { return &wasmnodev1.ProcessPath{Path: "/usr", Rights: "r"} }
			_, err := describeRestricted(&wasmnodev1.ProcessStartRequest{Command: "/bin/true", Paths: filled(n, path)}, task.Directories)
			return err
		}},
		"listeners": {16, func(n int) error {
			_, err := listeners(task, filled(n, func() string { return "http" }))
			return err
		}},
		"arguments of a command": {256, command(func(r *wasmnodev1.WorkloadExecRequest, n int) { r.Args = make([]string, n) })},
		"a command's time":       {300_000, command(func(r *wasmnodev1.WorkloadExecRequest, n int) { r.TimeoutMs = int64(n) })},
		"a command's output":     {1 << 20, command(func(r *wasmnodev1.WorkloadExecRequest, n int) { r.OutputMaxBytes = uint64(n) })},
		"a workload's name": {32, func(n int) error {
			_, err := namedID("task", strings.Repeat("x", n))
			return err
		}},
		"the time of a stop": {86_400_000, func(n int) error {
			_, err := workloadStop(t.Context(), &call{plugin: &Plugin{host: &Host{cfg: Config{Workloads: ends{}}}}}, "task", &wasmnodev1.WorkloadStopRequest{TimeoutMs: int64(n)})
			return err
		}},
		"headers of a request": {256, func(n int) error { return headers(n, 0) }},
		"bytes of headers":     {64<<10 - len("X: \r\n"), func(n int) error { return headers(1, n) }},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.ask(c.most))
			require.Equal(t, abi.InvalidArgument, abi.CodeOf(c.ask(c.most+1)))
		})
	}
}

// ends has workloads that end at once.
type ends struct{ workload.Runtime }

func (ends) Stop(context.Context, string, string, time.Duration) error { return nil }

func TestACallStarts32WorkloadsAtMost(t *testing.T) {
	c := &call{}
	for range 32 {
		require.NoError(t, c.countStart())
	}
	require.Equal(t, abi.ResourceExhausted, abi.CodeOf(c.countStart()))
}

func TestAProgramIsAsLargeAsItMayBe(t *testing.T) {
	dir := t.TempDir()
	files := programFiles{task: dir, cache: &programCache{}}
	for size, code := range map[int64]abi.Code{64 << 20: 0, 64<<20 + 1: abi.ResourceExhausted} {
		path := filepath.Join(dir, "app.wasm")
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Truncate(path, size))
		source, err := files.readModule(t.Context(), "app.wasm")
		if code == 0 {
			require.NoError(t, err)
			require.EqualValues(t, size, source.Size())
			continue
		}
		require.Equal(t, code, abi.CodeOf(err))
	}
}

func TestADriversNameHas64BytesAtMost(t *testing.T) {
	require.True(t, abi.ValidName(strings.Repeat("a", 64)))
	require.False(t, abi.ValidName(strings.Repeat("a", 65)))
}
