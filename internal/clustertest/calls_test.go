package clustertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-version"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// cli runs a command of the stock nomad against a server, and returns what it says and its exit
// code.
func (s *server) cli(t *testing.T, token, stdin string, args ...string) (said string, code int) {
	t.Helper()
	return cli(t, s.args[0], s.client.Address(), token, stdin, args...)
}

// cli runs a command of a binary against an address.
func cli(t *testing.T, binary, address, token, stdin string, args ...string) (said string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NOMAD_ADDR=" + address, "NOMAD_TOKEN=" + token}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "%v: %s", args, out)
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// bootstrap makes the first token of servers with ACLs, which may do everything and is used from then on.
func (s *server) bootstrap(t *testing.T) (token string) {
	t.Helper()
	eventually(t, "a token", func() (bool, string) {
		made, _, err := s.client.ACLTokens().Bootstrap(nil)
		if err != nil {
			return false, err.Error()
		}
		token = made.SecretID
		return true, ""
	})
	s.client.SetSecretID(token)
	return token
}

// atLeast reports whether a server is of a version, or a newer one.
func (s *server) atLeast(t *testing.T, least string) bool {
	t.Helper()
	out, _ := s.cli(t, "", "", "version")
	found := regexp.MustCompile(`v(\d+\.\d+\.\d+)`).FindStringSubmatch(out)
	require.NotNil(t, found, out)
	return version.Must(version.NewVersion(found[1])).GreaterThanOrEqual(version.Must(version.NewVersion(least)))
}

// TestWhatServersAskOfANode has the stock command line ask a server of each version for what only
// the node knows, with ACLs on.
func TestWhatServersAskOfANode(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) { asked(t, binary) })
	}
}

// talker is a task that talks, and counts the signals that it gets.
func talker() *nomad.Job {
	j := job("talker", "service", `trap 'echo hup' HUP; echo hello; echo oops >&2; while true; do sleep 0.1; done`)
	j.TaskGroups[0].Tasks[0].Actions = []*nomad.Action{{Name: "greet", Command: "/bin/echo", Args: []string{"good", "day"}}}
	return j
}

