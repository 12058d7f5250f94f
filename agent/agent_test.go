package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/internal/codetest"
	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/runners/allocdir/allocdirtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// codeCache is shared by the tests: a Go plugin takes a second to compile.
var codeCache string

func TestMain(m *testing.M) {
	var err error
	if codeCache, err = os.MkdirTemp("", "wasmnode-agent-test"); err != nil {
		log.Fatal(err)
	}
	codetest.Restore(codeCache)
	goleak.VerifyTestMain(leaktest.WithTimeout(m), goleak.Cleanup(func(code int) {
		codetest.Save(codeCache)
		_ = os.RemoveAll(codeCache)
		os.Exit(code)
	}))
}

// options are those of an agent with the drivers "wasi", "raw_exec" and "mock_driver".
func options(t *testing.T) agent.Options {
	t.Helper()
	dir := t.TempDir()
	allocdirtest.Unmount(t, dir)
	o := agent.Options{
		DataDir: filepath.Join(dir, "data"), PluginDir: filepath.Join(dir, "plugins"),
		HTTPAddr: "127.0.0.1:0", LogOutput: t.Output(),
	}
	for _, d := range []string{o.DataDir, o.PluginDir} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	require.NoError(t, os.Symlink(codeCache, filepath.Join(o.DataDir, "cache")))
	for _, name := range []string{"wasi", "raw_exec", "mock"} {
		wasm := guestbuild.Plugin(t, "guest-examples/drivers/"+name)
		require.NoError(t, os.WriteFile(filepath.Join(o.PluginDir, name+".wasm"), wasm, 0o600))
	}
	return o
}

// nothingLeft returns a function that checks that since then neither goroutines nor
// open files were left behind.
func nothingLeft(t *testing.T) func() {
	t.Helper()
	running, files := goleak.IgnoreCurrent(), openFiles(t)
	return func() {
		t.Helper()
		http.DefaultClient.CloseIdleConnections()
		require.Eventually(t, func() bool { return goleak.Find(running) == nil }, 30*time.Second, 10*time.Millisecond)
		require.NoError(t, goleak.Find(running))
		require.Equal(t, files, openFiles(t))
	}
}

func openFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	var files []string
	for _, e := range entries {
		// The descriptor of the listing itself is closed by now.
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			files = append(files, target)
		}
	}
	slices.Sort(files)
	return files
}

