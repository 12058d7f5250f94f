package host_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/structs"
)

// growing is a WASI command whose memory becomes so many pages of 64 KiB larger, or that traps; it
// returns, or runs for ever.
func growing(pages int32, forever bool) []byte {
	memoryGrow, equal, orTrap := []byte{0x40, 0}, []byte{0x46}, []byte{0x04, 0x40, 0x00, 0x0b}
	body := modtest.Code(modtest.I32Const(pages), memoryGrow, modtest.I32Const(-1), equal, orTrap)
	if forever {
		body = modtest.Code(body, modtest.Loop())
	}
	return (&modtest.Module{Pages: 1, Funcs: []modtest.Func{{Export: "_start", Body: body}}}).Bytes()
}

// besideTask is a task of 64 MiB with a WASI program and an isolated process beside it.
type besideTask struct {
	*world
	t     *testing.T
	scope *host.TaskScope
}

func newBesideTask(t *testing.T) *besideTask {
	scope := isolatedScope(t)
	scope.Config.Resources = &wasmnodev1.Resources{MemoryBytes: 64 << 20}
	return &besideTask{newWorld(t, host.Limits{}), t, scope}
}

// sidecar starts a script beside the program.
func (b *besideTask) sidecar(script string) []byte {
	b.t.Helper()
	r := isolatedShell(b.t, script)
	r.Name = "side"
	return startProcess(b.t, b.world, b.scope, anyAsNobody, r)
}

// holding starts one that has taken 40 MB of memory.
func (b *besideTask) holding() {
	b.t.Helper()
	code, message := decodeAnswer(b.t, b.sidecar(`head -c 40000000 /dev/zero >/dev/shm/x; echo ready; exec sleep 1000`))
	require.Zero(b.t, code, string(message))
	require.Eventually(b.t, func() bool {
		out, err := os.ReadFile(b.scope.Config.StdoutPath + ".side.0")
		return err == nil && strings.Contains(string(out), "ready")
	}, time.Minute, time.Millisecond)
}

// program starts the task's own workload.
func (b *besideTask) program(wasm []byte) []byte {
	b.t.Helper()
	put(b.t, b.scope.Config.Directories.Task, "local/app.wasm", wasm)
	return started(b.t, b.world, b.scope, host.WasmGrant{}, &wasmnodev1.WasmStartRequest{Module: "local/app.wasm"})
}

func (b *besideTask) wait(id string) *structs.ExitResult {
	b.t.Helper()
	exit, err := b.workloads.Wait(b.t.Context(), id)
	require.NoError(b.t, err)
	return exit
}

func TestAProgramHasWhatTheProcessesBesideItLeave(t *testing.T) {
	for name, c := range map[string]struct {
		pages int32
		oom   bool
	}{"little": {64, false}, "too much": {640, true}} {
		t.Run(name, func(t *testing.T) {
			b := newBesideTask(t)
			b.holding()
			code, message := decodeAnswer(t, b.program(growing(c.pages, false)))
			require.Zero(t, code, string(message))
			exit := b.wait(b.scope.Config.Id)
			require.Equal(t, c.oom, exit.OOMKilled, exit.Err)
			if c.oom {
				require.Equal(t, "out of memory: the limit is 67108864 bytes, of which the processes beside it use too much", exit.Err)
			}
			status, err := b.workloads.Inspect(t.Context(), b.scope.Config.Id+"/side")
			require.NoError(t, err)
			require.Nil(t, status.Exit, "what they use is not taken away from them")
		})
	}
}

func TestAProgramThatBeginsWithMoreThanIsLeftCanBeStartedLater(t *testing.T) {
	b := newBesideTask(t)
	b.holding()
	large := (&modtest.Module{Pages: 640, Funcs: []modtest.Func{{Export: "_start"}}}).Bytes()
	refused := answeredError(t, b.program(large))
	require.Equal(t, abi.ResourceExhausted, refused.Code, refused.Message)
	require.True(t, refused.Recoverable)
	require.Contains(t, refused.Message, "the processes beside the program leave it too little of the task's memory")
	require.NoError(t, b.workloads.Destroy(t.Context(), b.scope.Config.Id+"/side"))
	code, message := decodeAnswer(t, b.program(large))
	require.Zero(t, code, string(message))
	require.Zero(t, b.wait(b.scope.Config.Id).ExitCode)
}

func TestTheProcessesBesideAProgramHaveWhatItLeaves(t *testing.T) {
	for name, first := range map[string]bool{"that has it already": true, "that takes it later": false} {
		t.Run(name, func(t *testing.T) {
			b := newBesideTask(t)
			hog := `while ! test -e /local/go; do sleep 0.01; done; exec tail /dev/zero`
			start := []func() []byte{func() []byte { return b.program(growing(640, true)) }, func() []byte { return b.sidecar(hog) }}
			if !first {
				start[0], start[1] = start[1], start[0]
			}
			for _, f := range start {
				code, message := decodeAnswer(t, f())
				require.Zero(t, code, string(message))
			}
			require.Eventually(t, func() bool {
				stats, err := b.workloads.Stats(t.Context(), b.scope.Config.Id)
				return err == nil && *stats.MemoryBytes == 641<<16
			}, time.Minute, time.Millisecond)
			put(t, b.scope.Config.Directories.Local, "go", nil)
			exit := b.wait(b.scope.Config.Id + "/side")
			require.True(t, exit.OOMKilled)
			stats, err := b.workloads.Stats(t.Context(), b.scope.Config.Id+"/side")
			require.NoError(t, err)
			if stats.MemoryMaxBytes != nil { // older kernels do not tell it
				require.LessOrEqual(t, *stats.MemoryMaxBytes, uint64(64<<20-641<<16), "together they have the task's memory once")
			}
		})
	}
}

func TestNoIsolatedProcessStartsBesideAProgramThatHasAllOfTheMemory(t *testing.T) {
	b := newBesideTask(t)
	code, message := decodeAnswer(t, b.program((&modtest.Module{Pages: 1000, Funcs: []modtest.Func{{Export: "_start", Body: modtest.Loop()}}}).Bytes()))
	require.Zero(t, code, string(message))
	refused := answeredError(t, b.sidecar("exit 0"))
	require.Equal(t, abi.ResourceExhausted, refused.Code, refused.Message)
	require.Contains(t, refused.Message, "the task's program has 65536000 of its 67108864 bytes of memory: an isolated process needs 4194304 at least")
}

func TestAProgramHasTheWholeMemoryWhenNoProcessIsBesideIt(t *testing.T) {
	b := newBesideTask(t)
	code, message := decodeAnswer(t, b.sidecar("head -c 40000000 /dev/zero >/tmp/x; cat /tmp/x /tmp/x >/dev/null; exit 3"))
	require.Zero(t, code, string(message))
	require.Equal(t, 3, b.wait(b.scope.Config.Id+"/side").ExitCode)
	code, message = decodeAnswer(t, b.program(growing(1023, false)))
	require.Zero(t, code, string(message))
	exit := b.wait(b.scope.Config.Id)
	require.Zero(t, exit.ExitCode, exit.Err)
}
