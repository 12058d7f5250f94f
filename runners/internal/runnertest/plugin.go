package runnertest

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// Over has the world's tasks run by the mock driver plugin, as dispense gives it. What a
// task's config says is done by the plugin, as far as it can; the world only records
// them, breaks what the plugin cannot be asked to break, and ends tasks when the test asks.
func (w *World) Over(dispense task.Dispense) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = dispense
}

// forever is longer than any test's time.
const forever = 10 * 365 * 24 * time.Hour

// ofPlugin is the same as the plugin's config.
func (c Config) ofPlugin() map[string]any {
	out := map[string]any{"run_for": forever.String()}
	text := func(key, value string) {
		if value != "" {
			out[key] = value
		}
	}
	text("run_for", c.RunFor)
	text("exit_err_msg", c.ExitErr)
	text("start_error", c.StartError)
	text("kill_after", c.KillAfter)
	text("stop_error", c.StopError)
	text("signal_error", c.SignalError)
	if !c.StartHangs {
		text("start_block_for", c.StartFor)
	}
	if c.IP != "" {
		out["driver_ip"], out["driver_port_map"] = c.IP, "http:8080"
	}
	for key, n := range map[string]int{
		"exit_code": c.ExitCode, "exit_signal": c.ExitSignal, "stop_exit_code": c.StopExitCode, "stop_exit_signal": c.StopExitSignal,
	} {
		if n != 0 {
			out[key] = n
		}
	}
	for _, c := range c.Exec {
		out["exec_command"] = map[string]any{"run_for": cmp.Or(c.RunFor, "0s"), "exit_code": c.ExitCode, "stdout_string": c.Stdout}
	}
	if c.Recoverable {
		out["start_error_recoverable"] = true
	}
	return out
}

// onPlugin is a driver whose tasks are the plugin's.
type onPlugin struct {
	*driver
	plugin task.Driver
}

func (d *onPlugin) Capabilities() *wasmnodev1.DriverCapabilities {
	if d.w.networks != nil {
		return d.driver.Capabilities()
	}
	return d.plugin.Capabilities()
}

// DecodeConfig returns the script with the plugin's config in it.
func (d *onPlugin) DecodeConfig(config map[string]any) ([]byte, error) {
	data, err := d.driver.DecodeConfig(config)
	if err != nil {
		return d.plugin.DecodeConfig(config)
	}
	var script map[string]any
	var c Config
	if err := json.Unmarshal(data, &script); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	inner, err := d.plugin.DecodeConfig(c.ofPlugin())
	if err != nil {
		return nil, err
	}
	script[pluginKey] = json.RawMessage(inner)
	return json.Marshal(script)
}

const pluginKey = "of_plugin"

// inner is what the plugin gets.
func inner(cfg *wasmnodev1.TaskConfig) *wasmnodev1.TaskConfig {
	var script map[string]json.RawMessage
	if err := json.Unmarshal(cfg.GetDriverConfig(), &script); err != nil {
		panic(err)
	}
	cfg = cfg.CloneVT()
	cfg.DriverConfig = script[pluginKey]
	return cfg
}

func (d *onPlugin) StartTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, events func(*wasmnodev1.TaskEvent)) (*wasmnodev1.TaskHandle, *wasmnodev1.DriverNetwork, error) {
	d.w.listen(cfg.GetName(), events)
	if err := d.w.fault("start"); err != nil {
		return nil, nil, err
	}
	if c := script(cfg); c.StartHangs {
		ctx = context.WithoutCancel(ctx)
		if err := pause(ctx, duration(c.StartFor)); err != nil {
			return nil, nil, err
		}
	}
	h, n, err := d.plugin.StartTask(ctx, inner(cfg), events)
	if err != nil {
		return nil, nil, err
	}
	_, err = d.w.start(cfg.GetId(), cfg.GetAllocId()+"/"+cfg.GetName(), cfg.GetName())
	return h, n, err
}

func (d *onPlugin) RecoverTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, events func(*wasmnodev1.TaskEvent)) (*wasmnodev1.TaskHandle, error) {
	if _, err := d.driver.RecoverTask(ctx, cfg, h, events); err != nil {
		return nil, err
	}
	return d.plugin.RecoverTask(ctx, inner(cfg), h, events)
}

func (d *onPlugin) WaitTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) (*structs.ExitResult, error) {
	if err := d.w.fault("wait"); err != nil {
		return nil, err
	}
	p := d.w.find(cfg.GetId())
	if p == nil {
		return nil, abi.ErrTaskNotFound
	}
	if script(cfg).WaitHangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-p.done:
			cancel()
		case <-waiting.Done():
		}
	}()
	exit, err := d.plugin.WaitTask(waiting, inner(cfg), h)
	cancel()
	<-watched
	if err == nil {
		d.w.end(p, *exit)
	}
	select {
	case <-p.done:
		return p.exit, nil // as the test says, or the plugin
	default:
		return nil, err
	}
}

func (d *onPlugin) StopTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, signal string, timeout time.Duration) (*wasmnodev1.TaskHandle, error) {
	c := script(cfg)
	if c.StopHangs || c.StopIgnored || d.w.find(cfg.GetId()) == nil {
		return d.driver.StopTask(ctx, cfg, h, signal, timeout)
	}
	d.w.note("stop %s %s", cfg.GetName(), signal)
	return d.plugin.StopTask(ctx, inner(cfg), h, signal, timeout)
}

func (d *onPlugin) SignalTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, signal string) (*wasmnodev1.TaskHandle, error) {
	d.w.note("signal %s %s", cfg.GetName(), signal)
	if err := d.w.fault("signal"); err != nil {
		return nil, err
	}
	return d.plugin.SignalTask(ctx, inner(cfg), h, signal)
}

func (d *onPlugin) DestroyTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, force bool) error {
	if err := d.w.fault("destroy"); err != nil {
		return err
	}
	if len(cfg.GetDriverConfig()) > 0 && script(cfg).DestroyHangs {
		return d.driver.DestroyTask(ctx, cfg, h, force)
	}
	if err := takeLong(ctx, cfg); err != nil {
		return err
	}
	err := d.plugin.DestroyTask(ctx, inner(cfg), h, force)
	d.w.destroy(cfg.GetId())
	return err
}

func (d *onPlugin) ExecTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	if script(cfg).Exec == nil {
		return d.driver.ExecTask(ctx, cfg, h, spec)
	}
	d.w.note("exec %s %s", cfg.GetName(), spec.Command)
	return d.plugin.ExecTask(ctx, inner(cfg), h, spec)
}

func (d *onPlugin) TaskStats(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) (*wasmnodev1.TaskStats, error) {
	if err := d.w.fault("stats"); err != nil {
		return nil, err
	}
	return d.plugin.TaskStats(ctx, inner(cfg), h)
}

func (d *onPlugin) Release() {
	d.driver.Release()
	d.plugin.Release()
}