// TestAnAgentLeavesNothingBehind ends an agent in the midst of everything: a task of
// each kind runs, and requests wait for an answer.
func TestAnAgentLeavesNothingBehind(t *testing.T) {
	o := options(t)
	programs := t.TempDir()
	sleep := filepath.Join(programs, "sleep.wasm")
	require.NoError(t, os.WriteFile(sleep, guestbuild.Program(t, "guest-examples/programs/sleep"), 0o600))
	config := filepath.Join(programs, "node.hcl")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
		plugin "wasi" { grant { wasm { directories = [%q] } } }
		plugin "raw_exec" { grant { process { commands = ["/bin/sleep"] } } }`, programs), 0o600))
	o.ConfigPaths = []string{config}
	check := nothingLeft(t)
	for range 2 { // the second time, with what the first has stored
		ctx, stop := context.WithCancel(t.Context())
		ready, ended := make(chan string, 1), make(chan error, 1)
		o.Ready = func(address string) { ready <- address }
		go func() { ended <- agent.Run(ctx, o) }()
		client, err := nomad.NewClient(&nomad.Config{Address: "http://" + <-ready})
		require.NoError(t, err)
		for _, job := range []*nomad.Job{
			agenttest.Job("mock", "mock_driver", map[string]any{"run_for": "1h"}),
			agenttest.Job("wasi", "wasi", map[string]any{"module": sleep}),
			agenttest.Job("raw_exec", "raw_exec", map[string]any{"command": "/bin/sleep", "args": []string{"1000"}}),
		} {
			// The agent's own tasks end with it, and are started anew by the second.
			soon := time.Millisecond
			job.TaskGroups[0].RestartPolicy = &nomad.RestartPolicy{Delay: &soon}
			_, _, err = client.Jobs().Register(job, nil)
			require.NoError(t, err)
			awaitRunning(t, client, *job.ID)
		}
		_, meta, err := client.Jobs().List(nil)
		require.NoError(t, err)

		waiting, answered := make(chan struct{}), make(chan struct{})
		go func() {
			close(waiting)
			// An error or an old answer, as it has reached the agent or not.
			_, _, _ = client.Jobs().List(&nomad.QueryOptions{WaitIndex: meta.LastIndex + 1000, WaitTime: time.Hour})
			close(answered)
		}()
		<-waiting
		stop()
		require.NoError(t, <-ended)
		<-answered
		client.Close()
		_, err = net.Dial("tcp", client.Address()[len("http://"):])
		require.Error(t, err)
		check()
	}
}

func awaitRunning(t *testing.T, client *nomad.Client, job string) {
	t.Helper()
	require.Eventually(t, func() bool {
		allocs, _, err := client.Jobs().Allocations(job, true, nil)
		require.NoError(t, err)
		return len(allocs) == 1 && allocs[0].ClientStatus == nomad.AllocClientStatusRunning
	}, 3*time.Minute, 10*time.Millisecond, "compiling takes long under the race detector")
}

// TestAnAgentThatIsStoppedWhileItStarts stops it at each line that it logs until it is
// ready.
func TestAnAgentThatIsStoppedWhileItStarts(t *testing.T) {
	o := options(t)
	o.LogLevel = "trace"
	wasReady := false
	for n := 0; !wasReady; n++ {
		t.Run(fmt.Sprint("line ", n), func(t *testing.T) {
			check := nothingLeft(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if n == 0 {
				stop()
			}
			lines := &stopper{after: n, stop: stop}
			o.LogOutput = lines
			o.Ready = func(string) { wasReady = true; stop() }
			require.NoError(t, agent.Run(ctx, o))
			assert.NotContains(t, lines.text.String(), "[ERROR]")
			check()
		})
	}
}

// stopper is a log that stops its agent after some writes. The logger locks it.
type stopper struct {
	after int
	stop  func()
	text  bytes.Buffer
}

// Write implements io.Writer.
func (s *stopper) Write(p []byte) (int, error) {
	if s.after--; s.after == 0 {
		s.stop()
	}
	return s.text.Write(p)
}

// TestAnAgentThatCannotStartLeavesNothing gives each thing that keeps an agent from
// starting, and looks for what it had opened by then.
func TestAnAgentThatCannotStartLeavesNothing(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, o *agent.Options)
		want  string
	}{
		"no such file":         {func(_ *testing.T, o *agent.Options) { o.ConfigPaths = []string{"/none.hcl"} }, "configuration: stat /none.hcl"},
		"unknown level":        {func(_ *testing.T, o *agent.Options) { o.LogLevel = "loud" }, `log_level: "loud" is not one of`},
		"no address":           {func(_ *testing.T, o *agent.Options) { o.HTTPAddr = "localhost" }, "it has the form HOST:PORT"},
		"no port":              {func(_ *testing.T, o *agent.Options) { o.HTTPAddr = "localhost:-1" }, `"-1" is not a port`},
		"busy port":            {func(_ *testing.T, o *agent.Options) { o.HTTPAddr = busy.Addr().String() }, "address already in use: choose another address"},
		"data_dir is a file":   {func(t *testing.T, o *agent.Options) { o.DataDir = file(t, o.DataDir+".file") }, "data_dir: "},
		"plugin_dir is a file": {func(t *testing.T, o *agent.Options) { o.PluginDir = file(t, o.PluginDir+".file") }, "choose another with -plugin-dir"},
		"a directory for a store": {func(t *testing.T, o *agent.Options) {
			require.NoError(t, os.Mkdir(filepath.Join(o.DataDir, "server.db"), 0o700))
		}, "server.db"},
		"a file for the code cache": {func(t *testing.T, o *agent.Options) {
			require.NoError(t, os.Remove(filepath.Join(o.DataDir, "cache")))
			file(t, filepath.Join(o.DataDir, "cache"))
		}, "cache"},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			for _, dev := range []bool{false, true} {
				o := options(t)
				o.Dev = dev
				o.Ready = func(string) { t.Error("it is ready") }
				c.spoil(t, &o)
				check := nothingLeft(t)
				require.ErrorContains(t, agent.Run(t.Context(), o), c.want)
				check()
				left, err := os.ReadDir(tmp)
				require.NoError(t, err)
				require.Empty(t, left)
			}
		})
	}
}

func file(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	return path
}
