package devices

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
	"github.com/wasmnode/wasmnode/structs"
)

func TestTheUpdaterGetsDevicesThatAppearChangeAndDisappear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDeviceWorld(t)
		p := newFakeDevice("acme")
		u := w.mustLoad(p, nil)
		require.NoError(t, w.manager.WaitForFirstFingerprint(t.Context()))
		p.On(abi.OpDeviceFingerprint, answersDevices(gpu, "a"))
		time.Sleep(time.Minute)
		p.On(abi.OpDeviceFingerprint, func(_ context.Context, c host.Call) error {
			_ = answersDevices(gpu, "a")(context.Background(), c)
			c.Answer.(*wasmnodev1.DeviceFingerprintResponse).Groups[0].Devices[0].Healthy = false
			return nil
		})
		time.Sleep(time.Minute)
		p.On(abi.OpDeviceFingerprint, answersDevices(gpu))
		time.Sleep(time.Minute)
		p.On(abi.OpDeviceFingerprint, answersDevices(gpu, "a"))
		time.Sleep(time.Minute)
		synctest.Wait()
		u.Remove("its file was removed")
		synctest.Wait()
		require.Equal(t, []string{
			"acme/gpu/x1[a] healthy, acme/gpu/x1[b] healthy",
			"acme/gpu/x1[a] healthy",
			"acme/gpu/x1[a] unhealthy",
			"",
			"acme/gpu/x1[a] healthy",
			"",
		}, w.updates.get())
	})
}

func TestAPluginThatBreaksHasUnconfirmedDevicesForAGraceTime(t *testing.T) {
	for name, spoil := range map[string]func(context.Context, host.Call) error{
		"trap":     catalogtest.Fault(abi.OpDeviceFingerprint),
		"error":    func(context.Context, host.Call) error { return abi.NewError(abi.Unavailable, "no bus") },
		"nonsense": answersDevices(structs.DeviceGroupID{Vendor: "acme", Type: "gpu"}, "a"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newDeviceWorld(t)
				p := newFakeDevice("acme")
				well := p.Ops[abi.OpDeviceFingerprint]
				u := w.mustLoad(p, nil)
				p.On(abi.OpDeviceFingerprint, spoil)
				time.Sleep(catalog.PollInterval + time.Second)
				synctest.Wait()
				const unconfirmed = "acme/gpu/x1[a] unconfirmed, acme/gpu/x1[b] unconfirmed"
				require.Equal(t, unconfirmed, w.updates.last())
				_, err := w.reserve("a")
				require.ErrorContains(t, err, `device acme/gpu/x1 "a" is unconfirmed`)
				require.True(t, abi.IsRecoverable(err), "it may be back soon")
				require.Zero(t, p.Count(abi.OpDeviceReserve))

				time.Sleep(defaultGrace - 2*time.Second)
				synctest.Wait()
				require.Equal(t, unconfirmed, w.updates.last())
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Empty(t, w.updates.last(), "the grace time is over")

				p.On(abi.OpDeviceFingerprint, well)
				u.Revive()
				synctest.Wait()
				require.Equal(t, "acme/gpu/x1[a] healthy, acme/gpu/x1[b] healthy", w.updates.last())
				_, err = w.reserve("a")
				require.NoError(t, err)
			})
		})
	}
}

