package runnertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// Config is what a task's config block may contain. Durations are Go's.
type Config struct {
	RunFor         string `json:"run_for,omitempty"` // empty: until it is ended
	ExitCode       int    `json:"exit_code,omitempty"`
	ExitSignal     int    `json:"exit_signal,omitempty"`
	ExitErr        string `json:"exit_err,omitempty"`
	StartError     string `json:"start_error,omitempty"`
	Recoverable    bool   `json:"start_error_recoverable,omitempty"`
	StartFor       string `json:"start_for,omitempty"`     // how long the start takes
	StartHangs     bool   `json:"start_hangs,omitempty"`   // it ignores its context
	StopHangs      bool   `json:"stop_hangs,omitempty"`    // stop does not return, nor stop anything
	StopError      string `json:"stop_error,omitempty"`    // stop fails
	StopIgnored    bool   `json:"stop_ignored,omitempty"`  // stop returns, the task goes on
	WaitHangs      bool   `json:"wait_hangs,omitempty"`    // wait never returns
	DestroyHangs   bool   `json:"destroy_hangs,omitempty"` // destroy does not return, nor destroy
	DestroyFor     string `json:"destroy_for,omitempty"`   // how long a destroy takes
	KillAfter      string `json:"kill_after,omitempty"`    // how long a stop takes, within its timeout
	StopExitCode   int    `json:"stop_exit_code,omitempty"`
	StopExitSignal int    `json:"stop_exit_signal,omitempty"`
	SignalError    string `json:"signal_error,omitempty"`
	IP             string `json:"ip,omitempty"` // the task has an address of its own, with http at its port 8080
	Args           []any  `json:"args,omitempty"`
	// Exec is how every command in the task goes, a block in the job's file; none: it
	// says what it was asked for.
	Exec []Command `json:"exec_command,omitempty"`
}

// Command is what a command in a task does.
type Command struct {
	RunFor   string `json:"run_for,omitempty"`
	ExitCode int    `json:"exit_code,omitempty"`
	Stdout   string `json:"stdout_string,omitempty"`
}

type driver struct {
	w        *World
	version  int
	replaced chan struct{}
	released sync.Once
}

func (d *driver) Name() string         { return "mock" }
func (d *driver) PluginDigest() string { return fmt.Sprintf("sha256:%d", d.version) }

func (d *driver) Capabilities() *wasmnodev1.DriverCapabilities {
	return &wasmnodev1.DriverCapabilities{SendSignals: true, Exec: true, NetworkNamespaces: true, CreatesNetworks: d.w.networks != nil}
}

func (d *driver) CreateNetwork(_ context.Context, allocID, hostname string) (*os.File, error) {
	return d.w.networks.Create(allocID, hostname)
}

func (d *driver) RunsProcesses() bool { return true }

func (d *driver) DecodeConfig(config map[string]any) ([]byte, error) {
	data, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var c Config
	if err := dec.Decode(&c); err != nil && len(config) > 0 {
		// As the plugin's schema has it said.
		if _, field, unknown := strings.Cut(err.Error(), "json: unknown field "); unknown {
			err = fmt.Errorf("config.%s: unknown field", strings.Trim(field, `"`))
		}
		return nil, err
	}
	return json.Marshal(c)
}

func script(cfg *wasmnodev1.TaskConfig) (c Config) {
	if err := json.Unmarshal(cfg.GetDriverConfig(), &c); err != nil {
		panic(err)
	}
	return c
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

// pause waits for d, or for ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *driver) StartTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, events func(*wasmnodev1.TaskEvent)) (*wasmnodev1.TaskHandle, *wasmnodev1.DriverNetwork, error) {
	d.w.listen(cfg.GetName(), events)
	c := script(cfg)
	if err := d.w.fault("start"); err != nil {
		return nil, nil, err
	}
	if c.StartFor != "" {
		if c.StartHangs {
			ctx = context.WithoutCancel(ctx)
		}
		if err := pause(ctx, duration(c.StartFor)); err != nil {
			return nil, nil, err
		}
	}
	if c.StartError != "" {
		return nil, nil, &abi.Error{Code: abi.Unknown, Message: c.StartError, Recoverable: c.Recoverable}
	}
	p, err := d.w.start(cfg.GetId(), cfg.GetAllocId()+"/"+cfg.GetName(), cfg.GetName())
	if err != nil {
		return nil, nil, err
	}
	if c.RunFor != "" {
		time.AfterFunc(duration(c.RunFor), func() {
			d.w.end(p, structs.ExitResult{ExitCode: c.ExitCode, Signal: c.ExitSignal, Err: c.ExitErr})
		})
	}
	var network *wasmnodev1.DriverNetwork
	if c.IP != "" {
		network = &wasmnodev1.DriverNetwork{Ip: c.IP, PortMap: map[string]uint32{"http": 8080}}
	}
	return &wasmnodev1.TaskHandle{Version: 1, WorkloadId: cfg.GetId(), DriverState: []byte("0")}, network, nil
}

// KeepSecrets notes of which variables of a task it is told that they are secrets.
func (d *driver) KeepSecrets(_ string, variables []string) {
	if len(variables) > 0 {
		d.w.note("secrets %s", strings.Join(variables, " "))
	}
}