func asked(t *testing.T, binary string) {
	s := startServers(t, binary, 1, "acl { enabled = true }")[0]
	token := s.bootstrap(t)
	startNode(t, "ours", "acl { enabled = true }", s)
	node := s.ready(t, "ours")
	s.run(t, talker())
	alloc := s.allocs(t, "talker", "running")[0].ID
	t.Cleanup(func() { // what runs would outlive the agent
		_, _, err := s.client.Jobs().Deregister("talker", false, nil)
		require.NoError(t, err)
		s.allocs(t, "talker", "complete")
	})
	eventually(t, "the task's log", func() (bool, string) {
		said, _ := s.cli(t, token, "", "alloc", "logs", alloc)
		return said == "hello\n", said
	})
	for _, c := range []struct {
		since string // the version of servers
		line  string // A is the allocation, N the node
		stdin string
		code  int
		want  string // a regular expression
	}{
		{line: "alloc logs A", want: `^hello\n$`},
		{line: "alloc logs -stderr A t", want: `^oops\n$`},
		{line: "alloc logs -tail -n 1 A", want: `^hello\n$`},
		{line: "alloc logs -tail -c 3 A", want: `^lo\n$`},
		{line: "alloc logs A none", code: 1, want: `Could not find task|unknown task name`},
		{line: "alloc fs A", want: `(?s)drwx.*alloc/\n.*t/`},
		{line: "alloc fs A alloc/logs", want: `6 B .* t\.stdout\.0`},
		{line: "alloc fs -H A alloc/logs", want: `t\.stderr\.0`},
		{line: "alloc fs -stat A alloc/logs/t.stdout.0", want: `-rw.* 6 B .*t\.stdout\.0`},
		{line: "alloc fs A alloc/logs/t.stdout.0", want: `^hello\n$`},
		{line: "alloc fs -tail -c 4 A alloc/logs/t.stdout.0", want: `^llo\n$`},
		{line: "alloc fs A alloc/none", code: 1, want: `no such file or directory`},
		{line: "alloc fs A t/secrets", code: 1, want: `secrets are not readable`},
		{line: "alloc fs A ../../../etc", code: 1, want: `no such file or directory`},
		{line: "alloc exec A /bin/echo a b", want: `^a b\n$`},
		{line: "alloc exec -task t A /bin/sh -c exit${IFS}7", code: 7, want: `^$`},
		{line: "alloc exec -i -t=false A cat", stdin: "in and out", want: `^in and out$`},
		{line: "alloc exec A /bin/no-such-command", code: 1, want: `no-such-command`},
		{line: "alloc exec -task none A true", code: 1, want: `Could not find task|unknown task`},
		{since: "1.7.0", line: "action -job talker -group g -task t greet", want: `^good day\n$`},
		{since: "1.7.0", line: "action -job talker -group g -task t none", code: 1, want: `none`},
		{line: "alloc status -stats A", want: `(?s)Memory Stats.*CPU Stats`},
		{line: "alloc checks A", want: `Status of 0 Nomad Service Checks`},
		{line: "node status -stats N", want: `(?s)Host Resource Utilization.*CPU Stats.*Memory Stats.*Disk Stats`},
		{line: "node meta apply -node-id N color=red", want: `^$`},
		{line: "node meta read -node-id N", want: `color\s+= red`},
		{line: "node meta apply -node-id N -unset color", want: `^$`},
		{line: "node meta apply -node-id N a$b=c", code: 1, want: `no job file could name`},
		{line: "alloc signal -s SIGHUP A", want: `^$`},
		{line: "alloc signal -s SIGNONE A", code: 1, want: `SIGNONE`},
		{since: "1.11.0", line: "node identity get N", want: `nomad_node_pool\s+default`},
		{since: "1.11.0", line: "node identity renew N", want: `^$`},
		{since: "1.10.0", line: "monitor export -node-id N -on-disk", code: 1, want: `No nomad log file defined`},
		{line: "monitor -node-id N -log-level loud", code: 1, want: `(?i)unknown log level`},
		{line: "alloc restart A", want: `^$`},
		{line: "alloc restart -task none A", code: 1, want: `Could not find task|none`},
		{line: "alloc restart -all-tasks A", want: `^$`},
	} {
		if c.since != "" && !s.atLeast(t, c.since) {
			continue
		}
		said, code := s.cli(t, token, c.stdin, words(c.line, alloc, node)...)
		require.Equal(t, c.code, code, "%s: %s", c.line, said)
		require.Regexp(t, c.want, said, c.line)
	}
	t.Run("the task got the signal", func(t *testing.T) {
		eventually(t, "the signal", func() (bool, string) {
			said, _ := s.cli(t, token, "", "alloc", "logs", alloc)
			return strings.Contains(said, "hup\n"), said
		})
	})
	t.Run("a terminal has its size", func(t *testing.T) { terminal(t, s, alloc) })
	t.Run("a log is followed", func(t *testing.T) {
		followed(t, s, alloc, func(a *nomad.Allocation, end <-chan struct{}) (<-chan *nomad.StreamFrame, <-chan error) {
			return s.client.AllocFS().Logs(a, true, "t", "stdout", "end", 0, end, nil)
		})
	})
	t.Run("a file is followed", func(t *testing.T) {
		followed(t, s, alloc, func(a *nomad.Allocation, end <-chan struct{}) (<-chan *nomad.StreamFrame, <-chan error) {
			return s.client.AllocFS().Stream(a, "alloc/logs/t.stdout.0", "end", 0, end, nil)
		})
	})
	t.Run("garbage is collected", func(t *testing.T) {
		options := &nomad.QueryOptions{AuthToken: token}
		require.ErrorContains(t, s.client.Allocations().GC(&nomad.Allocation{ID: alloc}, options), "has not ended")
		s.run(t, job("short", "batch", "true"))
		ended := s.allocs(t, "short", "complete")[0].ID
		eventually(t, "the allocation to be gone", func() (bool, string) {
			_ = s.client.Allocations().GC(&nomad.Allocation{ID: ended}, options) // it takes the empty answer for an error
			_, err := s.client.Allocations().Stats(&nomad.Allocation{ID: ended}, options)
			return err != nil && strings.Contains(err.Error(), "Unknown allocation"), fmt.Sprint(err)
		})
	})
	t.Run("who may run commands on the node itself", func(t *testing.T) { nodeExec(t, s, alloc) })
	t.Run("the agent is looked into", func(t *testing.T) {
		host, err := s.client.Agent().Host("", node, nil)
		require.NoError(t, err)
		require.NotEmpty(t, host.HostData.OS)
		profile, err := s.client.Agent().Lookup("goroutine", nomad.PprofOptions{NodeID: node, Debug: 1}, nil)
		require.NoError(t, err)
		require.Contains(t, string(profile), "wasmnode")
		monitored(t, s, node, alloc, token)
	})
	if s.atLeast(t, "1.10.0") {
		t.Run("a volume is made and removed", func(t *testing.T) { volume(t, s, node) })
	}
}

