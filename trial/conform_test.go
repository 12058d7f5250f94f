package trial_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/trial"
)

// open loads a plugin of the repository, without configuring it.
func open(t *testing.T, wasm []byte) *trial.Trial {
	t.Helper()
	tried, err := trial.Open(t.Context(), wasm, trial.Config{Logger: hclog.NewNullLogger(), CacheDir: codeCache, Limits: host.Limits{
		CallTimeout: time.Minute, DescribeTime: time.Minute, CPUPerMinute: time.Minute,
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tried.Close()) })
	return tried
}

// failed are the checks that failed, and why.
func failed(r *conform.Report) map[string]string {
	out := map[string]string{}
	for _, c := range r.Checks {
		if c.Status == conform.Fail {
			out[c.Name] = c.Why
		}
	}
	return out
}

// TestABrokenPluginFailsTheCheckThatIsMeant breaks one thing at a time.
func TestABrokenPluginFailsTheCheckThatIsMeant(t *testing.T) {
	tried := open(t, guestbuild.Plugin(t, "trial/testdata/broken"))
	for how, want := range map[string]map[string]string{
		"":                 {},
		"attribute":        {"fingerprint/attributes": `the attribute "cpu.arch" is not driver.broken, and not below it`},
		"capability":       {"start_task/capability-fails": "use 1 of 1, UNAVAILABLE: plugin broken trapped in driver_start_task: wasm error: unreachable"},
		"claimed workload": {"start_task": "driver_start_task: the handle names the workload \"00000000-0000-0000-0000-000000000001/task/00000001\", which there is not"},
		"destroy":          {"destroy_task/running": "it destroys a task that runs, without force"},
		"deaf":             {"exec_task/gone": "it goes on when whoever asked for the command has gone"},
		"echo":             {"signal_task/long": "plugin broken broke the contract in driver_signal_task: "},
		"events":           {"events": "driver_start_task sends an event of 1500 bytes, of which a node shows 1024"},
		"garbage":          {"handle/garbage": "driver_recover_task takes a driver_state that it cannot have read"},
		"hoard":            {"start_task/large": "bytes, the limit is 65536"},
		"log":              {"log": "driver_inspect_task logs a line of 10000 bytes, of which a node shows 8192"},
		"network":          {"create_network/again": "the same allocation has another namespace the second time"},
		"no network":       {"destroy_network": "driver_destroy_network: NOT_FOUND: there is no network of", "destroy_network/again": "NOT_FOUND"},
		"memory":           {"fresh-instances": "recover_task: it goes wrong when the instance is another than that of the call before"},
		"no wait":          {"start_task/no-workload": "the handle names no workload, and the driver has no driver_wait_task: the node would lose the task"},
		"stop":             {"stop_task/again": "driver_stop_task: FAILED_PRECONDITION: it has ended"},
		"wait":             {"wait_task/again": "it answers something else the second time, and has to answer the same after the end"},
		"wordless":         {"errors": "driver_inspect_task answers INTERNAL without a word"},
		"loop":             {"inspect_task": "plugin broken was too slow in driver_inspect_task: "},

		"panics in driver_recover_task": {"recover_task/capability-fails": "use 1 of 1, UNAVAILABLE: plugin broken trapped in driver_recover_task: "},
		"panics in driver_inspect_task": {"inspect_task/capability-fails": "plugin broken trapped in driver_inspect_task: "},
		"panics in driver_task_stats":   {"task_stats/capability-fails": "plugin broken trapped in driver_task_stats: "},
		"panics in driver_signal_task":  {"signal_task/capability-fails": "plugin broken trapped in driver_signal_task: "},
		"panics in driver_exec_task":    {"exec_task/capability-fails": "plugin broken trapped in driver_exec_task: "},
		"panics in driver_wait_task":    {"wait_task/capability-fails": "plugin broken trapped in driver_wait_task: ", "wait_task/ended/capability-fails": "plugin broken trapped in driver_wait_task: "},
		"panics in driver_stop_task":    {"stop_task/capability-fails": "plugin broken trapped in driver_stop_task: "},
		"panics in driver_destroy_task": {"destroy_task/capability-fails": "plugin broken trapped in driver_destroy_task: "},
		"asks in driver_stop_task":      {},
		"asks in driver_wait_task":      {},
		"sticks in driver_stop_task":    {"stop_task/capability-fails": "use 1 of 1, UNAVAILABLE: the same call again, without a failure: INTERNAL: it is stuck"},
		"sticks in driver_destroy_task": {"destroy_task/capability-fails": "the same call again, without a failure: INTERNAL: it is stuck"},
	} {
		t.Run(how, func(t *testing.T) {
			require.NoError(t, tried.Configure(t.Context(), host.Grants{}, map[string]any{"how": how}))
			timeout := time.Minute
			if how == "loop" || how == "deaf" {
				timeout = time.Second // a busy machine does all else within it
			}
			r := tried.Conform(t.Context(), t.TempDir(), conform.Options{Timeout: timeout})
			got := failed(r)
			for name, why := range want {
				require.Contains(t, got, name)
				assert.Contains(t, got[name], why)
			}
			assert.Len(t, got, len(want), "%v", got)
			assert.Greater(t, r.Count(conform.OK), 40)
		})
	}
}

