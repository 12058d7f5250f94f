package clientrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload"
)

// refusals are those of a node that has less than others.
func (w *world) refusals(t *testing.T) {
	less := *w
	cfg := w.answer.Config
	cfg.Volumes, cfg.Logs, cfg.Debug = nil, nil, false
	less.answer = newServer(cfg)
	_, less.server = connect(t, less.answer)
	id := w.run("refusing", nil)
	dir, err := w.node.Directory(id)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir.Path(), "task", "secrets", "key"), []byte("hidden"), 0o600))
	require.NoError(t, os.Symlink("/etc", filepath.Join(dir.Data(), "out")))

	const notHere = "11111111-2222-3333-4444-555555555555"
	unknown := fmt.Sprintf("Unknown allocation %q", notHere)
	logs := func(more args) args {
		all := args{"AllocID": id, "Task": "task", "LogType": "stdout"}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	for _, c := range []struct {
		method string
		args   args
		text   string
	}{
		{"No.Such", args{}, "rpc: can't find method No.Such"},
		{"Allocations.SetPauseState", args{"AllocID": id}, "rpc: can't find method Allocations.SetPauseState"},
		{"CSI.NodeDetachVolume", args{}, "rpc: can't find method CSI.NodeDetachVolume"},

		{"Allocations.Restart", args{"AllocID": notHere}, ": " + unknown},
		{"Allocations.Restart", args{}, `: Unknown allocation ""`},
		{"Allocations.Restart", args{"AllocID": id, "TaskName": "none"}, "RPC Error:: 404,"},
		{"Allocations.Restart", args{"AllocID": id, "TaskName": "task", "AllTasks": true}, "RPC Error:: 400,can't restart all tasks and task"},
		{"Allocations.Signal", args{"AllocID": notHere}, unknown},
		{"Allocations.Signal", args{"AllocID": id, "Signal": "SIGNONE"}, "RPC Error:: 400,"},
		{"Allocations.Stats", args{"AllocID": notHere}, unknown},
		{"Allocations.Checks", args{"AllocID": notHere}, unknown},
		{"Allocations.GarbageCollect", args{"AllocID": notHere}, unknown},
		{"Allocations.GarbageCollectAll", args{"NodeID": "another"}, `: Unknown node "another"`},
		{"ClientStats.Stats", args{"NodeID": "another"}, `Unknown node "another"`},
		{"NodeMeta.Apply", args{"NodeID": "another", "Meta": args{"a": "b"}}, `Unknown node "another"`},
		{"NodeMeta.Read", args{"NodeID": "another"}, `Unknown node "another"`},
		{"NodeIdentity.Get", args{"NodeID": "another"}, `Unknown node "another"`},
		{"NodeIdentity.Renew", args{"NodeID": "another"}, `Unknown node "another"`},
		{"NodeIdentity.Get", args{}, "node does not have a JWT identity token"},
		{"NodeIdentity.Renew", args{}, "node does not have a JWT identity token"},
		{"Agent.Host", args{"NodeID": "another"}, `Unknown node "another"`},
		{"Agent.Host", args{}, "tells nothing of its machine"},
		{"Agent.Profile", args{"NodeID": "another"}, `Unknown node "another"`},
		{"Agent.Profile", args{"ReqType": "cmdline"}, "RPC Error:: 403,Permission denied: set enable_debug"},
		{"HostVolume.Create", args{"ID": "v", "Name": "n", "PluginID": "mkdir"}, "RPC Error:: 400,the node makes no dynamic host volumes"},
		{"HostVolume.Delete", args{"NodeID": "another"}, `Unknown node "another"`},

		{"FileSystem.List", args{"AllocID": notHere}, ": " + unknown},
		{"FileSystem.List", args{}, "must provide a valid alloc id"},
		{"FileSystem.List", args{"AllocID": id, "Path": "alloc/none"}, "FileSystem.List: allocdir: "},
		{"FileSystem.List", args{"AllocID": id, "Path": "task/secrets"}, "RPC Error:: 403,"},
		{"FileSystem.List", args{"AllocID": id, "Path": "alloc/data/out"}, "escapes"},
		{"FileSystem.Stat", args{"AllocID": id, "Path": "task/secrets/key"}, "RPC Error:: 403,"},
		{"FileSystem.Stat", args{"AllocID": id, "Path": "../../../../etc/passwd"}, "no such file or directory"},

		{"FileSystem.Stream", args{"AllocID": notHere, "Path": "a"}, "stream: " + unknown},
		{"FileSystem.Stream", args{"AllocID": id}, "must provide a file path"},
		{"FileSystem.Stream", args{"AllocID": id, "Path": "alloc"}, "is a directory"},
		{"FileSystem.Stream", args{"AllocID": id, "Path": "alloc/none"}, "no such file or directory"},
		{"FileSystem.Stream", args{"AllocID": id, "Path": "task/secrets/key"}, "secrets are not readable"},
		{"FileSystem.Stream", args{"AllocID": id, "Path": "alloc/data/out/passwd"}, "escapes"},
		{"FileSystem.Stream", args{"AllocID": id, "Path": "a", "Origin": "middle"}, "must have a start or end origin value"},
		{"FileSystem.Stream", args{"AllocID": id, "Path": "a", "Offset": -1}, "is not a byte count"},

		{"FileSystem.Logs", logs(args{"AllocID": notHere}), unknown},
		{"FileSystem.Logs", logs(args{"AllocID": ""}), "must provide a valid alloc id"},
		{"FileSystem.Logs", logs(args{"Task": ""}), "must provide task name"},
		{"FileSystem.Logs", logs(args{"Task": "../task"}), `unknown task name "../task"`},
		{"FileSystem.Logs", logs(args{"LogType": "stdin"}), "must provide log type (stdout/stderr)"},
		{"FileSystem.Logs", logs(args{"Origin": "middle"}), "must have a start or end origin value"},

		{"Allocations.Exec", args{}, "must provide a valid alloc id"},
		{"Allocations.Exec", args{"AllocID": notHere}, unknown},
		{"Allocations.Exec", args{"AllocID": id, "Cmd": []string{"x"}}, "must provide task name"},
		{"Allocations.Exec", args{"AllocID": id, "Task": "none", "Cmd": []string{"x"}}, `unknown task name "none"`},
		{"Allocations.Exec", args{"AllocID": id, "Task": "task"}, "command is not present"},
		{"Allocations.Exec", args{"AllocID": id, "Task": "task", "Cmd": []string{""}}, "command is not present"},
		{"Allocations.Exec", args{"AllocID": id, "Task": "task", "JobID": "other", "Action": "greet"}, "job other does not have allocation"},
		{"Allocations.Exec", args{"AllocID": id, "Task": "task", "Action": "none"}, "action none not found in task task"},
		{"Agent.Monitor", args{"NodeID": "another"}, `Unknown node "another"`},
		{"Agent.Monitor", args{}, "this agent's log cannot be followed"},
		{"Agent.MonitorExport", args{"NodeID": "another"}, `Unknown node "another"`},
	} {
		got := less.refused(c.method, c.args)
		require.Contains(t, got, c.text, "%s %v", c.method, c.args)
		require.NotContains(t, got, "\n", "%s %v", c.method, c.args)
	}
}