func TestReserveGoesToThePluginWhoseDevicesTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDeviceWorld(t)
		first, second := newFakeDevice("acme"), newFakeDevice("other")
		nic := structs.DeviceGroupID{Vendor: "other", Type: "nic", Name: "n"}
		second.On(abi.OpDeviceFingerprint, answersDevices(nic, "a"))
		w.mustLoad(first, nil)
		w.mustLoad(second, nil)

		r, err := w.reserve("b", "a")
		require.NoError(t, err)
		require.Equal(t, &structs.DeviceReservation{
			Env:    map[string]string{"ACME": "b,a"},
			Nodes:  []structs.DeviceNode{{TaskPath: "/dev/acme0", HostPath: "/dev/acme0", Permissions: "rw"}},
			Mounts: []structs.Mount{{TaskPath: "/acme", HostPath: os.TempDir(), ReadOnly: true}},
		}, r)
		require.Equal(t, 1, first.Count(abi.OpDeviceReserve))
		require.Zero(t, second.Count(abi.OpDeviceReserve))

		for _, unknown := range []structs.AllocatedDevice{
			devices("a", "c"), devices(),
			{Vendor: "acme", Type: "gpu", Name: "x2", DeviceIDs: []string{"a"}},
			{Vendor: "nobody", Type: "gpu", Name: "x1", DeviceIDs: []string{"a"}},
		} {
			_, err := w.manager.Reserve(t.Context(), unknown, consumer)
			var refused *UnknownDeviceError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, abi.NotFound, abi.CodeOf(err))
		}
		_, err = w.reserve("c")
		require.EqualError(t, err, `failed to reserve devices: operation on unknown device(s) "acme/gpu/x1" ([c])`)
	})
}

func TestAReservationThatFailsIsUndone(t *testing.T) {
	for name, c := range map[string]struct {
		reserve func(context.Context, host.Call) error
		code    abi.Code
		want    string
		again   bool
	}{
		"trap":    {catalogtest.Fault(abi.OpDeviceReserve), abi.Unavailable, "plugin fake trapped in device_reserve: unreachable", true},
		"refusal": {func(context.Context, host.Call) error { return abi.NewError(abi.FailedPrecondition, "no driver") }, abi.FailedPrecondition, "no driver", false},
		"hang": {func(ctx context.Context, _ host.Call) error {
			<-ctx.Done()
			return errors.Join(abi.NewRecoverableError(abi.DeadlineExceeded, "too slow"), ctx.Err())
		}, abi.DeadlineExceeded, "too slow", true},
		"lie": {func(_ context.Context, c host.Call) error {
			c.Answer.(*wasmnodev1.DeviceReserveResponse).ContainerEdits = &wasmnodev1.ContainerEdits{Hooks: []*wasmnodev1.EditedHook{{Path: "/bin/sh"}}}
			return nil
		}, abi.Internal, "hooks: a node runs no programs of a plugin's", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newDeviceWorld(t)
				p := newFakeDevice("acme")
				p.On(abi.OpDeviceReserve, c.reserve)
				w.mustLoad(p, nil)
				start := time.Now()
				_, err := w.reserve("a")
				require.ErrorContains(t, err, c.want)
				require.Equal(t, c.code, abi.CodeOf(err))
				require.Equal(t, c.again, abi.IsRecoverable(err))
				require.LessOrEqual(t, time.Since(start), reserveDeadline)
				require.Equal(t, 1, p.Count(abi.OpDeviceRelease))
				require.NotContains(t, w.updates.last(), "unconfirmed", "one task's trouble is not all devices'")
			})
		})
	}
}

func TestATaskForWhichThePluginFaultsTwiceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDeviceWorld(t)
		p := newFakeDevice("acme")
		p.On(abi.OpDeviceReserve, catalogtest.Fault(abi.OpDeviceReserve))
		w.mustLoad(p, nil)
		_, err := w.reserve("a")
		require.True(t, abi.IsRecoverable(err))
		_, err = w.reserve("a")
		require.False(t, abi.IsRecoverable(err))
		require.ErrorContains(t, err, "faulted 2 times while handling this task")
	})
}

func TestAReleaseThatFailsIsTriedUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDeviceWorld(t)
		p := newFakeDevice("acme")
		well := p.Ops[abi.OpDeviceRelease]
		p.On(abi.OpDeviceRelease, catalogtest.Fault(abi.OpDeviceRelease))
		w.mustLoad(p, nil)
		require.Error(t, w.manager.Release(t.Context(), devices("a"), consumer))
		time.Sleep(time.Minute)
		failed := p.Count(abi.OpDeviceRelease)
		require.InDelta(t, 5, failed, 2, "at 5, 10, 20, 40 s")
		p.On(abi.OpDeviceRelease, well)
		time.Sleep(3 * time.Minute)
		require.Equal(t, failed+1, p.Count(abi.OpDeviceRelease), "once it succeeded it is over")
	})
}

