package devices

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	pb "github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// faultyWorld is a device manager with one plugin, compiled and run as on a node, that
// misbehaves as it is told.
type faultyWorld struct {
	*deviceWorld
	dir    string
	plugin catalog.Plugin
	unit   *plugin
}

// deviceHost runs device plugins of the test, which take their time to say who they are.
func deviceHost(t *testing.T) *host.Host {
	t.Helper()
	return host.New(host.Config{Logger: hclog.NewNullLogger(), Engine: catalogtest.Engine(t), Version: "0.0.0", Limits: host.Limits{DescribeTime: catalogtest.TestTimeout}})
}

// newFaultyWorld loads the plugin and takes it not yet into service.
func newFaultyWorld(t *testing.T) *faultyWorld {
	t.Helper()
	w := &faultyWorld{dir: t.TempDir()}
	plugins := deviceHost(t)
	w.deviceWorld = newDeviceWorldOn(t, func(*Config) {})
	var err error
	w.plugin, err = catalog.HostLoader{Host: plugins}.Load(t.Context(), host.NewSource(faultyDevice(t)), nil)
	require.NoError(t, err)
	return w
}

// inFaultyWorld runs a test on a clock that stands still while anything works.
func inFaultyWorld(t *testing.T, test func(t *testing.T, w *faultyWorld)) {
	t.Helper()
	faultyDevice(t)
	synctest.Test(t, func(t *testing.T) { test(t, newFaultyWorld(t)) })
}

func faultyDevice(t *testing.T) []byte {
	t.Helper()
	return guestbuild.Plugin(t, "managers/devices/testdata/faulty_device")
}

// does says how an operation misbehaves from now on.
func (w *faultyWorld) does(op, what string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, op), []byte(what), 0o600))
}

// answers says what an operation answers from now on.
func (w *faultyWorld) answers(op string, m host.Message) {
	w.t.Helper()
	text, err := m.MarshalVT()
	require.NoError(w.t, err)
	w.does(op, string(text))
}

// behaves puts an operation in order again.
func (w *faultyWorld) behaves(op string) {
	w.t.Helper()
	require.NoError(w.t, os.Remove(filepath.Join(w.dir, op)))
}

// calls counts how often an operation was entered.
func (w *faultyWorld) calls(op string) int {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "calls"))
	require.NoError(w.t, err)
	return strings.Count("\n"+string(text), "\n"+op+" ")
}

// statsReason is why the figures could not be had last.
func (w *faultyWorld) statsReason() string {
	w.unit.mu.Lock()
	defer w.unit.mu.Unlock()
	return w.unit.statsReason
}

// take takes the plugin into service.
func (w *faultyWorld) take() error {
	grants := deviceGrants
	grants.FS.ReadWrite = append([]string{w.dir}, grants.FS.ReadWrite...)
	u, err := take(w.manager, catalog.Candidate{Plugin: w.plugin, Grants: grants, Config: map[string]any{"dir": w.dir}, File: "faulty.wasm"}, nil)
	w.unit = u
	return err
}

// start takes the plugin into service and waits until nothing happens any more.
func (w *faultyWorld) start() {
	w.t.Helper()
	require.NoError(w.t, w.take())
	synctest.Wait()
}

// pass lets time pass.
func (w *faultyWorld) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

const (
	bothHealthy     = "acme/gpu/x1[a] healthy, acme/gpu/x1[b] healthy"
	bothUnconfirmed = "acme/gpu/x1[a] unconfirmed, acme/gpu/x1[b] unconfirmed"
)

// breaks are the ways in which an operation can fail to answer.
var breaks = []string{"trap", "exit", "sleep", "error"}

