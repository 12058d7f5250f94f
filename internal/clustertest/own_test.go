package clustertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// last is what the last line of an agent's log that has a mark says after it; it waits for one.
func (p *process) last(t *testing.T, mark string) (word string) {
	t.Helper()
	eventually(t, mark, func() (bool, string) {
		all := regexp.MustCompile(regexp.QuoteMeta(mark)+`(\S+)`).FindAllStringSubmatch(p.log(), -1)
		if len(all) > 0 {
			word = all[len(all)-1][1]
		}
		return len(all) > 0, p.log()
	})
	return word
}

// data is an agent's directory.
func (p *process) data() string { return filepath.Join(filepath.Dir(p.args[3]), "data") }

// beaten counts the requests that the checks of a service make, which are answered.
func beaten(t *testing.T) (port int, count *atomic.Int64) {
	t.Helper()
	count = &atomic.Int64{}
	l, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	s := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { count.Add(1) })}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return l.Addr().(*net.TCPAddr).Port, count
}

// checked is a service whose check asks a port, and whose task is restarted when it is killed.
func checked(id, marks string, port int) *nomad.Job {
	j := job(id, "service", `trap 'echo hup' HUP; echo $$ >> `+marks+`; echo hello; while true; do sleep 0.1; done`)
	g := j.TaskGroups[0]
	g.RestartPolicy = &nomad.RestartPolicy{Attempts: ref(5), Delay: ref(10 * time.Millisecond), Interval: ref(time.Hour), Mode: ref("fail")}
	g.Networks = []*nomad.NetworkResource{{ReservedPorts: []nomad.Port{{Label: "http", Value: port}}}}
	g.Services = []*nomad.Service{{
		Name: id, Provider: "nomad", PortLabel: "http",
		Checks: []nomad.ServiceCheck{{Name: "answers", Type: "http", Path: "/", Interval: time.Second, Timeout: time.Second}},
	}}
	return j
}

// TestTheNodesOwnAddress has the stock command line ask the node itself, and then the server is killed.
func TestTheNodesOwnAddress(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) { ownAddress(t, binary) })
	}
}

func ownAddress(t *testing.T, binary string) {
	s := startServers(t, binary, 1, "")[0]
	agent := startNode(t, "ours", "", s)
	ours := s.ready(t, "ours")
	port, beats := beaten(t)
	marks := filepath.Join(t.TempDir(), "marks")
	s.run(t, checked("beats", marks, port))
	s.deployed(t, "beats", 0)
	alloc := s.allocs(t, "beats", "running")[0].ID
	t.Cleanup(func() { // what runs would outlive the agents
		_, _, err := s.client.Jobs().Deregister("beats", false, nil)
		require.NoError(t, err)
		s.allocs(t, "beats", "complete")
	})

	address := "http://" + agent.last(t, "the API answers: http_addr=")
	for _, c := range []struct {
		line, stdin string
		code        int
		want        string
	}{
		{line: "job status", want: `beats`},
		{line: "job status beats", want: `(?s)Latest Deployment.*successful`},
		{line: "node status", want: `(?s)ours.*ready`},
		{line: "node status -stats N", want: `(?s)Name\s+= ours.*Host Resource Utilization`},
		{line: "alloc status A", want: `(?s)Client Status\s+= running.*Started`},
		{line: "alloc status -stats A", want: `(?s)Memory Stats.*CPU Stats`},
		{line: "alloc logs A", want: `^hello\n$`},
		{line: "alloc logs -tail -n 1 A", want: `^hello\n$`},
		{line: "alloc fs A", want: `(?s)alloc/\n.*t/`},
		{line: "alloc fs -stat A alloc/logs/t.stdout.0", want: `t\.stdout\.0`},
		{line: "alloc fs A alloc/logs/t.stdout.0", want: `^hello\n$`},
		{line: "alloc fs A t/secrets", code: 1, want: `secrets are not readable`},
		{line: "alloc exec A /bin/echo a b", want: `^a b\n$`},
		{line: "alloc exec A /bin/sh -c exit${IFS}7", code: 7, want: `^$`},
		{line: "alloc exec -i -t=false A cat", stdin: "in and out", want: `^in and out$`},
		{line: "alloc checks A", want: `(?s)Name\s+=\s+answers.*Status\s+=\s+success`},
		{line: "alloc signal -s SIGHUP A", want: `^$`},
		{line: "service info beats", want: `beats|` + alloc[:8]},
		{line: "server members", want: `server`},
		{line: "agent-info", want: `client`},
		{line: "eval list -job beats", want: `complete`},
		{line: "deployment list", want: `beats`},

		{line: "server join 127.0.0.1", code: 1, want: `501.*ask one of its servers`},
	} {
		said, code := cli(t, binary, address, "", c.stdin, words(c.line, alloc, ours)...)
		require.Equal(t, c.code, code, "%s: %s", c.line, said)
		require.Regexp(t, c.want, said, c.line)
	}
	s.end(syscall.SIGKILL)
	alone(t, agent, address, alloc, marks, beats)
	s.start(t)
	s.awaitLeader(t)
	eventually(t, "that the server is told of the restart", func() (bool, string) {
		a, _, err := s.client.Allocations().Info(alloc, nil)
		if err != nil {
			return false, err.Error()
		}
		return a.ClientStatus == "running" && a.TaskStates["t"].Restarts == 1, a.ClientStatus + events(a.TaskStates)
	})
}

