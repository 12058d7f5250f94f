package clientrpc

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/structs"
)

// args are the arguments of a request, by Nomad's names.
type args = map[string]any

// TestWhatIsAskedOfTasksIsAnswered has one node run what all of it is about.
func TestWhatIsAskedOfTasksIsAnswered(t *testing.T) {
	w := newWorld(t)
	t.Run("requests about allocations", w.requests)
	t.Run("files are listed, read and followed", w.files)
	t.Run("logs are read, and followed until the task ends", w.logs)
	t.Run("commands and actions run in tasks", w.commands)
	t.Run("answers are those of Nomad's own client", w.recordedAnswers)
	t.Run("what is refused, and how", w.refusals)
	t.Run("the end of the connection ends what is followed", w.endOfConnection)
}

func (w *world) requests(t *testing.T) {
	id := w.run("asked", nil)

	var usage usageReply
	require.NoError(t, w.server.Call(t.Context(), "Allocations.Stats", args{"AllocID": id}, &usage))
	require.NotNil(t, usage.Stats.ResourceUsage.MemoryStats, "the command line reads them without looking")
	require.Contains(t, usage.Stats.Tasks, "task")
	require.NotNil(t, usage.Stats.Tasks["task"].ResourceUsage.CpuStats)
	require.Contains(t, w.ask("Allocations.Checks", args{"AllocID": id}), "Results")

	w.ask("Allocations.Signal", args{"AllocID": id, "Task": "task", "Signal": "SIGHUP"})
	w.ask("Allocations.Restart", args{"AllocID": id, "TaskName": "task"})
	require.Eventually(t, func() bool { return slices.Contains(w.events(id), "Restart Signaled") }, time.Minute, time.Millisecond)
	require.Contains(t, w.events(id), "Signaling")

	require.Contains(t, w.refused("Allocations.GarbageCollect", args{"AllocID": id}), "RPC Error:: 400,")
	ended := w.run("ended", args{"run_for": "1s", "exit_code": 0})
	w.await("ended", structs.ClientComplete)
	require.Eventually(t, func() bool { // what works on it may be about to end
		return w.server.Call(t.Context(), "Allocations.GarbageCollect", args{"AllocID": ended}, nil) == nil
	}, time.Minute, time.Millisecond)
	require.Contains(t, w.refused("Allocations.Stats", args{"AllocID": ended}), "Unknown allocation")
	w.ask("Allocations.GarbageCollectAll", args{"NodeID": w.node.ID()})
}

// events are the types of what has happened to a task.
func (w *world) events(allocID string) (types []string) {
	state, err := w.node.AllocationState(allocID)
	require.NoError(w.t, err)
	for _, e := range state.TaskStates["task"].Events {
		types = append(types, e.Type)
	}
	return types
}

func (w *world) files(t *testing.T) {
	id := w.run("files", args{"stdout_string": "hello\n"})
	dir, err := w.node.Directory(id)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir.Data(), "a"), []byte("0123456789"), 0o600))

	var list listReply
	require.NoError(t, w.server.Call(t.Context(), "FileSystem.List", args{"AllocID": id, "Path": "/alloc/data"}, &list))
	require.Len(t, list.Files, 1)
	var stat statReply
	require.NoError(t, w.server.Call(t.Context(), "FileSystem.Stat", args{"AllocID": id, "Path": "alloc/data/a"}, &stat))
	require.Equal(t, "text/plain; charset=utf-8", stat.Info.ContentType, "pages show it by that")
	list.Files[0].ContentType = stat.Info.ContentType // which a list does not tell
	require.Equal(t, list.Files[0], stat.Info)
	require.Equal(t, "a", stat.Info.Name)
	require.EqualValues(t, 10, stat.Info.Size)
	require.Equal(t, "-rw-------", stat.Info.FileMode)
	require.False(t, stat.Info.ModTime.IsZero())

	for _, c := range []struct {
		name string
		args args
		want string
	}{
		{"whole", args{}, "0123456789"},
		{"from an offset", args{"Offset": 4}, "456789"},
		{"from the end", args{"Offset": 3, "Origin": "end"}, "789"},
		{"further back than it goes", args{"Offset": 300, "Origin": "end"}, "0123456789"},
		{"at most", args{"Offset": 2, "Limit": 5}, "23456"},
		{"at most more than there is", args{"Limit": 50}, "0123456789"},
	} {
		c.args["AllocID"], c.args["Path"], c.args["PlainText"] = id, "alloc/data/a", true
		got, err := w.read("FileSystem.Stream", c.args)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, got, c.name)
	}
	got, err := w.read("FileSystem.Stream", args{"AllocID": id, "Path": "alloc/data/a", "Offset": 7})
	require.NoError(t, err)
	require.JSONEq(t, `{"File":"alloc/data/a","Offset":10,"Data":"Nzg5"}`, got)

	st, err := w.server.Open(t.Context(), "FileSystem.Stream", args{"AllocID": id, "Path": "alloc/data/a", "Origin": "end", "Follow": true})
	require.NoError(t, err)
	defer st.Close()
	require.Equal(t, "{}", next(t, st, true), "a heartbeat")
	require.NoError(t, os.WriteFile(filepath.Join(dir.Data(), "a"), []byte("0123456789ab"), 0o600))
	require.JSONEq(t, `{"File":"alloc/data/a","Offset":12,"Data":"YWI="}`, next(t, st, false))
	require.NoError(t, os.Remove(filepath.Join(dir.Data(), "a")))
	require.JSONEq(t, `{"File":"alloc/data/a","FileEvent":"file deleted"}`, next(t, st, false))
}