func TestATaskThatHasNotStartedHasNoLogs(t *testing.T) {
	n := &told{state: &structs.AllocationState{TaskStates: map[string]*structs.TaskState{"task": {State: structs.TaskPending}}}}
	s := newServer(Config{Logger: hclog.NewNullLogger(), Node: n})
	require.EqualError(t, s.hasStarted("a", "task"), `task "task" not started yet. No logs available`)
	n.state.TaskStates["task"].StartedAt = time.Unix(1, 0)
	require.NoError(t, s.hasStarted("a", "task"))
}

// told is a node that knows one allocation, and runs commands that say what they are told.
type told struct {
	Node
	alloc *structs.Allocation
	state *structs.AllocationState
	run   func(ctx context.Context, spec *workload.ExecSpec) error
}

func (n *told) Allocation(string) (*structs.Allocation, error)           { return n.alloc, nil }
func (n *told) AllocationState(string) (*structs.AllocationState, error) { return n.state, nil }
func (n *told) CanExec(string, string) error                             { return nil }

func (n *told) Exec(ctx context.Context, _, _ string, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	return &structs.ExitResult{}, n.run(ctx, spec)
}

// shell is a node with a task of a driver, whose commands are run by run.
func shell(driver string, run func(context.Context, *workload.ExecSpec) error) *told {
	group := nomad.NewTaskGroup("group", 1).AddTask(nomad.NewTask("task", driver))
	job := nomad.NewBatchJob("web", "web", "global", 50).AddTaskGroup(group)
	return &told{run: run, alloc: &structs.Allocation{ID: "a", Namespace: "team", JobID: "web", Job: job, TaskGroup: "group"}}
}

