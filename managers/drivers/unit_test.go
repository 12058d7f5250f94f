package drivers

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
)

func TestAFingerprintThatFailsAtFirstIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := catalogtest.NewPlugin()
		well := p.Ops[abi.OpDriverFingerprint]
		p.On(abi.OpDriverFingerprint, func(context.Context, host.Call) error { return abi.NewError(abi.Unavailable, "no daemon") })
		w.mustLoad(p, nil)
		synctest.Wait()
		require.Equal(t, []string{"fake: detected false, healthy false, fingerprint: no daemon"}, w.updates.get())
		time.Sleep(10 * time.Minute)
		require.Equal(t, 9, p.Count(abi.OpDriverFingerprint), "at 0, 5, 15, 35, 75, 155, 275, 395 and 515 s")
		p.On(abi.OpDriverFingerprint, well)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, "fake: detected true, healthy true, Healthy", w.updates.get()[1])
	})
}

func TestHealthIsPolledAndReportedOnlyWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := catalogtest.NewPlugin()
		health := wasmnodev1.HealthState_HEALTH_STATE_HEALTHY
		var mu sync.Mutex
		p.On(abi.OpDriverFingerprint, func(_ context.Context, c host.Call) error {
			mu.Lock()
			defer mu.Unlock()
			a := c.Answer.(*wasmnodev1.DriverFingerprintResponse)
			a.Health = health
			a.NextPollMs = 2000
			return nil
		})
		w.mustLoad(p, nil)
		time.Sleep(21 * time.Second)
		require.Equal(t, 11, p.Count(abi.OpDriverFingerprint))
		for _, h := range []wasmnodev1.HealthState{wasmnodev1.HealthState_HEALTH_STATE_UNHEALTHY, wasmnodev1.HealthState_HEALTH_STATE_UNDETECTED, wasmnodev1.HealthState_HEALTH_STATE_HEALTHY} {
			mu.Lock()
			health = h
			mu.Unlock()
			time.Sleep(4 * time.Second)
		}
		require.Equal(t, []string{
			"fake: detected true, healthy true, Healthy",
			"fake: detected true, healthy false, unhealthy",
			"fake: detected false, healthy false, undetected",
			"fake: detected true, healthy true, Healthy",
		}, w.updates.get())
	})
}

func TestAPluginMayAskForAnEarlierPollButNotForAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := catalogtest.NewPlugin()
		w.mustLoad(p, nil)
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, p.Count(abi.OpDriverFingerprint))
		for range 1000 {
			w.manager.Refresh("fake")
			w.manager.Refresh("nobody")
		}
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 2, p.Count(abi.OpDriverFingerprint))
		for range 50 {
			w.manager.Refresh("fake")
			time.Sleep(100 * time.Millisecond)
		}
		require.InDelta(t, 7, p.Count(abi.OpDriverFingerprint), 1, "once a second")
	})
}

func TestAPluginThatKeepsFaultingIsQuarantinedAndCanBeRevived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := catalogtest.NewPlugin()
		well := p.Ops[abi.OpDriverFingerprint]
		p.On(abi.OpDriverFingerprint, catalogtest.Fault(abi.OpDriverFingerprint))
		u := w.mustLoad(p, nil)
		_, err := w.manager.Dispense("fake")
		require.Equal(t, abi.Unavailable, abi.CodeOf(err))
		require.True(t, abi.IsRecoverable(err))
		require.EqualError(t, err, `driver "fake" is restarting: restart 1 of 3: plugin fake trapped in driver_fingerprint: unreachable`)
		time.Sleep(time.Hour)
		require.Equal(t, 1+catalog.RestartBudget, p.Count(abi.OpDriverFingerprint))
		health, _ := u.Health()
		require.Equal(t, catalog.StateQuarantined, health.State)
		require.Contains(t, health.Reason, "to revive it, replace its file or touch it")
		_, err = w.manager.Dispense("fake")
		require.Equal(t, abi.Unavailable, abi.CodeOf(err))

		p.On(abi.OpDriverFingerprint, well)
		u.Revive()
		synctest.Wait()
		health, _ = u.Health()
		require.Equal(t, catalog.StateHealthy, health.State)
		w.dispense().Release()
	})
}

func TestANewVersionTakesOverOnlyWhenItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		first := catalogtest.NewPlugin()
		old := w.mustLoad(first, nil)
		running := w.dispense()

		tests := map[string]func(p *catalogtest.Plugin){
			"plugin fake trapped in driver_fingerprint: unreachable": func(p *catalogtest.Plugin) {
				p.On(abi.OpDriverFingerprint, catalogtest.Fault(abi.OpDriverFingerprint))
			},
			"fingerprint: no": func(p *catalogtest.Plugin) {
				p.On(abi.OpDriverFingerprint, func(context.Context, host.Call) error { return abi.NewError(abi.Internal, "no") })
			},
			"fingerprint: the answer's health is 0, which is none": func(p *catalogtest.Plugin) {
				p.On(abi.OpDriverFingerprint, func(context.Context, host.Call) error { return nil })
			},
			"configure: bad": func(p *catalogtest.Plugin) { p.Recipe.ConfigureErr = "bad" },
			"describe: task_config_schema: not a JSON object":   func(p *catalogtest.Plugin) { p.Recipe.TaskSchema = "[]" },
			"describe: plugin_config_schema: not a JSON object": func(p *catalogtest.Plugin) { p.Recipe.PluginSchema = "1" },
			`configure: plugin "fake": config.engine: missing`: func(p *catalogtest.Plugin) {
				p.Recipe.PluginSchema = `{"required":["engine"],"properties":{"engine":{}}}`
			},
		}
		for want, spoil := range tests {
			p := catalogtest.NewPlugin()
			spoil(p)
			_, err := w.take(p, old)
			require.EqualError(t, err, want)
			require.False(t, wake.IsClosed(running.Replaced()))
		}

		second := catalogtest.NewPlugin()
		second.Recipe.Version = "2"
		w.mustLoad(second, old)
		require.True(t, wake.IsClosed(running.Replaced()))
		d := w.dispense()
		require.Equal(t, "d2", d.PluginDigest())
		synctest.Wait()
		require.False(t, first.IsClosed(), "a task holds it")
		running.Release()
		running.Release()
		require.True(t, first.IsClosed())
		d.Release()
		require.False(t, second.IsClosed())
	})
}

func TestAFirstVersionThatCannotWorkIsKeptWithAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.config = map[string]any{"engin": "x"}
		p := catalogtest.NewPlugin()
		p.Recipe.PluginSchema = `{"required":["engine"],"properties":{"engine":{"type":"string"}}}`
		u := w.mustLoad(p, nil)
		health, _ := u.Health()
		require.Equal(t, catalog.StateUnhealthy, health.State)
		require.Equal(t, `configure: plugin "fake": config.engin: unknown field, did you mean "engine"?; config.engine: missing`, health.Reason)
		_, err := w.manager.Dispense("fake")
		require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))
		require.False(t, abi.IsRecoverable(err))
	})
}

func TestARemovedPluginServesTheTasksThatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := catalogtest.NewPlugin()
		u := w.mustLoad(p, nil)
		d, other := w.dispense(), w.dispense()
		synctest.Wait()
		u.Remove("its file was removed")
		_, err := w.manager.Dispense("fake")
		require.Error(t, err)
		health, _ := u.Health()
		require.Equal(t, catalog.StateRemoved, health.State)
		_, _, err = d.StartTask(context.Background(), &wasmnodev1.TaskConfig{Id: "a"}, nil)
		require.NoError(t, err, "who has it may still use it")
		synctest.Wait()
		require.Equal(t, "fake: lost", w.updates.get()[1])

		// A new file with that name takes the tasks over.
		w.mustLoad(catalogtest.NewPlugin(), nil)
		require.True(t, wake.IsClosed(d.Replaced()))
		d.Release()
		d.Release()
		require.False(t, wake.IsClosed(u.Closed()), "the other one still has it")
		other.Release()
		require.True(t, wake.IsClosed(u.Closed()))
	})
}

