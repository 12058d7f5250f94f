// Package agenttest starts whole agents for tests and benchmarks: every layer is the
// real one, and so are the plugins.
//
// It is for tests only and must never know more of an agent than a user does: its
// configuration, its directories and its HTTP API. Start reading at [Start].
package agenttest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/runners/allocdir/allocdirtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// testTimeout is how long anything that a test waits for may take: far longer than it
// does, for machines that do much else and compile under the race detector.
const testTimeout = 3 * time.Minute

// Agent is an agent that runs.
type Agent struct {
	URL      string        // of the HTTP API
	Client   *nomad.Client // Nomad's own, at that address
	Programs string        // a directory that the driver "wasi" may run programs from
	Data     string        // its data directory
}

// Options configure the agent to start. The zero value is one without drivers.
type Options struct {
	// Drivers are directories of guest-examples/drivers.
	Drivers []string
	// CodeCache is a directory for compiled code that outlives the agent; empty: the
	// agent compiles its plugins itself.
	CodeCache string
	// Config is more of the configuration file.
	Config string
	// Client is more of its block client.
	Client string
	// Dir is where all that it has is; empty: in a directory of the test's.
	Dir string
	// Supervisor is the command of the process that owns the tasks; nil: the agent does.
	Supervisor []string
	// Kept is how many allocations are kept, ended ones included; 0: all that a test has.
	Kept int
}

// Start starts an agent and returns when its drivers are healthy. It ends with the
// test.
func Start(t testing.TB, o Options) *Agent {
	t.Helper()
	dir := cmp.Or(o.Dir, t.TempDir())
	a := &Agent{Programs: filepath.Join(dir, "programs")}
	plugins, data := filepath.Join(dir, "plugins"), filepath.Join(dir, "data")
	a.Data = data
	for _, d := range []string{a.Programs, plugins, data} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	if o.CodeCache != "" {
		require.NoError(t, os.Symlink(o.CodeCache, filepath.Join(data, "cache")))
	}
	for _, name := range o.Drivers {
		write(t, plugins, name, guestbuild.Plugin(t, "guest-examples/drivers/"+name))
	}
	config := filepath.Join(dir, "node.hcl")
	// However much there is and however full the machine's disk is, what has ended is kept.
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `client {
  gc_max_allocs            = %d
  gc_disk_usage_threshold  = 100
  gc_inode_usage_threshold = 100
%s}
plugin "wasi" {
  grant {
    wasm {
      directories = [%q]
    }
  }
}
plugin "raw_exec" { grant { process { commands = ["*"] } } }
%s
`, cmp.Or(o.Kept, 1000), o.Client, a.Programs, o.Config), 0o600))
	address := Run(t, agent.Options{
		ConfigPaths: []string{config}, DataDir: data, PluginDir: plugins,
		HTTPAddr: "127.0.0.1:0", LogLevel: "error", LogOutput: t.Output(), Supervisor: o.Supervisor,
	})
	a.URL = "http://" + address
	var err error
	a.Client, err = nomad.NewClient(&nomad.Config{Address: a.URL})
	require.NoError(t, err)
	t.Cleanup(a.Client.Close)
	a.awaitDrivers(t, len(o.Drivers))
	return a
}

// awaitDrivers waits until the node has so many healthy drivers: it is ready without one
// that takes too long to be compiled.
func (a *Agent) awaitDrivers(t testing.TB, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		nodes, _, err := a.Client.Nodes().List(nil)
		if err != nil || len(nodes) != 1 {
			return false
		}
		healthy := 0
		for _, d := range nodes[0].Drivers {
			if d.Healthy {
				healthy++
			}
		}
		return healthy == n
	}, testTimeout, time.Millisecond, "waiting for %d drivers", n)
}

// Run runs an agent until the test ends, and returns its address when it is ready.
func Run(t testing.TB, o agent.Options) (address string) {
	t.Helper()
	ready, ended := make(chan string, 1), make(chan error, 1)
	o.Ready = func(address string) { ready <- address }
	if o.DataDir != "" {
		allocdirtest.Unmount(t, o.DataDir)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- agent.Run(ctx, o) }()
	select {
	case address = <-ready:
	case err := <-ended:
		cancel()
		require.FailNow(t, "the agent did not start", "%v", err)
	}
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return address
}

// Program compiles a program of guest-examples/programs and returns its path, which
// a task of the driver "wasi" may name as its module.
func (a *Agent) Program(t testing.TB, name string) (path string) {
	t.Helper()
	return write(t, a.Programs, name, guestbuild.Program(t, "guest-examples/programs/"+name))
}

func write(t testing.TB, dir, name string, wasm []byte) (path string) {
	t.Helper()
	path = filepath.Join(dir, name+".wasm")
	require.NoError(t, os.WriteFile(path, wasm, 0o600))
	return path
}

// Job returns a batch job of one small task; what more it is, the caller sets.
func Job(id, driver string, config map[string]any) *nomad.Job {
	job := nomad.NewBatchJob(id, id, "global", 50)
	task := nomad.NewTask("task", driver)
	task.Config = config
	cpu, memory := 1, 16
	task.Resources = &nomad.Resources{CPU: &cpu, MemoryMB: &memory}
	group := nomad.NewTaskGroup("group", 1).AddTask(task)
	disk := 10
	group.EphemeralDisk = &nomad.EphemeralDisk{SizeMB: &disk}
	files, size := 2, 1
	task.LogConfig = &nomad.LogConfig{MaxFiles: &files, MaxFileSizeMB: &size}
	return job.AddTaskGroup(group)
}

// Await waits until every allocation of a job has a client status, and returns them.
func (a *Agent) Await(t testing.TB, jobID, status string) []*nomad.AllocationListStub {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	q := (&nomad.QueryOptions{}).WithContext(ctx)
	var seen string
	for {
		allocs, meta, err := a.Client.Jobs().Allocations(jobID, true, q)
		require.NoError(t, err, "waiting for %s to be %s; seen last:\n%s", jobID, status, seen)
		seen = describe(allocs)
		if len(allocs) > 0 && all(allocs, status) {
			return allocs
		}
		q.WaitIndex = meta.LastIndex
	}
}

func all(allocs []*nomad.AllocationListStub, status string) bool {
	for _, a := range allocs {
		if a.ClientStatus != status {
			return false
		}
	}
	return true
}

func describe(allocs []*nomad.AllocationListStub) string {
	var b strings.Builder
	for _, a := range allocs {
		fmt.Fprintln(&b, a.ID, a.DesiredStatus, a.ClientStatus, a.ClientDescription)
		for name, task := range a.TaskStates {
			for _, e := range task.Events {
				fmt.Fprintln(&b, "   ", name, e.Type, e.DisplayMessage)
			}
		}
	}
	return b.String()
}