func TestAPluginGetsAReleaseBeforeTheNextReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDeviceWorld(t)
		p := newFakeDevice("acme")
		w.mustLoad(p, nil)
		_, err := w.reserve("a")
		require.NoError(t, err)
		_, err = w.reserve("a")
		require.NoError(t, err, "the same may reserve again")
		next := structs.DeviceUser{AllocID: "next", Task: "web"}
		_, err = w.manager.Reserve(t.Context(), devices("b"), next)
		require.NoError(t, err, "another device")

		start := time.Now()
		_, err = w.manager.Reserve(t.Context(), devices("a"), next)
		require.EqualError(t, err, `device acme/gpu/x1 is still held by task "web" of allocation alloc`)
		require.True(t, abi.IsRecoverable(err))
		require.Equal(t, reserveDeadline, time.Since(start))
		require.Equal(t, 3, p.Count(abi.OpDeviceReserve))

		go func() {
			time.Sleep(time.Second)
			_ = w.manager.Release(context.Background(), devices("a"), consumer)
		}()
		_, err = w.manager.Reserve(t.Context(), devices("a"), next)
		require.NoError(t, err)
		require.Equal(t, 1, p.Count(abi.OpDeviceRelease))
	})
}

func TestAMountThatALinkLeadsOutOfTheGrantIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "granted"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "granted", "file"), nil, 0o644))
		require.NoError(t, os.Symlink("file", filepath.Join(dir, "granted", "inside")))
		require.NoError(t, os.Symlink("../secret", filepath.Join(dir, "granted", "outside")))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), nil, 0o644))
		w := newDeviceWorld(t)
		p := newFakeDevice("acme")
		p.Grants.FS.ReadOnly = []string{filepath.Join(dir, "granted")}
		path := ""
		p.On(abi.OpDeviceReserve, func(_ context.Context, c host.Call) error {
			c.Answer.(*wasmnodev1.DeviceReserveResponse).ContainerEdits = &wasmnodev1.ContainerEdits{
				Mounts: []*wasmnodev1.EditedMount{{HostPath: filepath.Join(dir, "granted", path), ContainerPath: "/x"}},
			}
			return nil
		})
		w.mustLoad(p, nil)
		for _, path = range []string{"file", "inside"} {
			r, err := w.reserve("a")
			require.NoError(t, err)
			require.Equal(t, filepath.Join(dir, "granted", "file"), r.Mounts[0].HostPath)
		}
		path = "outside"
		_, err := w.reserve("a")
		require.ErrorContains(t, err, "leads to "+filepath.Join(dir, "secret")+", which is not granted")
		path = "nowhere"
		_, err = w.reserve("a")
		require.ErrorContains(t, err, "no such file")
	})
}

// A link in what may be written that leads to what may only be read is a way to write there,
// unless the mount is read-only.
func TestALinkMakesNothingWritable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for _, sub := range []string{"readable", "writable"} {
			require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
		}
		target := filepath.Join(dir, "readable", "file")
		require.NoError(t, os.WriteFile(target, nil, 0o644))
		link := filepath.Join(dir, "writable", "link")
		require.NoError(t, os.Symlink(target, link))
		w := newDeviceWorld(t)
		p := newFakeDevice("acme")
		p.Grants.FS.ReadOnly = []string{filepath.Join(dir, "readable")}
		p.Grants.FS.ReadWrite = []string{filepath.Join(dir, "writable")}
		options := []string{"ro"}
		p.On(abi.OpDeviceReserve, func(_ context.Context, c host.Call) error {
			c.Answer.(*wasmnodev1.DeviceReserveResponse).ContainerEdits = &wasmnodev1.ContainerEdits{
				Mounts: []*wasmnodev1.EditedMount{{HostPath: link, ContainerPath: "/x", Options: options}},
			}
			return nil
		})
		w.mustLoad(p, nil)
		r, err := w.reserve("a")
		require.NoError(t, err)
		require.Equal(t, target, r.Mounts[0].HostPath)
		options = []string{"rw"}
		_, err = w.reserve("a")
		require.ErrorContains(t, err, "leads to "+target+", which is not granted")
	})
}

func TestADeviceNodeIsOneWhereverALinkLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		link := func(name, target string) {
			require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
		}
		link("zero", "/dev/zero")
		link("null", "/dev/null")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
		w := newDeviceWorld(t)
		p := newFakeDevice("acme")
		p.Grants.Devices.Nodes = []string{dir, "/dev/zer*"}
		name := ""
		p.On(abi.OpDeviceReserve, func(_ context.Context, c host.Call) error {
			c.Answer.(*wasmnodev1.DeviceReserveResponse).ContainerEdits = &wasmnodev1.ContainerEdits{
				DeviceNodes: []*wasmnodev1.EditedDeviceNode{{Path: "/dev/x", HostPath: filepath.Join(dir, name)}},
			}
			return nil
		})
		w.mustLoad(p, nil)
		for path, node := range map[string]string{"zero": "/dev/zero", "unplugged": filepath.Join(dir, "unplugged")} {
			name = path
			r, err := w.reserve("a")
			require.NoError(t, err)
			require.Equal(t, []structs.DeviceNode{{TaskPath: "/dev/x", HostPath: node, Permissions: "rw"}}, r.Nodes)
		}
		for path, want := range map[string]string{
			"null": "device_nodes[0]: host_path: " + filepath.Join(dir, "null") + " leads to /dev/null, which is not granted",
			"file": filepath.Join(dir, "file") + " is not a device node",
			"":     dir + " is not a device node",
		} {
			name = path
			_, err := w.reserve("a")
			require.ErrorContains(t, err, want)
		}
	})
}

func TestReleasingADeviceWithoutAPluginSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDeviceWorld(t)
		require.NoError(t, w.manager.Release(t.Context(), devices("a"), consumer))
		p := newFakeDevice("acme")
		p.On(abi.OpDeviceRelease, nil)
		w.mustLoad(p, nil)
		require.NoError(t, w.manager.Release(t.Context(), devices("a"), consumer))
		require.Zero(t, p.Count(abi.OpDeviceRelease), "the plugin does not have the operation")
	})
}

func TestOfTwoPluginsWithOneGroupTheFirstKeepsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDeviceWorld(t)
		u := w.mustLoad(newFakeDevice("acme"), nil)
		late := w.mustLoad(newFakeDevice("late"), nil)
		health, _ := late.Health()
		require.Equal(t, catalog.StateUnhealthy, health.State)
		require.Equal(t, `fingerprint: acme/gpu/x1 is provided by plugin "acme" already; remove one of the two`, health.Reason)

		newer := newFakeDevice("acme")
		newer.Recipe.Version = "2"
		w.mustLoad(newer, u)
		_, err := w.reserve("a")
		require.NoError(t, err)
		require.Equal(t, 1, newer.Count(abi.OpDeviceReserve), "a newer version of the same plugin takes over")
		synctest.Wait() // the updater hears of it from another goroutine
		require.Equal(t, []string{"acme/gpu/x1[a] healthy, acme/gpu/x1[b] healthy"}, w.updates.get())
	})
}

func TestANewerVersionTakesOverOnlyWhenItsDevicesAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDeviceWorld(t)
		u := w.mustLoad(newFakeDevice("acme"), nil)
		bad := newFakeDevice("acme")
		bad.On(abi.OpDeviceFingerprint, answersDevices(gpu, "a", "a"))
		_, err := w.take(bad, u)
		require.EqualError(t, err, `fingerprint: groups[0]: acme/gpu/x1: devices[1]: the ID "a" is listed twice`)
		_, err = w.reserve("a")
		require.NoError(t, err)
		require.Zero(t, bad.Count(abi.OpDeviceReserve))
	})
}

func TestStatsAreThoseOfTheDevicesThatThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDeviceWorld(t)
		p := newFakeDevice("acme")
		p.On(abi.OpDeviceStats, answersStats(gpu, 7, "a", "b", "gone"))
		w.mustLoad(p, nil)
		synctest.Wait()
		all := w.manager.AllStats()
		require.Len(t, all, 1)
		require.Len(t, all[0].Devices, 2, "figures of devices that are not known are left out")
		require.Equal(t, int64(7), *all[0].Devices["a"].Summary.Int)
		require.Equal(t, int64(7), *all[0].Devices["b"].Stats.Nested["power"].Attributes["now"].Int)

		some, err := w.manager.DeviceStats(devices("b", "unknown"))
		require.NoError(t, err)
		require.Len(t, some.Devices, 1)
		require.NotNil(t, some.Devices["b"], "and no nil for the other")
		_, err = w.manager.DeviceStats(structs.AllocatedDevice{Vendor: "x", Type: "y", Name: "z", DeviceIDs: []string{"1"}})
		require.EqualError(t, err, `failed to collect statistics: operation on unknown device(s) "x/y/z" ([1])`)

		p.On(abi.OpDeviceFingerprint, answersDevices(gpu, "a"))
		time.Sleep(time.Minute)
		require.Len(t, w.manager.AllStats()[0].Devices, 1, "a device that is gone has no figures")
	})
}

func TestAPluginThatDoesNotMeasureIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDeviceWorld(t)
		p := newFakeDevice("acme")
		p.On(abi.OpDeviceStats, func(context.Context, host.Call) error { return abi.NewError(abi.Unimplemented, "no") })
		w.mustLoad(p, nil)
		time.Sleep(10 * time.Minute)
		require.Equal(t, 1, p.Count(abi.OpDeviceStats))
		require.Empty(t, w.manager.AllStats())
		some, err := w.manager.DeviceStats(devices("a"))
		require.NoError(t, err)
		require.Empty(t, some.Devices)
	})
}

// managerOf returns a manager with so many devices that have figures.
func managerOf(t testing.TB, n int) *Manager {
	t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	p := newFakeDevice("acme")
	p.On(abi.OpDeviceFingerprint, answersDevices(gpu, ids...))
	p.On(abi.OpDeviceStats, answersStats(gpu, 7, ids...))
	m := New(Config{Catalog: emptyCatalog(t), Logger: hclog.NewNullLogger()})
	t.Cleanup(m.Shutdown)
	_, err := take(m, catalog.Candidate{Plugin: p, File: "acme.wasm"}, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(m.AllStats()) == 1 }, catalogtest.TestTimeout, time.Millisecond)
	return m
}

// What it costs to read a task's figures does not depend on how many devices the host
// has that the task does not use.
func TestTheFiguresOfATaskTakeTheSameMemoryWhateverElseThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		few, many := managerOf(t, 10), managerOf(t, 1_000)
		synctest.Wait() // no plugin is asked for its figures meanwhile
		cost := func(m *Manager) float64 {
			return testing.AllocsPerRun(100, func() { _, _ = m.DeviceStats(devices("7")) })
		}
		require.InDelta(t, cost(few), cost(many), 1)
	})
}

// BenchmarkDeviceStats measures the figures of 500 tasks with a device each, on a host
// with few devices and on one with many, in turns.
func BenchmarkDeviceStats(b *testing.B) {
	few, many := managerOf(b, 10), managerOf(b, 1_000)
	look := func(m *Manager) time.Duration {
		begun := time.Now()
		for task := range 500 {
			s, err := m.DeviceStats(devices(fmt.Sprint(task % 10)))
			if err != nil || len(s.Devices) != 1 {
				b.Fatal(s, err)
			}
		}
		return time.Since(begun)
	}
	var ofFew, ofMany time.Duration
	for b.Loop() {
		ofFew += look(few)
		ofMany += look(many)
	}
	b.ReportMetric(float64(ofFew.Nanoseconds())/float64(500*b.N), "ns/task-of-10-devices")
	b.ReportMetric(float64(ofMany.Nanoseconds())/float64(500*b.N), "ns/task-of-1000-devices")
	b.ReportMetric(ofMany.Seconds()/ofFew.Seconds(), "ratio")
}
