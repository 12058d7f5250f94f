package task_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

// deviceRecorder reserves whatever it is asked for, and writes down who asked.
type deviceRecorder struct {
	mu      sync.Mutex
	log     []string
	refuse  map[string]error // by group's name
	release error
}

func (d *deviceRecorder) say(format string, args ...any) {
	d.log = append(d.log, fmt.Sprintf(format, args...))
}

func (d *deviceRecorder) Reserve(_ context.Context, a structs.AllocatedDevice, u structs.DeviceUser) (*structs.DeviceReservation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.say("reserve %s %s for %s/%s of %s", a.Name, strings.Join(a.DeviceIDs, ","), u.AllocID, u.Task, u.JobID)
	if err := d.refuse[a.Name]; err != nil {
		return nil, err
	}
	return &structs.DeviceReservation{
		Env:    map[string]string{strings.ToUpper(a.Name): strings.Join(a.DeviceIDs, ",")},
		Mounts: []structs.Mount{{TaskPath: "/" + a.Name, HostPath: "/srv/" + a.Name, ReadOnly: true}},
		Nodes:  []structs.DeviceNode{{TaskPath: "/dev/" + a.Name, HostPath: "/dev/h" + a.Name, Permissions: "rw"}},
	}, nil
}

func (d *deviceRecorder) Release(_ context.Context, a structs.AllocatedDevice, u structs.DeviceUser) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.say("release %s %s for %s/%s", a.Name, strings.Join(a.DeviceIDs, ","), u.AllocID, u.Task)
	return d.release
}

func (d *deviceRecorder) said() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.log...)
}

// withDevices gives the fixture's task two devices of one group, asked for in two
// blocks, and one of another.
func withDevices(f *fixture, desk *deviceRecorder) {
	f.alloc.Resources.Tasks["web"].Devices = []structs.AllocatedDevice{
		{Vendor: "acme", Type: "gpu", Name: "gpu", DeviceIDs: []string{"0"}},
		{Vendor: "acme", Type: "nic", Name: "nic", DeviceIDs: []string{"x"}},
		{Vendor: "acme", Type: "gpu", Name: "gpu", DeviceIDs: []string{"1"}},
	}
	if desk != nil {
		f.cfg.Devices = desk
	}
}

// config is what the driver got for the run that goes on.
func (f *fixture) config() *wasmnodev1.TaskConfig {
	local, _, err := f.db.Task("a1", "web")
	require.NoError(f.t, err)
	cfg := &wasmnodev1.TaskConfig{}
	require.NoError(f.t, cfg.UnmarshalVT(local.Config))
	return cfg
}

func TestATaskGetsItsDevicesReservedAndReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, desk := newFixture(t, nil), &deviceRecorder{}
		withDevices(f, desk)
		f.start()
		synctest.Wait()
		cfg := f.config()
		require.Equal(t, map[string]string{"GPU": "0,1", "NIC": "x"}, cfg.GetDeviceEnv())
		require.Equal(t, "0,1", cfg.GetEnv()["GPU"])
		require.Len(t, cfg.GetMounts(), 2)
		require.True(t, cfg.GetMounts()[0].EqualVT(&wasmnodev1.Mount{TaskPath: "/gpu", HostPath: "/srv/gpu", ReadOnly: true}))
		require.Len(t, cfg.GetDevices(), 2)
		require.True(t, cfg.GetDevices()[1].EqualVT(&wasmnodev1.DeviceNode{TaskPath: "/dev/nic", HostPath: "/dev/hnic", Permissions: "rw"}))
		f.finish()
		require.Equal(t, []string{
			"reserve gpu 0,1 for a1/web of job", "reserve nic x for a1/web of job",
			"release gpu 0,1 for a1/web", "release nic x for a1/web",
		}, desk.said())
	})
}

func TestDevicesAreReservedOnceThroughAllRestarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, desk := newFixture(t, nil), &deviceRecorder{}
		withDevices(f, desk)
		f.start()
		synctest.Wait()
		require.NoError(t, f.r.Restart(task.RestartRequest{}))
		synctest.Wait()
		f.restartAgent()
		synctest.Wait()
		require.NoError(t, f.r.Restart(task.RestartRequest{}))
		synctest.Wait()
		require.Equal(t, 3, f.world.Started("web"))
		require.Len(t, desk.said(), 2, "and not released in between")
		require.Equal(t, map[string]string{"GPU": "0,1", "NIC": "x"}, f.config().GetDeviceEnv())
		require.Len(t, f.config().GetMounts(), 2)
		f.finish()
		require.Len(t, desk.said(), 4)
	})
}

func TestADeviceThatIsNotAvailableNowIsTriedAgainUnderTheRestartPolicy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, desk := newFixture(t, nil), &deviceRecorder{}
		desk.refuse = map[string]error{"nic": abi.NewRecoverableError(abi.Unavailable, "unconfirmed")}
		withDevices(f, desk)
		f.start()
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{
			"reserve gpu 0,1 for a1/web of job", "reserve nic x for a1/web of job", "release gpu 0,1 for a1/web",
		}, desk.said(), "all devices or none")
		require.Contains(t, strings.Join(f.events(), "\n"), "devices: failed to reserve device acme/nic/nic: unconfirmed")
		desk.mu.Lock()
		desk.refuse = nil
		desk.mu.Unlock()
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, f.world.Started("web"))
		f.finish()
	})
}

func TestADeviceThatIsNotThereFailsTheTask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, desk := newFixture(t, nil), &deviceRecorder{}
		desk.refuse = map[string]error{"gpu": abi.NewError(abi.NotFound, "no such device")}
		withDevices(f, desk)
		r := f.start()
		synctest.Wait()
		require.Equal(t, structs.TaskDead, r.State().State)
		require.True(t, r.State().Failed)
		require.Zero(t, f.world.Started("web"))
		f.finish()
	})
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		withDevices(f, nil)
		r := f.start()
		synctest.Wait()
		require.True(t, r.State().Failed)
		require.Contains(t, strings.Join(f.events(), "\n"), "this node has no device plugins")
		f.finish()
	})
}

func TestAReleaseThatFailsIsAnEventAndTheTaskEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, desk := newFixture(t, nil), &deviceRecorder{release: abi.NewError(abi.Internal, "stuck")}
		withDevices(f, desk)
		f.start()
		synctest.Wait()
		f.finish()
		require.Contains(t, strings.Join(f.events(), "\n"), "devices: release device acme/gpu/gpu: stuck")
	})
}