// alone is what a node does while no server answers.
func alone(t *testing.T, agent *process, address, alloc, marks string, beats *atomic.Int64) {
	t.Helper()
	eventually(t, "that the server is missed", func() (bool, string) {
		return strings.Contains(agent.log(), "the connection to a server is lost; what runs goes on"), agent.log()
	})
	get := func(path string) (string, int) {
		answer, err := http.Get(address + path) //nolint:gosec // of the test's own agent
		require.NoError(t, err)
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return string(b), answer.StatusCode
	}
	said, code := get("/v1/client/fs/logs/" + alloc + "?task=t&type=stdout&plain=true")
	require.Equal(t, 200, code, said)
	require.Contains(t, said, "hello\n")
	for _, path := range []string{
		"/v1/client/stats", "/v1/client/allocation/" + alloc + "/stats", "/v1/client/allocation/" + alloc + "/checks",
		"/v1/client/fs/ls/" + alloc + "?path=/", "/v1/agent/self", "/v1/agent/health?type=client",
	} {
		said, code := get(path)
		require.Equal(t, 200, code, "%s: %s", path, said)
	}
	said, code = get("/v1/jobs")
	require.GreaterOrEqual(t, code, 500, said)

	client, err := nomad.NewClient(&nomad.Config{Address: address})
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	exit, err := client.Allocations().Exec(ctx, &nomad.Allocation{ID: alloc}, "t", false, []string{"/bin/echo", "still here"}, io.LimitReader(os.Stdin, 0), &out, &out, nil, nil)
	require.NoError(t, err)
	require.Zero(t, exit)
	require.Equal(t, "still here\n", out.String())

	asked := beats.Load()
	eventually(t, "the check to go on", func() (bool, string) { return beats.Load() >= asked+3, fmt.Sprint(beats.Load()) })
	require.NoError(t, syscall.Kill(pidsIn(t, marks)[0], syscall.SIGKILL))
	eventually(t, "the task to be restarted", func() (bool, string) {
		pids := pidsIn(t, marks)
		return len(pids) == 2 && syscall.Kill(pids[1], 0) == nil, fmt.Sprint(pids)
	})
}

// pidsIn are those that tasks have written into a file.
func pidsIn(t *testing.T, marks string) (pids []int) {
	t.Helper()
	b, err := os.ReadFile(marks)
	require.NoError(t, err)
	for _, word := range strings.Fields(string(b)) {
		var pid int
		_, err := fmt.Sscan(word, &pid)
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}