var runIt = args{"AllocID": "a", "Task": "task", "Cmd": []string{"sh"}, "Tty": true, "AuthToken": "secret-token"}

func TestACommandsInputAndTerminalGoBothWays(t *testing.T) {
	s := newServer(Config{Logger: hclog.NewNullLogger(), Node: shell("exec", func(_ context.Context, spec *workload.ExecSpec) error {
		fmt.Fprintf(spec.Stdout, "%dx%d;", spec.Size.Rows, spec.Size.Columns)
		text, err := io.ReadAll(spec.Stdin)
		fmt.Fprintf(spec.Stdout, "%s;", text)
		size := <-spec.Resize
		fmt.Fprintf(spec.Stderr, "%dx%d", size.Rows, size.Columns)
		return err
	})})
	_, server := connect(t, s)
	st, err := server.Open(t.Context(), "Allocations.Exec", runIt)
	require.NoError(t, err)
	defer st.Close()
	size := func(rows, columns int) args {
		return args{"TtySize": args{"Height": rows, "Width": columns, "XXX_sizecache": 7}, "Setup": nil, "Stdin": nil}
	}
	stdin := func(text string, closed bool) args {
		return args{"Stdin": args{"Data": []byte(text), "Close": closed}, "TtySize": nil, "XXX_unrecognized": nil}
	}
	for _, message := range []args{{}, size(33, 101), stdin("hel", false), stdin("lo", false), stdin("", true), size(-1, 1<<20)} {
		require.NoError(t, st.SendValue(message))
	}
	var got []string
	for {
		part, err := st.Receive()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		if string(part) != "{}" {
			got = append(got, string(part))
		}
	}
	require.Equal(t, []string{
		`{"stdout":{"data":"MzN4MTAxOw=="}}`, `{"stdout":{"data":"aGVsbG87"}}`, `{"stderr":{"data":"MHg2NTUzNQ=="}}`, `{"exited":true,"result":{"exit_code":0}}`,
	}, got)
}

func TestACommandEndsWithWhoRunsIt(t *testing.T) {
	running, ended := make(chan struct{}, 1), make(chan error, 1)
	s := newServer(Config{Logger: hclog.NewNullLogger(), Node: shell("exec", func(ctx context.Context, _ *workload.ExecSpec) error {
		running <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})})
	for name, leave := range map[string]func(*wire.Session, *wire.Stream){
		"its stream is closed":     func(_ *wire.Session, st *wire.Stream) { st.Close() },
		"its connection is closed": func(server *wire.Session, _ *wire.Stream) { server.Close() },
		"it sends garbage":         func(_ *wire.Session, st *wire.Stream) { _ = st.SendValue("garbage") },
	} {
		_, server := connect(t, s)
		ask := args{"AllocID": "a", "Task": "task", "Cmd": []string{"sh"}}
		st, err := server.Open(t.Context(), "Allocations.Exec", ask)
		require.NoError(t, err, name)
		<-running
		leave(server, st)
		require.ErrorIs(t, <-ended, context.Canceled, name)
	}
}