// next is the next frame of a stream, a heartbeat or not.
func next(t *testing.T, st interface{ Receive() ([]byte, error) }, heartbeat bool) string {
	t.Helper()
	for {
		frame, err := st.Receive()
		require.NoError(t, err)
		if (string(frame) == "{}") == heartbeat {
			return string(frame)
		}
	}
}

func (w *world) logs(t *testing.T) {
	id := w.run("logs", args{"stdout_string": "hello\n", "stderr_string": "oops\n"})
	ask := args{"AllocID": id, "Task": "task", "LogType": "stdout", "PlainText": true}
	got, err := w.read("FileSystem.Logs", ask)
	require.NoError(t, err)
	require.Equal(t, "hello\n", got)
	ask["LogType"], ask["PlainText"] = "stderr", false
	got, err = w.read("FileSystem.Logs", ask)
	require.NoError(t, err)
	require.JSONEq(t, `{"File":"alloc/logs/task.stderr.0","Offset":5,"Data":"b29wcwo="}`, got)

	st, err := w.server.Open(t.Context(), "FileSystem.Logs", args{"AllocID": id, "Task": "task", "LogType": "stdout", "PlainText": true, "Follow": true})
	require.NoError(t, err)
	defer st.Close()
	require.Equal(t, "hello\n", next(t, st, false))
	_, err = w.plane.StopAllocation(id, true)
	require.NoError(t, err)
	_, err = st.Receive()
	require.ErrorContains(t, err, "EOF", "the log of a task that has ended has no more")
}

func (w *world) commands(t *testing.T) {
	id := w.run("commands", args{"exec_command": args{"run_for": "1ms", "exit_code": 4, "stdout_string": "out", "stderr_string": "err"}})
	for _, ask := range []args{{"Cmd": []string{"anything"}}, {"Action": "greet", "JobID": "commands", "Cmd": nil}} {
		ask["AllocID"], ask["Task"] = id, "task"
		got, err := w.read("Allocations.Exec", ask)
		require.NoError(t, err)
		got = strings.ReplaceAll(got, "{}", "")
		require.ElementsMatch(t, []string{`{"stdout":{"data":"b3V0"}}`, `{"stderr":{"data":"ZXJy"}}`, `{"exited":true,"result":{"exit_code":4}}`},
			strings.Split(strings.ReplaceAll(got, "}{", "}\n{"), "\n"))
		require.True(t, strings.HasSuffix(got, `{"exited":true,"result":{"exit_code":4}}`))
	}
	none := w.run("none", nil)
	require.Contains(t, w.refused("Allocations.Exec", args{"AllocID": none, "Task": "task", "Cmd": []string{"x"}}), "has no exec_command")
}

func TestTheNodeTellsOfItself(t *testing.T) {
	w := newNode(t, noDriver, func(c *Config) {
		c.Machine = func() clientapi.Machine {
			return clientapi.Machine{OS: "linux", Environment: map[string]string{"A": "b"}}
		}
	})
	var stats hostStatsReply
	require.NoError(t, w.server.Call(t.Context(), "ClientStats.Stats", args{"NodeID": w.node.ID()}, &stats))
	require.Positive(t, stats.HostStats.Memory.Total)
	require.Positive(t, stats.HostStats.Timestamp)
	require.NotNil(t, stats.HostStats.AllocDirStats)

	applied := w.ask("NodeMeta.Apply", args{"NodeID": w.node.ID(), "Meta": args{"color": "red", "rack": nil}})
	require.Equal(t, args{"color": "red"}, applied["Meta"])
	require.Equal(t, applied, w.ask("NodeMeta.Read", args{}))
	require.Equal(t, args{"rack": "r1"}, applied["Static"])
	require.Equal(t, args{"color": "red", "rack": nil}, applied["Dynamic"])
	require.Contains(t, w.refused("NodeMeta.Apply", args{"Meta": args{}}), "RPC Error:: 400,missing required Meta object")
	require.Contains(t, w.refused("NodeMeta.Apply", args{"Meta": args{"a b": "c"}}), "RPC Error:: 400,")

	var host nomad.HostDataResponse
	require.NoError(t, w.server.Call(t.Context(), "Agent.Host", args{}, &host))
	require.Equal(t, "linux", host.HostData.OS)
	require.Equal(t, w.node.ID(), host.AgentID)

	profile := w.ask("Agent.Profile", args{"ReqType": "lookup", "Profile": "goroutine", "Debug": 1})
	require.Contains(t, profile["Payload"], "goroutine profile:")
	require.Equal(t, w.node.ID(), profile["AgentID"])
	require.Contains(t, w.ask("Agent.Profile", args{"ReqType": "cmdline"})["Payload"], os.Args[0])
	require.Contains(t, w.refused("Agent.Profile", args{"ReqType": "lookup", "Profile": "none"}), "RPC Error:: 404,")
	require.Contains(t, w.refused("Agent.Profile", args{"ReqType": "none"}), "RPC Error:: 404,")
	require.Contains(t, w.refused("Agent.Profile", args{"ReqType": "cpu", "Seconds": 601}), "RPC Error:: 400,a profile of 601 seconds: at most 600")
}

