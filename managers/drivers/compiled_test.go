package drivers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/structs"
)

func TestACompiledDriversHealthIsReportedToTheNode(t *testing.T) {
	for health, want := range map[string]structs.DriverInfo{
		"healthy":    {Detected: true, Healthy: true, HealthDescription: "Healthy"},
		"unhealthy":  {Detected: true, HealthDescription: "Unhealthy"},
		"undetected": {HealthDescription: "Undetected"},
	} {
		t.Run(health, func(t *testing.T) {
			told := make(chan structs.DriverInfo, 100)
			w := newRealWorld(t, map[string]any{"health": health}, host.Grants{}, func(c *Config) {
				c.Updater = func(_ string, info *structs.DriverInfo) { told <- *info }
			})
			w.Put("mock.wasm", mock(t))
			w.start() // the first fingerprints have been told
			require.NotEmpty(t, told)
			got := <-told
			require.Equal(t, want, structs.DriverInfo{Detected: got.Detected, Healthy: got.Healthy, HealthDescription: got.HealthDescription})
		})
	}
}

func TestEventsOfACompiledDriverComeInOrderToTheirTasks(t *testing.T) {
	got := map[string][]string{}
	w := newRealWorld(t, nil, host.Grants{})
	w.Put("mock.wasm", mock(t))
	w.start()
	d := w.mustDispense("mock_driver")
	defer d.Release()
	ctx := context.Background()
	run := func(name, event string) {
		cfg := w.task(d, name, map[string]any{"start_event": event + " started", "recover_event": event + " recovered"})
		take := func(e *wasmnodev1.TaskEvent) { got[name] = append(got[name], e.Message) }
		h, _, err := d.StartTask(ctx, cfg, take)
		require.NoError(t, err)
		_, err = d.RecoverTask(ctx, cfg, h, take)
		require.NoError(t, err)
		require.NoError(t, d.DestroyTask(ctx, cfg, h, true))
	}
	run("web", "first")
	run("db", "other")
	run("web", "second")
	require.Equal(t, map[string][]string{
		"web": {"first started", "first recovered", "second started", "second recovered"},
		"db":  {"other started", "other recovered"},
	}, got)
	// Nobody takes it, which the driver is told and makes its answer.
	_, _, err := d.StartTask(ctx, w.task(d, "deaf", map[string]any{"start_event": "unheard"}), nil)
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err), err)
}

func TestCompiledDriversAreThoseThatTheOperatorAllows(t *testing.T) {
	plugin := guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal")
	for name, c := range map[string]struct {
		allowed, blocked []string
		serve            []string
	}{
		"all":               {nil, nil, []string{"c_number1", "c_number2", "c_number3"}},
		"some are allowed":  {[]string{"c_number1", "c_number3"}, nil, []string{"c_number1", "c_number3"}},
		"some are blocked":  {nil, []string{"c_number1"}, []string{"c_number2", "c_number3"}},
		"block beats allow": {[]string{"c_number1", "c_number2"}, []string{"c_number2"}, []string{"c_number1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRealWorld(t, nil, host.Grants{})
			allowed := catalog.Settings{Refuse: func(_ host.Kind, name string) string { return Permission{c.allowed, c.blocked}.Refuse(name) }}
			require.NoError(t, w.Catalog.Apply(allowed))
			for _, n := range []string{"c_number1", "c_number2", "c_number3"} {
				w.Put(n+".wasm", renamed(t, plugin, "c_minimal", n))
			}
			w.start()
			var serve []string
			for _, n := range []string{"c_number1", "c_number2", "c_number3"} {
				d, err := w.manager.Dispense(n)
				if err != nil {
					require.Equal(t, abi.NotFound, abi.CodeOf(err))
					require.ErrorContains(t, err, "this node's configuration")
					continue
				}
				serve = append(serve, n)
				d.Release()
			}
			require.Equal(t, c.serve, serve)
		})
	}
}