func TestWhoMayRunCommandsOnTheNodeItself(t *testing.T) {
	denied := errdefs.New(errdefs.PermissionDenied, "Permission denied")
	for _, c := range []struct {
		driver, token string
		refused       bool
	}{{"raw_exec", "secret-token", true}, {"raw_exec", "admin", false}, {"exec", "secret-token", false}, {"wasi", "secret-token", false}} {
		var log bytes.Buffer
		s := newServer(Config{
			Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &log}),
			Node:   shell(c.driver, func(context.Context, *workload.ExecSpec) error { return nil }),
			MayExec: func(_ context.Context, token, namespace string) error {
				require.Equal(t, "team", namespace)
				if token == "admin" {
					return nil
				}
				return denied
			},
		})
		_, err := s.command(t.Context(), &execArgs{AllocID: "a", Task: "task", Cmd: []string{"sh"}, AuthToken: c.token})
		if c.refused {
			require.ErrorIs(t, err, errdefs.PermissionDenied, c.driver)
		} else {
			require.NoError(t, err, c.driver)
		}
	}
}

func TestTokensAreNotLogged(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	s := newServer(Config{
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &log, Mutex: &mu}),
		Node:   shell("exec", func(context.Context, *workload.ExecSpec) error { return errors.New("it fails") }),
	})
	_, server := connect(t, s)
	st, err := server.Open(t.Context(), "Allocations.Exec", args{"AllocID": "a", "Task": "task", "Cmd": []string{"sh"}, "AuthToken": "secret-token"})
	require.NoError(t, err)
	_, err = st.Receive()
	require.ErrorContains(t, err, "it fails")
	_ = server.Call(t.Context(), "Allocations.Signal", args{"AllocID": 7, "AuthToken": "secret-token"}, nil)
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, log.String(), "a command runs in a task")
	require.NotContains(t, log.String(), "secret-token")
}

func TestArgumentsThatAreNoneCostTheRequestAlone(t *testing.T) {
	s := newServer(Config{Logger: hclog.NewNullLogger(), Node: shell("exec", nil)})
	for method := range s.calls {
		for _, garbage := range []any{"text", 7, []int{1, 2}, args{"AllocID": args{}, "NodeID": 7, "ID": []int{1}}, args{"Meta": "x", "AllocID": []string{"a"}, "NodeID": args{}, "ID": args{}}} {
			raw, err := wire.Marshal(garbage)
			require.NoError(t, err)
			_, err = s.answer(t.Context(), method, func(v any) error { return wire.Unmarshal(raw, v) })
			require.ErrorContains(t, err, "the arguments are not understood", "%s %v", method, garbage)
		}
	}
	require.Empty(t, s.requests)
}

func TestStreamsAreBoundedAndALateOneIsToldSo(t *testing.T) {
	s := newServer(Config{Logger: hclog.NewNullLogger(), Logs: hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard})})
	_, server := connect(t, s)
	require.ErrorContains(t, server.Call(t.Context(), "Agent.Host", args{}, nil), "tells nothing of its machine")
	before := runtime.NumGoroutine()
	var open []*wire.Stream
	for range MaxStreams {
		st, err := server.Open(t.Context(), "Agent.Monitor", args{"PlainText": true})
		require.NoError(t, err)
		_, err = st.Receive() // it is served
		require.NoError(t, err)
		open = append(open, st)
	}
	for range 100 {
		st, err := server.Open(t.Context(), "Agent.Monitor", args{})
		require.NoError(t, err)
		_, err = st.Receive()
		require.ErrorContains(t, err, "as much at once as it can")
		st.Close()
	}
	require.ErrorContains(t, server.Call(t.Context(), "Agent.Host", args{}, nil), "tells nothing of its machine", "requests have places of their own")
	for _, st := range open {
		st.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(s.serving) > 0 || runtime.NumGoroutine() > before {
		require.NoError(t, ctx.Err(), "of %d goroutines, %d are left", before, runtime.NumGoroutine())
		runtime.Gosched()
	}
}