func TestBlockedDriversAreNotTaken(t *testing.T) {
	for name, tt := range map[string]struct {
		allowed, blocked []string
		want             string
	}{
		"blocked":            {nil, []string{"fake"}, `driver "fake" is blocked by this node's configuration`},
		"not allowed":        {[]string{"other"}, nil, `driver "fake" is not among those that this node's configuration allows`},
		"block beats allow":  {[]string{"fake"}, []string{"fake"}, `driver "fake" is blocked by this node's configuration`},
		"allowed":            {[]string{"fake"}, nil, ""},
		"blocked is another": {nil, []string{"other"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			refuse := Permission{tt.allowed, tt.blocked}.Refuse
			require.Equal(t, tt.want, refuse("fake"))
			require.NoError(t, w.catalog.Apply(catalog.Settings{Refuse: func(_ host.Kind, name string) string { return refuse(name) }}))
			_, err := w.manager.Dispense("fake")
			if tt.want == "" {
				require.True(t, abi.IsRecoverable(err), "plugins are still loading")
				var loading interface{ Loading() bool }
				require.ErrorAs(t, err, &loading)
				require.True(t, loading.Loading())
				return
			}
			require.EqualError(t, err, `driver "fake" not found: `+tt.want)
			require.Equal(t, abi.NotFound, abi.CodeOf(err))
		})
	}
}

func TestAFingerprintSetsAttributesOfItsDriverOnlyAndWithinBounds(t *testing.T) {
	w := newWorld(t, nil)
	p := catalogtest.NewPlugin()
	p.On(abi.OpDriverFingerprint, func(_ context.Context, c host.Call) error {
		a := c.Answer.(*wasmnodev1.DriverFingerprintResponse)
		a.Health = wasmnodev1.HealthState_HEALTH_STATE_HEALTHY
		a.Description = "fine\x1b[2J\nreally"
		text := func(s string) *wasmnodev1.Attribute {
			return &wasmnodev1.Attribute{Value: &wasmnodev1.Attribute_StringValue{StringValue: s}}
		}
		a.Attributes = map[string]*wasmnodev1.Attribute{
			"driver.fake":         {Value: &wasmnodev1.Attribute_BoolValue{BoolValue: true}},
			"driver.fake.memory":  {Value: &wasmnodev1.Attribute_IntValue{IntValue: 5}, Unit: "MiB"},
			"driver.fake.load":    {Value: &wasmnodev1.Attribute_FloatValue{FloatValue: 0.5}},
			"driver.fake.version": text("1\n2"),
			"driver.fake.long":    text(string(make([]byte, maxAttributeBytes+1))),
			"driver.other.x":      text("x"),
			"driver.fakes":        text("x"),
			"kernel.name":         text("x"),
			"driver.fake.nothing": nil,
		}
		return nil
	})
	u := w.mustLoad(p, nil)
	info := u.info()
	require.Equal(t, map[string]string{
		"driver.fake": "true", "driver.fake.memory": "5MiB", "driver.fake.load": "0.5",
		"driver.fake.version": "1; 2", "driver.fake.nothing": "",
	}, info.Attributes)
	require.Equal(t, `fine\u001b[2J; really`, info.HealthDescription)
}

func TestTheAnnouncerReportsInOrderAndNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		u := w.mustLoad(catalogtest.NewPlugin(), nil)
		for range 100 {
			w.manager.announcer.Changed(u.Name())
		}
		require.NoError(t, w.manager.announcer.Flush(context.Background()))
		require.Len(t, w.updates.get(), 1)
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		require.ErrorIs(t, w.manager.announcer.Flush(cancelled), context.Canceled)
	})
}

func TestTheAnnouncerReportsNothingOnceItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reporting, goOn := make(chan string, 10), make(chan struct{})
		a := catalog.NewAnnouncer(func(string) number { return 1 }, func(name string, _ number) {
			reporting <- name
			<-goOn
		})
		for _, name := range []string{"first", "second", "third"} {
			a.Changed(name)
		}
		require.Equal(t, "first", <-reporting)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			a.Stop()
		}()
		synctest.Wait()
		close(goOn)
		<-stopped
		a.Changed("fourth")
		synctest.Wait()
		require.Empty(t, reporting)
	})
}

// number is an announceable state.
type number int

func (s number) Same(o number) bool { return s == o }
func (s number) Copy() number       { return s }

func TestShutdownIsCleanAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := catalogtest.NewPlugin()
		p.On(abi.OpDriverFingerprint, func(ctx context.Context, _ host.Call) error {
			<-ctx.Done()
			return ctx.Err()
		})
		done := make(chan error)
		go func() {
			_, err := w.take(p, nil)
			done <- err
		}()
		synctest.Wait()
		w.manager.Shutdown()
		w.manager.Shutdown()
		require.ErrorIs(t, <-done, catalog.ErrShutdown)
		_, err := w.take(catalogtest.NewPlugin(), nil)
		require.ErrorIs(t, err, catalog.ErrShutdown)
	})
}