func TestAPluginThatBreaksInFingerprintHasUnconfirmedDevices(t *testing.T) {
	for _, how := range breaks {
		t.Run(how, func(t *testing.T) {
			inFaultyWorld(t, func(t *testing.T, w *faultyWorld) {
				w.start()
				require.Equal(t, bothHealthy, w.updates.last())
				_, err := w.reserve("a")
				require.NoError(t, err)
				w.does("fingerprint", how)
				w.pass(catalog.FingerprintDeadline + 2*time.Second)
				require.Equal(t, bothUnconfirmed, w.updates.last())
				_, err = w.reserve("b")
				require.ErrorContains(t, err, "unconfirmed")
				require.True(t, abi.IsRecoverable(err))
				require.Equal(t, 1, w.calls("reserve"), "it is not asked for new tasks")
				err = w.manager.Release(t.Context(), devices("a"), consumer)
				quarantined := how == "trap" || how == "exit"
				require.Equal(t, quarantined, err != nil, "who has a device gives it back, when the plugin may be called again")
				w.pass(defaultGrace)
				require.Empty(t, w.updates.last(), "the grace time is over")
				w.behaves("fingerprint")
				w.unit.Revive()
				w.pass(2 * catalog.RetryPause)
				require.Equal(t, bothHealthy, w.updates.last())
				require.Equal(t, 1, w.calls("release"))
			})
		})
	}
}

func TestAPluginThatBreaksInStatsKeepsItsDevicesAndFigures(t *testing.T) {
	for _, how := range breaks {
		t.Run(how, func(t *testing.T) {
			inFaultyWorld(t, func(t *testing.T, w *faultyWorld) {
				w.start()
				w.pass(time.Second)
				before := w.manager.AllStats()
				require.Len(t, before[0].Devices, 2)
				w.does("stats", how)
				w.pass(10 * time.Minute)
				require.Equal(t, before, w.manager.AllStats(), "the last figures, with their time")
				require.Equal(t, bothHealthy, w.updates.last(), "a device is not worse for want of figures")
				_, err := w.reserve("a")
				require.NoError(t, err)
				w.behaves("stats")
				w.pass(maxStatsPause)
				require.NotEqual(t, before, w.manager.AllStats(), "it is asked for ever")
			})
		})
	}
}

func TestAPluginThatFaultsInReserveFailsTheTask(t *testing.T) {
	for _, how := range breaks {
		t.Run(how, func(t *testing.T) {
			inFaultyWorld(t, func(t *testing.T, w *faultyWorld) {
				w.start()
				w.does("reserve", how)
				begun := time.Now()
				_, err := w.reserve("a")
				require.Error(t, err)
				require.LessOrEqual(t, time.Since(begun), reserveDeadline)
				require.Equal(t, how != "error", abi.IsRecoverable(err), "the task is tried again after a fault: %v", err)
				require.Equal(t, 1, w.calls("release"), "whatever it did is undone")
				if how != "error" {
					_, err = w.reserve("a")
					require.ErrorContains(t, err, "faulted 2 times while handling this task")
					require.False(t, abi.IsRecoverable(err), "the second time fails the task")
				}
				w.pass(time.Second)
				require.Equal(t, bothHealthy, w.updates.last(), "one task's trouble is not the devices'")
				w.behaves("reserve")
				other := consumer
				other.AllocID = "other"
				_, err = w.manager.Reserve(t.Context(), devices("a"), other)
				require.NoError(t, err, "another task gets what the first one did not")
			})
		})
	}
}

func TestAPluginThatBreaksInReleaseIsAskedUntilItReleases(t *testing.T) {
	for _, how := range breaks {
		t.Run(how, func(t *testing.T) {
			inFaultyWorld(t, func(t *testing.T, w *faultyWorld) {
				w.start()
				_, err := w.reserve("a")
				require.NoError(t, err)
				w.does("release", how)
				begun := time.Now()
				require.Error(t, w.manager.Release(t.Context(), devices("a"), consumer))
				require.LessOrEqual(t, time.Since(begun), releaseDeadline, "the task's end is not held up")
				w.pass(5 * time.Minute)
				failed := w.calls("release")
				require.Greater(t, failed, 3)
				require.Equal(t, bothHealthy, w.updates.last())
				w.behaves("release")
				w.pass(10 * time.Minute)
				require.Equal(t, failed+1, w.calls("release"), "once it succeeded it is over")
			})
		})
	}
}