func TestTheAgentsLogIsFollowed(t *testing.T) {
	w := newNode(t, noDriver)
	for _, plain := range []bool{true, false} {
		st, err := w.server.Open(t.Context(), "Agent.Monitor", args{"LogLevel": "warn", "PlainText": plain})
		require.NoError(t, err)
		_, err = st.Receive() // it has begun
		require.NoError(t, err)
		w.log.Info("not this")
		w.log.Warn("but this")
		line := next(t, st, false)
		if !plain {
			var frame nomad.StreamFrame
			require.NoError(t, json.Unmarshal([]byte(line), &frame))
			line = string(frame.Data)
		}
		require.Contains(t, line, "but this")
		st.Close()
	}
	require.Contains(t, w.refused("Agent.Monitor", args{"LogLevel": "loud"}), "Unknown log level: loud")
	require.Contains(t, w.refused("Agent.MonitorExport", args{"OnDisk": true}), "No nomad log file defined")
	require.Contains(t, w.refused("Agent.MonitorExport", args{"ServiceName": "sshd"}), "must include 'wasmnode' or 'nomad'")
	require.Contains(t, w.refused("Agent.MonitorExport", args{"ServiceName": "nomad"}), "cannot read a journal")
}

// identity is a node's, and counts how often a new one is asked for.
type identity struct {
	token  string
	renews chan struct{}
}

func (i *identity) Token() string { return i.token }
func (i *identity) Renew()        { i.renews <- struct{}{} }

func TestTheIdentityTellsItsClaimsAndNotItself(t *testing.T) {
	i := &identity{renews: make(chan struct{}, 1)}
	w := newNode(t, noDriver, func(c *Config) { c.Identity = i })
	require.Contains(t, w.refused("NodeIdentity.Get", args{}), "node does not have a JWT identity token")
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"node:global","exp":1700000000}`))
	i.token = "header." + claims + ".secret"
	require.Equal(t, args{"Claims": args{"sub": "node:global", "exp": 1.7e9}}, w.ask("NodeIdentity.Get", args{"NodeID": w.node.ID()}))
	w.ask("NodeIdentity.Renew", args{})
	<-i.renews
	for _, token := range []string{"secret", "a.secret.c", "a." + base64.RawURLEncoding.EncodeToString([]byte("secret")) + ".c"} {
		i.token = token
		require.NotContains(t, w.refused("NodeIdentity.Get", args{}), "secret")
	}
}

func TestVolumesAreMadeTakenUpAndRemoved(t *testing.T) {
	w := newNode(t, noDriver)
	made := w.ask("HostVolume.Create", args{"ID": "v1", "Name": "data", "PluginID": "mkdir", "NodeID": w.node.ID(), "Namespace": "default"})
	path, _ := made["HostPath"].(string)
	require.DirExists(t, path)
	require.Equal(t, "v1", w.node.Structs().HostVolume("data").ID)
	require.Equal(t, made, w.ask("HostVolume.Create", args{"ID": "v1", "Name": "data", "PluginID": "mkdir", "Namespace": "default"}), "again")

	there := filepath.Join(filepath.Dir(path), "there")
	require.NoError(t, os.Mkdir(there, 0o700))
	w.ask("HostVolume.Register", args{"ID": "v2", "Name": "more", "HostPath": there})
	require.Equal(t, there, w.node.Structs().HostVolume("more").Path)
	require.Contains(t, w.refused("HostVolume.Register", args{"ID": "v3", "Name": "no", "HostPath": "/etc"}), "is not below client.host_volumes_dir")
	require.Contains(t, w.refused("HostVolume.Create", args{"ID": "v3", "Name": "no", "PluginID": "../no"}), "there is no host volume plugin")

	w.ask("HostVolume.Delete", args{"ID": "v1", "Name": "data", "PluginID": "mkdir", "HostPath": path})
	require.NoDirExists(t, path)
	w.ask("HostVolume.Delete", args{"ID": "v2", "Name": "more"})
	require.DirExists(t, there, "nobody here has made it")
	require.Empty(t, w.node.Structs().HostVolumes)
}
