package driver_test

import (
	"context"
	"errors"
	"math"
	"os"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
)

// exampleT lets the example stand for a test.
type exampleT struct{ testing.TB }

func (*exampleT) Helper()               {}
func (*exampleT) TempDir() string       { return os.TempDir() }
func (*exampleT) Fatalf(string, ...any) { panic("failed") }

var operations = []string{
	abi.OpDriverDescribe, abi.OpDriverConfigure, abi.OpDriverFingerprint, abi.OpDriverStartTask,
	abi.OpDriverRecoverTask, abi.OpDriverWaitTask, abi.OpDriverStopTask, abi.OpDriverSignalTask,
	abi.OpDriverDestroyTask, abi.OpDriverInspectTask, abi.OpDriverTaskStats, abi.OpDriverExecTask,
	abi.OpDriverCreateNetwork, abi.OpDriverDestroyNetwork,
}

// minimal has only what is required, and answers what its fields say.
type minimal struct {
	handle *driver.TaskHandle
	err    error
}

func (m *minimal) Describe() *driver.Description                            { return &driver.Description{Name: "minimal"} }
func (m *minimal) Configure(context.Context, []byte) error                  { return m.err }
func (m *minimal) Fingerprint(context.Context) (*driver.Fingerprint, error) { return nil, m.err }
func (m *minimal) StartTask(_ context.Context, t *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	_, _ = t.Directories.Task, t.Resources.Cores
	return m.handle, nil, m.err
}

// full has everything, dereferences all that it gets, and echoes it.
type full struct{ minimal }

func (full) RecoverTask(_ context.Context, t *driver.TaskConfig, h *driver.TaskHandle) (*driver.TaskHandle, error) {
	_ = t.Directories.Local
	return h, nil
}
func (full) WaitTask(_ context.Context, id string, h *driver.TaskHandle) (*driver.ExitResult, time.Duration, error) {
	return &driver.ExitResult{Error: id, ExitCode: int32(h.Version)}, time.Duration(h.Version) * time.Microsecond, nil
}
func (full) StopTask(_ context.Context, _ string, h *driver.TaskHandle, signal string, timeout time.Duration) (*driver.TaskHandle, error) {
	return &driver.TaskHandle{Version: h.Version, DriverState: []byte(signal + timeout.String())}, nil
}
func (full) SignalTask(_ context.Context, _ string, h *driver.TaskHandle, _ string) (*driver.TaskHandle, error) {
	return h, nil
}
func (full) DestroyTask(_ context.Context, _ string, h *driver.TaskHandle, _ bool) error {
	_ = h.Version
	return nil
}
func (full) InspectTask(_ context.Context, _ string, h *driver.TaskHandle) (*driver.TaskStatus, error) {
	return &driver.TaskStatus{StartedAtNs: int64(h.Version)}, nil
}
func (full) TaskStats(_ context.Context, _ string, h *driver.TaskHandle) (*driver.TaskStats, error) {
	return &driver.TaskStats{TimeNs: int64(h.Version)}, nil
}
func (full) ExecTask(_ context.Context, _ string, h *driver.TaskHandle, command []string, _ time.Duration) (*driver.ExecResult, error) {
	return &driver.ExecResult{Stdout: h.DriverState, Stderr: []byte(command[0])}, nil
}
func (full) CreateNetwork(_ context.Context, allocID, hostname string) (string, error) {
	return "/" + allocID + "/" + hostname, nil
}
func (full) DestroyNetwork(context.Context, string) error { return nil }

var (
	_ driver.NetworkCreator = full{}
	_ driver.TaskRecoverer  = full{}
	_ driver.TaskWaiter     = full{}
	_ driver.TaskStopper    = full{}
	_ driver.TaskSignaler   = full{}
	_ driver.TaskDestroyer  = full{}
	_ driver.TaskInspector  = full{}
	_ driver.TaskStatser    = full{}
	_ driver.TaskExecer     = full{}
)

func TestOptionalOperationsThatAreNotThereAreUnimplemented(t *testing.T) {
	for _, operation := range append(operations[4:], "driver_dance", "") {
		_, err := driver.Handle(context.Background(), &minimal{}, operation, nil)
		expect.Code(t, err, abi.Unimplemented, operation)
	}
}

func TestARequestThatCannotBeReadIsAnInvalidArgument(t *testing.T) {
	for _, operation := range operations {
		_, err := driver.Handle(context.Background(), &full{}, operation, []byte{0x0a, 0xff})
		expect.Code(t, err, abi.InvalidArgument, operation)
	}
	for _, operation := range operations[3:] {
		_, err := driver.Handle(context.Background(), &full{}, operation, nil)
		expect.Code(t, err, abi.InvalidArgument, operation, "without task or handle")
	}
}

func TestADriverThatAnswersNothingIsAnInternalError(t *testing.T) {
	start, err := (&wasmnodev1.DriverStartTaskRequest{Task: &driver.TaskConfig{}}).MarshalVT()
	expect.NoError(t, err)
	_, err = driver.Handle(context.Background(), &minimal{}, abi.OpDriverStartTask, start)
	expect.Code(t, err, abi.Internal)
	_, err = driver.Handle(context.Background(), &minimal{}, abi.OpDriverFingerprint, nil)
	expect.Code(t, err, abi.Internal)
}