// TestAGuestThatSpinsInReserveIsInterrupted is on the real clock, which a guest that
// never waits does not stop.
func TestAGuestThatSpinsInReserveIsInterrupted(t *testing.T) {
	w := newFaultyWorld(t)
	require.NoError(t, w.take())
	w.does("reserve", "spin")
	ctx := deadline{t.Context(), make(chan struct{})}
	reserved := make(chan error, 1)
	go func() {
		_, err := w.manager.Reserve(ctx, devices("a"), consumer)
		reserved <- err
	}()
	require.Eventually(t, func() bool { return w.calls("reserve") == 1 }, catalogtest.TestTimeout, time.Millisecond)
	close(ctx.passed)
	var fault *host.FaultError
	require.ErrorAs(t, <-reserved, &fault)
	require.Equal(t, host.FaultTimeout, fault.Kind)
	require.Equal(t, 1, w.calls("release"))
}

// deadline is a context whose deadline passes when a test says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.passed }

func (d deadline) Err() error {
	if wake.IsClosed(d.passed) {
		return context.DeadlineExceeded
	}
	return nil
}

func TestAPluginWithAWrongFingerprintHasUnconfirmedDevices(t *testing.T) {
	inFaultyWorld(t, func(t *testing.T, w *faultyWorld) {
		w.start()
		for want, lie := range wrongFingerprints() {
			require.Equal(t, bothHealthy, w.updates.last())
			f := goodFingerprint()
			lie(f.Groups[0])
			w.answers("fingerprint", f)
			w.pass(time.Second)
			require.Equal(t, bothUnconfirmed, w.updates.last(), want)
			health, _ := w.unit.Health()
			require.Contains(t, health.Reason, catalog.OneLine(errors.New(want)))
			_, err := w.reserve("a")
			require.ErrorContains(t, err, "unconfirmed")
			w.behaves("fingerprint")
			w.pass(catalog.RetryPause)
		}
	})
}

func TestAPluginWithWrongStatsKeepsItsLastFigures(t *testing.T) {
	inFaultyWorld(t, func(t *testing.T, w *faultyWorld) {
		w.start()
		for want, lie := range wrongStats() {
			before := w.manager.AllStats()
			require.Equal(t, int64(7), *before[0].Devices["a"].Summary.Int)
			if lie == nil {
				continue // no message says so
			}
			w.answers("stats", &pb.DeviceStatsResponse{Groups: []*pb.DeviceGroupStats{
				{Id: protoGroupID(gpu), Devices: map[string]*pb.DeviceStats{"a": lie, "b": {Summary: &pb.StatValue{Value: &pb.StatValue_IntValue{IntValue: 9}}}}},
			}})
			w.pass(time.Second)
			require.Equal(t, before, w.manager.AllStats(), want)
			require.Contains(t, w.statsReason(), want)
			require.Equal(t, bothHealthy, w.updates.last())
			w.behaves("stats")
			w.pass(catalog.RetryPause)
		}
	})
}

func TestAPluginWithAWrongReservationFailsTheTask(t *testing.T) {
	inFaultyWorld(t, func(t *testing.T, w *faultyWorld) {
		w.start()
		for want, lie := range wrongReservations() {
			w.answers("reserve", lie)
			released := w.calls("release")
			_, err := w.reserve("a")
			require.ErrorContains(t, err, "device plugin faulty: its reservation is refused")
			require.ErrorContains(t, err, strings.ReplaceAll(want, `plugin "p"`, `plugin "faulty"`))
			require.Equal(t, abi.Internal, abi.CodeOf(err))
			require.False(t, abi.IsRecoverable(err))
			require.Equal(t, released+1, w.calls("release"), "whatever it did is undone")
		}
		w.behaves("reserve")
		_, err := w.reserve("a")
		require.NoError(t, err)
	})
}

func TestAPluginThatFloodsTheNodeHasUnconfirmedDevices(t *testing.T) {
	floods := deviceFloods()
	floods["the limit is 4194304"] = &pb.DeviceFingerprintResponse{Groups: []*pb.DeviceGroup{
		{Devices: []*pb.Device{{HealthDescription: strings.Repeat("x", host.DefaultLimits().OutputBytes)}}},
	}}
	for want, answer := range floods {
		t.Run(want, func(t *testing.T) {
			inFaultyWorld(t, func(t *testing.T, w *faultyWorld) {
				w.start()
				w.answers("fingerprint", answer)
				w.pass(time.Second)
				require.Equal(t, bothUnconfirmed, w.updates.last())
				health, _ := w.unit.Health()
				require.Contains(t, health.Reason, want)
			})
		})
	}
}