// TestABrokenDevicePluginFailsTheCheckThatIsMeant breaks one thing at a time.
func TestABrokenDevicePluginFailsTheCheckThatIsMeant(t *testing.T) {
	tried := open(t, guestbuild.Plugin(t, "trial/testdata/broken_device"))
	for how, want := range map[string]map[string]string{
		"":         {},
		"again":    {"reserve/again": "the same request has another answer"},
		"groups":   {"fingerprint": "the group wasmnode/broken/one is listed twice"},
		"hooks":    {"reserve": "hooks are refused by every node"},
		"ids":      {"fingerprint": `the group wasmnode/broken/one has a device without an ID, or with that of another: "a"`},
		"mount":    {"reserve": `the mount of "here" at "/there": a path is not absolute`},
		"name":     {"fingerprint": "a part of a group's name is missing"},
		"node":     {"reserve": `the path of the device node "null" is not absolute`},
		"release":  {"release/again": "device_release: FAILED_PRECONDITION: it is free"},
		"unknown":  {"reserve/unknown": "it reserves a device of a group that there is not"},
		"variable": {"reserve": `the variable "LD_PRELOAD=/x" is none that a plugin may set`},
	} {
		t.Run(how, func(t *testing.T) {
			require.NoError(t, tried.Configure(t.Context(), host.Grants{KV: host.KVGrant{Enabled: true}}, map[string]any{"how": how}))
			r := tried.Conform(t.Context(), t.TempDir(), conform.Options{Timeout: time.Minute})
			got := failed(r)
			for name, why := range want {
				require.Contains(t, got, name)
				assert.Contains(t, got[name], why)
			}
			assert.Len(t, got, len(want), "%v", got)
			assert.Greater(t, r.Count(conform.OK), 20)
		})
	}
}

// TestTheExamplePluginsConform checks those that can start tasks, or reserve devices, on any
// machine; make conform checks all.
func TestTheExamplePluginsConform(t *testing.T) {
	program := guestbuild.Program(t, "guest-examples/programs/sleep")
	programs := t.TempDir()
	put(t, filepath.Join(programs, "sleep.wasm"), program)
	process := host.ProcessGrant{Commands: []string{"/bin/sleep"}}
	devices := t.TempDir()
	put(t, filepath.Join(devices, "a"), []byte("here"))
	for _, c := range []struct {
		folder string
		grants host.Grants
		config map[string]any
		task   map[string]any // nil: nothing is started
	}{
		{folder: "drivers/mock", task: map[string]any{"run_for": "1h"}},
		{folder: "drivers/wasi", grants: host.Grants{Wasm: host.WasmGrant{Directories: []string{programs}}}, task: map[string]any{"module": filepath.Join(programs, "sleep.wasm"), "args": []string{"1h"}}},
		{folder: "drivers/c-minimal", grants: host.Grants{Wasm: host.WasmGrant{Directories: []string{programs}}}, task: map[string]any{"module": filepath.Join(programs, "sleep.wasm")}},
		{folder: "drivers/raw_exec", grants: host.Grants{Process: process}, task: map[string]any{"command": "/bin/sleep", "args": []string{"3600"}}},
		{folder: "devices/example", grants: host.Grants{FS: host.FSGrant{ReadOnly: []string{devices}}}, config: map[string]any{"dir": devices}},
	} {
		t.Run(c.folder, func(t *testing.T) {
			build := guestbuild.Plugin
			if c.folder == "drivers/c-minimal" {
				build = guestbuild.CPlugin
			}
			tried := open(t, build(t, "guest-examples/"+c.folder))
			require.NoError(t, tried.Configure(t.Context(), c.grants, c.config))
			task, err := json.Marshal(c.task)
			require.NoError(t, err)
			o := conform.Options{Timeout: time.Minute}
			if c.task != nil {
				o.TaskConfig = task
			}
			r := tried.Conform(t.Context(), t.TempDir(), o)
			assert.Empty(t, failed(r))
			assert.Greater(t, r.Count(conform.OK), 20)
		})
	}
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, content, 0o600))
}