func TestErrorsKeepTheirCodeAndPlainOnesAreUnknown(t *testing.T) {
	for _, c := range []struct {
		err         error
		code        abi.Code
		recoverable bool
	}{
		{abi.NewError(abi.NotFound, "no image"), abi.NotFound, false},
		{abi.NewRecoverableError(abi.Unavailable, "later"), abi.Unavailable, true},
		{errors.New("plain"), abi.Unknown, false},
	} {
		_, err := driver.Handle(context.Background(), &minimal{err: c.err}, abi.OpDriverConfigure, nil)
		message := abi.Proto(err)
		expect.Equal(t, message.Code, c.code)
		expect.Equal(t, message.Message, c.err.Error())
		expect.Equal(t, message.Recoverable, c.recoverable)
	}
}

func TestAHandleWithoutAVersionGetsTheFirst(t *testing.T) {
	start, err := (&wasmnodev1.DriverStartTaskRequest{Task: &driver.TaskConfig{}}).MarshalVT()
	expect.NoError(t, err)
	for given, want := range map[uint32]uint32{0: 1, 1: 1, 7: 7} {
		answer, err := driver.Handle(context.Background(), &minimal{handle: &driver.TaskHandle{Version: given}}, abi.OpDriverStartTask, start)
		expect.NoError(t, err)
		var r wasmnodev1.DriverStartTaskResponse
		expect.NoError(t, r.UnmarshalVT(answer))
		expect.Equal(t, r.Handle.Version, want)
	}
}

func TestTimesAreNeverCutShortNorOverflow(t *testing.T) {
	wait := func(version uint32) uint32 { // full waits version microseconds
		request, err := (&wasmnodev1.DriverWaitTaskRequest{Handle: &driver.TaskHandle{Version: version}}).MarshalVT()
		expect.NoError(t, err)
		answer, err := driver.Handle(context.Background(), &full{}, abi.OpDriverWaitTask, request)
		expect.NoError(t, err)
		var r wasmnodev1.DriverWaitTaskResponse
		expect.NoError(t, r.UnmarshalVT(answer))
		return r.PollAfterMs
	}
	for us, ms := range map[uint32]uint32{0: 0, 1: 1, 1000: 1, 1001: 2, math.MaxUint32: 4294968} {
		expect.Equal(t, wait(us), ms)
	}
	request, err := (&wasmnodev1.DriverStopTaskRequest{Handle: &driver.TaskHandle{}, Signal: "SIGINT ", TimeoutMs: math.MaxUint64}).MarshalVT()
	expect.NoError(t, err)
	answer, err := driver.Handle(context.Background(), &full{}, abi.OpDriverStopTask, request)
	expect.NoError(t, err)
	var r wasmnodev1.DriverStopTaskResponse
	expect.NoError(t, r.UnmarshalVT(answer))
	expect.Equal(t, string(r.Handle.DriverState), "SIGINT 2562047h47m16.854s")
}

func TestANetworkIsCreatedForAnAllocation(t *testing.T) {
	request, err := (&wasmnodev1.DriverCreateNetworkRequest{AllocId: "a", Hostname: "h"}).MarshalVT()
	expect.NoError(t, err)
	answer, err := driver.Handle(context.Background(), &full{}, abi.OpDriverCreateNetwork, request)
	expect.NoError(t, err)
	var r wasmnodev1.DriverCreateNetworkResponse
	expect.NoError(t, r.UnmarshalVT(answer))
	expect.Equal(t, r.Namespace, "/a/h")
	_, err = driver.Handle(context.Background(), &full{}, abi.OpDriverDestroyNetwork, request)
	expect.NoError(t, err)
}

func FuzzHandleNeverPanics(f *testing.F) {
	task := &driver.TaskConfig{Id: "id", Env: map[string]string{"A": "b"}, Resources: &wasmnodev1.Resources{Cores: []uint32{1, 2}}}
	handle := &driver.TaskHandle{Version: 1, DriverState: []byte("state"), WorkloadId: "id"}
	start, _ := (&wasmnodev1.DriverStartTaskRequest{Task: task}).MarshalVT()
	restored, _ := (&wasmnodev1.DriverRecoverTaskRequest{Task: task, Handle: handle}).MarshalVT()
	wait, _ := (&wasmnodev1.DriverWaitTaskRequest{TaskId: "id", Handle: handle}).MarshalVT()
	exec, _ := (&wasmnodev1.DriverExecTaskRequest{TaskId: "id", Handle: handle, Command: []string{"ls"}, TimeoutMs: 5}).MarshalVT()
	for i, seed := range [][]byte{nil, nil, nil, start, restored, wait, wait, wait, wait, wait, wait, exec} {
		f.Add(uint8(i), seed)
	}
	f.Fuzz(func(t *testing.T, n uint8, request []byte) {
		operation := operations[int(n)%len(operations)]
		d := &full{minimal{handle: &driver.TaskHandle{}}}
		answer, err := driver.Handle(context.Background(), guarded{d}, operation, request)
		if err != nil {
			expect.True(t, abi.CodeOf(err) != 0)
			expect.True(t, answer == nil)
		}
	})
}

// guarded keeps full's ExecTask, which needs a command, from its own panic.
type guarded struct{ *full }

func (g guarded) ExecTask(ctx context.Context, id string, h *driver.TaskHandle, command []string, timeout time.Duration) (*driver.ExecResult, error) {
	return g.full.ExecTask(ctx, id, h, append(command, ""), timeout)
}