func TestAPluginWhoseDevicesAlwaysChangeIsPolledAndReportedOnceASecond(t *testing.T) {
	inFaultyWorld(t, func(t *testing.T, w *faultyWorld) {
		w.start()
		w.does("fingerprint", "flutter")
		before, told := w.calls("fingerprint"), len(w.updates.get())
		w.pass(time.Minute)
		require.LessOrEqual(t, w.calls("fingerprint")-before, 60)
		require.LessOrEqual(t, len(w.updates.get())-told, 60)
		require.Regexp(t, `^acme/gpu/x1\[\d+\] healthy$`, w.updates.last(), "only the devices of the last answer are kept")
		w.behaves("fingerprint")
		w.pass(time.Second)
		require.Equal(t, bothHealthy, w.updates.last())
	})
}

func TestAPluginThatFloodsAReservationFailsTheTask(t *testing.T) {
	inFaultyWorld(t, func(t *testing.T, w *faultyWorld) {
		w.start()
		for want, edits := range map[string]*pb.ContainerEdits{
			"99999 edits of one kind, the limit is 64": {Mounts: empties[pb.EditedMount](99_999)},
			"65 edits of one kind, the limit is 64":    {DeviceNodes: empties[pb.EditedDeviceNode](65)},
			"hooks: a node runs no programs":           {Hooks: empties[pb.EditedHook](99_999)},
			"the limit is 4194304":                     {Env: []string{"X=" + strings.Repeat("x", host.DefaultLimits().OutputBytes)}},
		} {
			w.answers("reserve", edits)
			_, err := w.reserve("a")
			require.ErrorContains(t, err, want)
		}
		require.Equal(t, 4, w.calls("release"))
	})
}

func TestAPluginThatFloodsInStatsKeepsItsLastFigures(t *testing.T) {
	inFaultyWorld(t, func(t *testing.T, w *faultyWorld) {
		w.start()
		before := w.manager.AllStats()
		of := func(s *pb.DeviceStats) *pb.DeviceStatsResponse {
			return &pb.DeviceStatsResponse{Groups: []*pb.DeviceGroupStats{{Id: protoGroupID(gpu), Devices: map[string]*pb.DeviceStats{"a": s}}}}
		}
		for want, answer := range map[string]*pb.DeviceStatsResponse{
			"99999 groups, the limit is 64":   {Groups: empties[pb.DeviceGroupStats](99_999)},
			"99999 figures, the limit is 256": of(&pb.DeviceStats{Stats: empties[pb.DeviceStat](99_999)}),
			"the limit is 4194304":            of(&pb.DeviceStats{Summary: &pb.StatValue{Description: strings.Repeat("x", host.DefaultLimits().OutputBytes)}}),
		} {
			w.answers("stats", answer)
			w.pass(time.Hour)
			require.Contains(t, w.statsReason(), want)
			require.Equal(t, before, w.manager.AllStats())
			require.Equal(t, bothHealthy, w.updates.last())
		}
	})
}

// TestAFirstFingerprintThatNeverComesTimesOut is Nomad's time for the first
// fingerprints, which here each plugin has for itself.
func TestAFirstFingerprintThatNeverComesTimesOut(t *testing.T) {
	inFaultyWorld(t, func(t *testing.T, w *faultyWorld) {
		w.does("fingerprint", "sleep")
		taken := make(chan error, 1)
		go func() { taken <- w.take() }()
		w.pass(catalog.FingerprintDeadline - time.Second)
		require.Empty(t, taken, "it still has a second")
		w.pass(time.Second)
		require.NoError(t, <-taken)
		require.Empty(t, w.updates.last(), "and nothing is known of its devices")
		w.behaves("fingerprint")
		w.pass(2 * catalog.RetryPause)
		require.Equal(t, bothHealthy, w.updates.last())
	})
}