func (d *driver) RecoverTask(_ context.Context, cfg *wasmnodev1.TaskConfig, _ *wasmnodev1.TaskHandle, events func(*wasmnodev1.TaskEvent)) (*wasmnodev1.TaskHandle, error) {
	d.w.listen(cfg.GetName(), events)
	d.w.note("recover %s with version %d", cfg.GetName(), d.version)
	if err := d.w.fault("recover"); err != nil {
		return nil, err
	}
	if d.w.find(cfg.GetId()) == nil {
		return nil, abi.ErrTaskNotFound
	}
	return &wasmnodev1.TaskHandle{Version: 1, WorkloadId: cfg.GetId(), DriverState: fmt.Appendf(nil, "version %d", d.version)}, nil
}

func (d *driver) WaitTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, _ *wasmnodev1.TaskHandle) (*structs.ExitResult, error) {
	if err := d.w.fault("wait"); err != nil {
		return nil, err
	}
	p := d.w.find(cfg.GetId())
	if p == nil {
		return nil, abi.ErrTaskNotFound
	}
	if script(cfg).WaitHangs {
		<-ctx.Done() // the goroutine has to end some time
		return nil, ctx.Err()
	}
	select {
	case <-p.done:
		return p.exit, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *driver) StopTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, signal string, timeout time.Duration) (*wasmnodev1.TaskHandle, error) {
	c := script(cfg)
	d.w.note("stop %s %s", cfg.GetName(), signal)
	switch {
	case c.StopHangs:
		<-ctx.Done()
		return nil, ctx.Err()
	case c.StopError != "":
		return nil, errors.New(c.StopError)
	case c.StopIgnored:
		return nil, nil
	}
	p := d.w.find(cfg.GetId())
	if p == nil {
		return nil, abi.ErrTaskNotFound
	}
	if c.KillAfter != "" && pause(ctx, min(duration(c.KillAfter), timeout)) != nil {
		return nil, ctx.Err()
	}
	d.w.end(p, structs.ExitResult{ExitCode: c.StopExitCode, Signal: c.StopExitSignal})
	return &wasmnodev1.TaskHandle{Version: 1, WorkloadId: h.GetWorkloadId(), DriverState: []byte("stopped")}, nil
}

func (d *driver) SignalTask(_ context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, signal string) (*wasmnodev1.TaskHandle, error) {
	d.w.note("signal %s %s", cfg.GetName(), signal)
	if err := d.w.fault("signal"); err != nil {
		return nil, err
	}
	if text := script(cfg).SignalError; text != "" {
		return nil, errors.New(text)
	}
	return &wasmnodev1.TaskHandle{Version: 1, WorkloadId: h.GetWorkloadId(), DriverState: []byte(signal)}, nil
}

// ExecTask does what the task's config says of commands. Without that it says what it was
// asked for; "hang" waits for the end of ctx.
func (d *driver) ExecTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, _ *wasmnodev1.TaskHandle, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	d.w.note("exec %s %s", cfg.GetName(), spec.Command)
	stdout := spec.Stdout
	if stdout == nil {
		stdout = io.Discard
	}
	if commands := script(cfg).Exec; len(commands) > 0 {
		c := commands[0]
		if err := pause(ctx, duration(cmp.Or(c.RunFor, "0s"))); err != nil {
			return nil, err
		}
		_, err := fmt.Fprint(stdout, c.Stdout)
		return &structs.ExitResult{ExitCode: c.ExitCode}, err
	}
	if spec.Command == "hang" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, err := fmt.Fprintf(stdout, "%s in %s", spec.Command, cfg.GetName())
	return &structs.ExitResult{ExitCode: 3}, err
}

func (d *driver) DestroyTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, _ bool) error {
	if h == nil {
		return abi.NewError(abi.InvalidArgument, "no handle")
	}
	if len(cfg.GetDriverConfig()) > 0 && script(cfg).DestroyHangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := d.w.fault("destroy"); err != nil {
		return err
	}
	if err := takeLong(ctx, cfg); err != nil {
		return err
	}
	d.w.destroy(cfg.GetId())
	return nil
}

// takeLong is how long a destroy takes.
func takeLong(ctx context.Context, cfg *wasmnodev1.TaskConfig) error {
	if len(cfg.GetDriverConfig()) == 0 || script(cfg).DestroyFor == "" {
		return nil
	}
	return pause(ctx, duration(script(cfg).DestroyFor))
}

func (d *driver) TaskStats(context.Context, *wasmnodev1.TaskConfig, *wasmnodev1.TaskHandle) (*wasmnodev1.TaskStats, error) {
	if err := d.w.fault("stats"); err != nil {
		return nil, err
	}
	return &wasmnodev1.TaskStats{TimeNs: time.Now().UnixNano()}, nil
}

func (d *driver) Replaced() <-chan struct{} { return d.replaced }

func (d *driver) Release() {
	d.released.Do(func() {
		d.w.mu.Lock()
		defer d.w.mu.Unlock()
		d.w.holds--
	})
}