// words are those of a command line, in which A is an allocation and N a node.
func words(line, alloc, node string) []string {
	list := strings.Fields(line)
	for i, word := range list {
		switch word {
		case "A":
			list[i] = alloc
		case "N":
			list[i] = node
		}
	}
	return list
}

// terminal runs a command in a terminal whose size is known.
func terminal(t *testing.T, s *server, alloc string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	info, _, err := s.client.Allocations().Info(alloc, nil)
	require.NoError(t, err)
	eventually(t, "the task, which was restarted, to have a terminal", func() (bool, string) {
		sizes := make(chan nomad.TerminalSize, 1)
		sizes <- nomad.TerminalSize{Height: 33, Width: 101}
		keyboard, typist := io.Pipe() // nobody types
		defer func() { _ = typist.Close() }()
		var said bytes.Buffer
		code, err := s.client.Allocations().Exec(ctx, info, "t", true, []string{"stty", "size"}, keyboard, &said, &said, sizes, nil)
		return err == nil && code == 0 && strings.Contains(said.String(), "33 101"), fmt.Sprint(err, code, said.String())
	})
}

// followed follows what a task says, which has what it says from then on.
func followed(t *testing.T, s *server, alloc string, follow func(*nomad.Allocation, <-chan struct{}) (<-chan *nomad.StreamFrame, <-chan error)) {
	end := make(chan struct{})
	defer close(end)
	info, _, err := s.client.Allocations().Info(alloc, nil)
	require.NoError(t, err)
	frames, errs := follow(info, end)
	var said strings.Builder
	for deadline := time.After(patience); !strings.Contains(said.String(), "hup\nhup\n"); {
		_ = s.client.Allocations().Signal(info, nil, "t", "SIGHUP") // errors: it is on its way back from a restart
		select {
		case frame := <-frames:
			said.Write(frame.Data)
		case err := <-errs:
			require.NoError(t, err)
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			require.FailNow(t, "the log does not go on", said.String())
		}
	}
}

// nodeExec asks with tokens that may run commands in isolated tasks only, or in all.
func nodeExec(t *testing.T, s *server, alloc string) {
	for name, allowed := range map[string]bool{"alloc-exec": false, "alloc-node-exec": true} {
		rules := fmt.Sprintf(`namespace "default" { capabilities = ["read-job", "alloc-exec", %q] }`, name)
		_, err := s.client.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: name, Rules: rules}, nil)
		require.NoError(t, err)
		token, _, err := s.client.ACLTokens().Create(&nomad.ACLToken{Name: name, Type: "client", Policies: []string{name}}, nil)
		require.NoError(t, err)
		said, code := s.cli(t, token.SecretID, "", "alloc", "exec", alloc, "/bin/echo", "done")
		if allowed {
			require.Equal(t, "done\n", said)
		} else {
			require.Equal(t, 1, code)
			require.Contains(t, said, "Permission denied")
		}
	}
}

// monitored follows the log of a node while a command runs there.
func monitored(t *testing.T, s *server, node, alloc, token string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	frames, errs := s.client.Agent().Monitor(ctx.Done(), &nomad.QueryOptions{Params: map[string]string{"node_id": node, "log_level": "info"}})
	for {
		s.cli(t, token, "", "alloc", "exec", alloc, "true")
		select {
		case frame := <-frames:
			if strings.Contains(string(frame.Data), "a command runs in a task") {
				return
			}
		case err := <-errs:
			require.NoError(t, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func volume(t *testing.T, s *server, node string) {
	made, _, err := s.client.HostVolumes().Create(&nomad.HostVolumeCreateRequest{Volume: &nomad.HostVolume{
		Name: "data", PluginID: "mkdir", NodeID: node,
		RequestedCapabilities: []*nomad.HostVolumeCapability{{AttachmentMode: "file-system", AccessMode: "single-node-writer"}},
	}}, nil)
	require.NoError(t, err)
	eventually(t, "the volume", func() (bool, string) {
		v, _, err := s.client.HostVolumes().Get(made.Volume.ID, nil)
		return err == nil && v.State == nomad.HostVolumeStateReady, fmt.Sprint(v, err)
	})
	require.DirExists(t, made.Volume.HostPath)
	_, _, err = s.client.HostVolumes().Delete(&nomad.HostVolumeDeleteRequest{ID: made.Volume.ID}, nil)
	require.NoError(t, err)
	require.NoDirExists(t, made.Volume.HostPath)
}
