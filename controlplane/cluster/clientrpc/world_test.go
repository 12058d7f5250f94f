package clientrpc

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/internal/plugintest"
	"github.com/wasmnode/wasmnode/managers/volumes"
	"github.com/wasmnode/wasmnode/node"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

// world is a node with a real driver, and a server that asks it over a real connection.
type world struct {
	t      *testing.T
	plane  *standalone.ControlPlane
	node   *node.Node
	server *wire.Session
	answer *server
	log    hclog.InterceptLogger
}

// newWorld starts a node that runs tasks, and connects a server to it. change is done to what is
// answered with.
func newWorld(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	w := newNode(t, plugintest.Dispense(t), change...)
	w.node.UpdateDriver("mock_driver", &structs.DriverInfo{Detected: true, Healthy: true})
	return w
}

// newNode is newWorld with other drivers, or none.
func newNode(t *testing.T, drivers task.Dispense, change ...func(*Config)) *world {
	t.Helper()
	plane, err := standalone.Open(standalone.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Close()) })
	w := &world{t: t, plane: plane, log: hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard})}
	dir := t.TempDir()
	w.node, err = node.New(node.Config{
		Logger: w.log, ControlPlane: plane.ForNode(), State: state.NewMem(), Dispense: drivers,
		DriversReady: func(context.Context) error { return nil }, AllocsDir: filepath.Join(dir, "alloc"),
		Identity: structs.Node{Name: "here", Datacenter: "dc1", Region: "global", Meta: map[string]string{"rack": "r1"}},
		Volumes:  volumes.New(volumes.Config{Dir: filepath.Join(dir, "volumes"), Logger: w.log}),
	})
	require.NoError(t, err)
	plane.SetVolumeHost(w.node)
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- w.node.Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	<-ready
	cfg := Config{Logger: w.log, Node: w.node, NodeID: w.node.ID(), Volumes: w.node, Logs: w.log, Debug: true}
	for _, c := range change {
		c(&cfg)
	}
	w.answer = newServer(cfg)
	_, w.server = connect(t, w.answer)
	return w
}

// noDriver is what a node without drivers dispenses.
func noDriver(name string) (task.Driver, error) {
	return nil, errdefs.New(errdefs.NotFound, "there is no driver %q", name)
}

// connect connects a server to what answers.
func connect(t *testing.T, s *server) (ofNode, ofServer *wire.Session) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	var accepting sync.WaitGroup
	accepting.Go(func() {
		conn, err := l.Accept()
		if err == nil {
			ofServer, err = wire.Accept(t.Context(), conn, wire.Options{})
		}
		if err != nil {
			t.Error(err)
		}
	})
	ofNode, err = wire.Dial(t.Context(), l.Addr().String(), wire.Options{Handler: s.handler()})
	require.NoError(t, err)
	accepting.Wait()
	t.Cleanup(func() { ofServer.Close(); ofNode.Close() })
	return ofNode, ofServer
}

// run has a task of the mock driver run, and returns the ID of its allocation.
func (w *world) run(id string, config map[string]any, change ...func(*nomad.Job)) (allocID string) {
	w.t.Helper()
	job := nomad.NewBatchJob(id, id, "global", 50)
	task := nomad.NewTask("task", "mock_driver")
	task.Config = map[string]any{"run_for": "1h"}
	for key, value := range config {
		task.Config[key] = value
	}
	task.Resources = &nomad.Resources{CPU: new(1), MemoryMB: new(16)}
	task.LogConfig = &nomad.LogConfig{MaxFiles: new(2), MaxFileSizeMB: new(1)}
	task.Actions = []*nomad.Action{{Name: "greet", Command: "echo", Args: []string{"hello"}}}
	group := nomad.NewTaskGroup("group", 1).AddTask(task)
	group.EphemeralDisk = &nomad.EphemeralDisk{SizeMB: new(10)}
	job.AddTaskGroup(group)
	for _, c := range change {
		c(job)
	}
	_, err := w.plane.RegisterJob(&structs.JobRegistration{Job: job})
	require.NoError(w.t, err)
	return w.await(id, structs.ClientRunning)
}

// await waits until the allocation of a job has a status.
func (w *world) await(job string, status structs.ClientStatus) (allocID string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for {
		seen := w.plane.Index("allocations")
		for _, a := range w.plane.JobAllocations("default", job) {
			if a.ClientStatus == status {
				return a.ID
			}
		}
		require.NoError(w.t, ctx.Err(), "waiting for %s to be %s", job, status)
		w.plane.Wait(ctx, "allocations", seen)
	}
}

// ask calls a method that is to be answered.
func (w *world) ask(method string, args any) (reply map[string]any) {
	w.t.Helper()
	require.NoError(w.t, w.server.Call(w.t.Context(), method, args, &reply), method)
	return reply
}

// refused calls a method, or opens a stream, that is to be refused, and returns why.
func (w *world) refused(method string, args any) string {
	w.t.Helper()
	if w.answer.methods[method] == nil {
		err := w.server.Call(w.t.Context(), method, args, nil)
		require.Error(w.t, err, method)
		return err.Error()
	}
	_, err := w.read(method, args)
	require.Error(w.t, err, method)
	return err.Error()
}

// read opens a stream and reads it to its end.
func (w *world) read(method string, args any) (text string, err error) {
	w.t.Helper()
	st, err := w.server.Open(w.t.Context(), method, args)
	require.NoError(w.t, err, method)
	defer st.Close()
	for {
		part, err := st.Receive()
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return text, err
		}
		text += string(part)
	}
}