func TestAPanicCostsItsRequestAlone(t *testing.T) {
	var log bytes.Buffer
	s := newServer(Config{Logger: hclog.New(&hclog.LoggerOptions{Output: &log, Mutex: &sync.Mutex{}})}) // it has no node
	_, server := connect(t, s)
	require.ErrorContains(t, server.Call(t.Context(), "NodeMeta.Read", args{}, nil), "internal error")
	st, err := server.Open(t.Context(), "FileSystem.Logs", args{"AllocID": "a"})
	require.NoError(t, err)
	_, err = st.Receive()
	require.ErrorContains(t, err, "internal error")
	server.Close()
	require.Eventually(t, func() bool { return len(s.serving)+len(s.requests) == 0 }, time.Minute, time.Millisecond)
	require.Contains(t, log.String(), "method=FileSystem.Logs")
}

func TestRequestsAreBounded(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	s := newServer(Config{Logger: hclog.NewNullLogger(), Identity: &identity{renews: make(chan struct{})}})
	s.calls["Test.Wait"] = func(context.Context, func(any) error) (any, error) {
		held <- struct{}{}
		<-hold
		return nil, nil
	}
	ask := s.handler().Call
	replies := make(chan any, MaxCalls)
	for range MaxCalls {
		go func() {
			reply, _ := ask(t.Context(), "Test.Wait", nil)
			replies <- reply
		}()
		<-held
	}
	_, err := ask(t.Context(), "Test.Wait", nil)
	require.ErrorIs(t, err, errBusy)
	close(hold)
	for left := MaxCalls; left > 0; left-- {
		reply := (<-replies).(wire.Held)
		require.Len(t, s.requests, left, "an answer has its place until it is written")
		reply.Release()
	}
	require.Empty(t, s.requests)
}

func TestAReaderThatDoesNotReadIsLetGoOf(t *testing.T) {
	written := make(chan error, 1)
	s := newServer(Config{Logger: hclog.NewNullLogger(), Node: shell("exec", func(_ context.Context, spec *workload.ExecSpec) error {
		var err error
		for err == nil {
			_, err = spec.Stdout.Write(bytes.Repeat([]byte("x"), 32<<10))
		}
		written <- err
		return err
	})})
	s.slowest = 50 * time.Millisecond
	_, server := connect(t, s)
	st, err := server.Open(t.Context(), "Allocations.Exec", args{"AllocID": "a", "Task": "task", "Cmd": []string{"yes"}})
	require.NoError(t, err)
	defer st.Close()
	require.Error(t, <-written)
	require.Eventually(t, func() bool { return len(s.serving) == 0 }, time.Minute, time.Millisecond)
}

func (w *world) endOfConnection(t *testing.T) {
	answer := newServer(w.answer.Config)
	_, server := connect(t, answer)
	id := w.run("following", args{"stdout_string": "hello\n"})
	for range 8 {
		for method, ask := range map[string]args{
			"FileSystem.Logs":   {"AllocID": id, "Task": "task", "LogType": "stdout", "Follow": true, "PlainText": true},
			"FileSystem.Stream": {"AllocID": id, "Path": "alloc/logs/task.stdout.0", "Follow": true, "PlainText": true},
		} {
			st, err := server.Open(t.Context(), method, ask)
			require.NoError(t, err)
			part, err := st.Receive()
			require.NoError(t, err)
			require.Equal(t, "hello\n", string(part))
		}
	}
	require.Len(t, answer.serving, 16)
	server.Close()
	require.Eventually(t, func() bool { return len(answer.serving) == 0 }, time.Minute, time.Millisecond)
}

func TestALongLineOfTheLogIsWholeInPieces(t *testing.T) {
	w := newNode(t, noDriver)
	long := strings.Repeat("0123456789", 20_000)
	st, err := w.server.Open(t.Context(), "Agent.Monitor", args{"PlainText": true})
	require.NoError(t, err)
	defer st.Close()
	_, err = st.Receive()
	require.NoError(t, err)
	w.log.Info(long)
	var got strings.Builder
	for !strings.HasSuffix(got.String(), "\n") {
		part, err := st.Receive()
		require.NoError(t, err)
		require.LessOrEqual(t, len(part), wire.MaxPayload)
		got.Write(part)
	}
	require.Contains(t, got.String(), long)
}
