package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestServersAreWorkedWithThroughANode has the stock command line do at a node's address all that it
// does at a server's, for jobs on two other nodes.
func TestServersAreWorkedWithThroughANode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run Nomad's own client")
	}
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) { through(t, binary) })
	}
}

// at is a server as it is reached through a node: what is asked of it is asked there.
func (s *server) at(t *testing.T, node *process) *server {
	t.Helper()
	client, err := nomad.NewClient(&nomad.Config{Address: "http://" + node.last(t, "the API answers: http_addr=")})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &server{s.process, client, s.rpc}
}

// said is a call of the command line with a token, which has to say something.
type said struct {
	since string // the version of servers
	line  string // A is an allocation, N a node, F a job file, D a deployment, S a file for a snapshot
	stdin string
	code  int
	want  string // a regular expression
}

func through(t *testing.T, binary string) {
	real := startServers(t, binary, 1, "acl { enabled = true }")[0]
	agent := startNode(t, "ours", "acl { enabled = true }\nenable_debug = true", real)
	startNode(t, "other", "acl { enabled = true }", real)
	s := real.at(t, agent)
	token := s.bootstrap(t) // through the node, too
	ours, other := s.ready(t, "ours"), s.ready(t, "other")
	s.eligible(t, ours, false)
	file := talkerFile(t, 1)

	calls := func(alloc, node string, list ...said) {
		t.Helper()
		for _, c := range list {
			if c.since == "" || s.atLeast(t, c.since) {
				s.says(t, token, c, map[string]string{"A": alloc, "N": node, "F": file, "S": file + ".snap"})
			}
		}
	}
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	parsed, err := s.client.Jobs().ParseHCL(string(content), true)
	require.NoError(t, err)
	require.Equal(t, "talker", *parsed.ID)
	calls("", other,
		said{line: "job validate F", want: `validation successful`},
		said{line: "job plan F", code: 1, want: `(?s)\+ Job: "talker".*1 create.*All tasks successfully allocated`},
		said{line: "job run -detach F", want: `Evaluation ID`},
	)
	s.deployed(t, "talker", 0)
	alloc := s.newest(t, "talker", other).ID
	eventually(t, "the task's log", func() (bool, string) {
		got, _ := s.cli(t, token, "", "alloc", "logs", alloc)
		return got == "hello\n", got
	})
	calls(alloc, other, elsewhere...)
	calls(alloc, other, operated...)
	s.watched(t, token, alloc, other)
	s.promoted(t, token, func(version int) string { return talkerFile(t, version) })
	calls("", other,
		said{line: "node drain -enable -yes -detach -deadline 1m N", want: `drain strategy set`},
		said{line: "node drain -disable -keep-ineligible -yes N", want: `drain strategy unset|Node drain`},
		said{line: "node eligibility -enable N", want: `scheduling eligibility set: eligible`},
		said{line: "node eligibility -disable N", want: `scheduling eligibility set: ineligible`},
		said{line: "job stop -detach talker", want: `Evaluation ID|^[0-9a-f-]{36}\n$`},
		said{line: "system gc", want: `^$`},
	)
	eventually(t, "the job to be gone", func() (bool, string) {
		list, _, err := s.client.Jobs().Allocations("talker", true, nil)
		for _, a := range list {
			if a.ClientStatus != "complete" {
				return false, a.ClientStatus
			}
		}
		return err == nil, fmt.Sprint(err)
	})
	s.onTheirs(t, binary, token)
}

// says has the command line say what it is expected to, with what some of its words stand for.
func (s *server) says(t *testing.T, token string, c said, words map[string]string) {
	t.Helper()
	args := strings.Fields(c.line)
	for i, word := range args {
		if stands, is := words[word]; is {
			args[i] = stands
		}
	}
	got, code := s.cli(t, token, c.stdin, args...)
	require.Equal(t, c.code, code, "%s: %s", c.line, got)
	require.Regexp(t, c.want, got, c.line)
}

// talkerFile is a job file of a version, with canaries.
func talkerFile(t *testing.T, version int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "talker.nomad.hcl")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
job "talker" {
  meta { version = "%d" }
  group "g" {
    update {
      canary           = 1
      min_healthy_time = "100ms"
    }
    restart { attempts = 5 }
    scaling {
      enabled = true
      min     = 1
      max     = 4
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "trap 'echo hup' HUP; echo hello; while true; do sleep 0.1; done"]
      }
      env { VERSION = "%[1]d" }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
`, version), 0o600))
	return file
}

// elsewhere is what is asked of an allocation and a node that are not those of the node that is asked.
var elsewhere = []said{
	{line: "alloc logs A", want: `^hello\n$`},
	{line: "alloc logs -tail -n 1 A", want: `^hello\n$`},
	{line: "alloc logs A none", code: 1, want: `none`},
	{line: "alloc fs A", want: `(?s)alloc/\n.*t/`},
	{line: "alloc fs -stat A alloc/logs/t.stdout.0", want: `t\.stdout\.0`},
	{line: "alloc fs A alloc/logs/t.stdout.0", want: `^hello\n$`},
	{line: "alloc fs -tail -c 4 A alloc/logs/t.stdout.0", want: `^llo\n$`},
	{line: "alloc fs A alloc/none", code: 1, want: `no such file or directory`},
	{line: "alloc exec A /bin/echo a b", want: `^a b\n$`},
	{line: "alloc exec A /bin/sh -c exit${IFS}7", code: 7, want: `^$`},
	{line: "alloc exec -i -t=false A cat", stdin: "in and out", want: `^in and out$`},
	{line: "alloc exec A /bin/no-such-command", code: 1, want: `no-such-command`},
	{line: "alloc status -stats A", want: `(?s)Memory Stats.*CPU Stats`},
	{line: "alloc checks A", want: `Status of 0 Nomad Service Checks`},
	{line: "alloc signal -s SIGHUP A", want: `^$`},
	{line: "alloc restart A", want: `^$`},
	{line: "node status -stats N", want: `(?s)Name\s+= other.*Host Resource Utilization`},
	{line: "node meta apply -node-id N color=red", want: `^$`},
	{line: "node meta read -node-id N", want: `color\s+= red`},
	{since: "1.11.0", line: "node identity get N", want: `nomad_node_pool\s+default`},
	{since: "1.11.0", line: "node identity renew N", want: `^$`},
	{since: "1.10.0", line: "monitor export -node-id N -on-disk", code: 1, want: `No nomad log file defined`},
	{line: "monitor -node-id N -log-level loud", code: 1, want: `(?i)unknown log level`},
}

// operated is what operators change otherwise.
var operated = []said{
	{line: "var put -out=none nomad/jobs/x k=v", want: `^Created|^Successfully|^$`},
	{line: "var put -check-index 999 -out=none nomad/jobs/x k=w", code: 1, want: `(?i)conflict`},
	{line: "var put -force -out=none nomad/jobs/x k=w", want: ``},
	{line: "var get -item k nomad/jobs/x", want: `^w\n?$`},
	{line: "var list", want: `nomad/jobs/x`},
	{line: "var purge -check-index 999 nomad/jobs/x", code: 1, want: `(?i)conflict|check-and-set`},
	{line: "var purge nomad/jobs/x", want: `Success`},
	{since: "1.8.0", line: "var lock -ttl 15s some/lock echo locked", want: `locked`},
	{line: "namespace apply -description d spare", want: `Successfully applied namespace`},
	{line: "namespace status spare", want: `Description\s+= d`},
	{line: "namespace delete spare", want: `Successfully deleted namespace`},
	{line: "node pool apply -", stdin: `node_pool "edge" { description = "d" }`, want: `Successfully applied node pool`},
	{line: "node pool info edge", want: `edge`},
	{line: "node pool delete edge", want: `Successfully deleted node pool`},
	{line: "acl policy apply reader -", stdin: `namespace "default" { policy = "read" }`, want: `Successfully wrote "reader"`},
	{line: "acl policy list", want: `reader`},
	{line: "acl policy info reader", want: `policy = "read"`},
	{line: "acl token create -name t -policy reader -ttl 1h", want: `(?s)Name\s+= t.*Expiry Time`},
	{line: "acl token list", want: `t\s+client`},
	{line: "acl role create -name r -policy reader", want: `Name\s+= r`},
	{line: "acl role list", want: `reader`},
	{line: "acl policy delete reader", want: `Successfully deleted`},
	{since: "1.8.0", line: "acl policy self", want: `.`},
	{line: "operator scheduler set-config -memory-oversubscription=true", want: `Scheduler configuration updated`},
	{line: "operator scheduler get-config", want: `Memory Oversubscription\s+= true`},
	{line: "operator autopilot get-config", want: `LastContactThreshold = 200ms`},
	{line: "operator autopilot set-config -max-trailing-logs=300", want: `Configuration updated`},
	{line: "operator raft list-peers", want: `leader`},
	{line: "operator root keyring list", want: `active`},
	{since: "1.9.0", line: "operator root keyring rotate -now", want: `active`},
	{line: "operator gossip keyring list", code: 1, want: `501`},
	{line: "system reconcile summaries", want: `^$`},
	{line: "job scale -detach talker g 2", want: `Evaluation ID`},
	{line: "job eval -detach talker", want: `Created eval ID`},
	{line: "job history talker", want: `Version\s+= 0`},
	{line: "scaling policy list", want: `talker`},
	{since: "1.9.0", line: "job tag apply -name golden talker", want: `golden`},
	{since: "1.9.0", line: "job tag unset -name golden talker", want: `removed`},
	{line: "job inspect talker", want: `"talker"`},
	{since: "1.10.0", line: "volume create -", stdin: `
name      = "data"
type      = "host"
plugin_id = "mkdir"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}`, want: `Created host volume data`},
	{since: "1.10.0", line: "volume status -type host data", want: `data`},
	{line: "service delete none none", code: 1, want: `service registration not found`},
	{line: "eval delete -yes 00000000-0000-0000-0000-000000000000", code: 1, want: `Eval broker is not paused`},
	{line: "operator snapshot save S", want: `State file written`},
}

// watched follows a log, a monitor of another node and the events of the cluster, while a task is
// signalled and a variable's namespace made.
func (s *server) watched(t *testing.T, token, alloc, node string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	events, err := s.client.EventStream().Stream(ctx, map[nomad.Topic][]string{"*": {"*"}}, 0, nil)
	require.NoError(t, err)
	follow := s.follow(t, alloc)
	follow.until(t, s, "hup")
	monitor := exec.CommandContext(ctx, s.args[0], "monitor", "-node-id", node, "-log-level", "debug")
	monitor.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NOMAD_ADDR=" + s.client.Address(), "NOMAD_TOKEN=" + token}
	out := &process{}
	monitor.Stdout, monitor.Stderr = out, out
	require.NoError(t, monitor.Start())
	eventually(t, "the log of another node", func() (bool, string) {
		_, code := s.cli(t, token, "", "alloc", "exec", alloc, "true") // which is said there
		return code == 0 && strings.Contains(out.log(), "a command runs in a task"), out.log()
	})
	require.NoError(t, monitor.Process.Kill())
	_ = monitor.Wait()

	_, err = s.client.Namespaces().Register(&nomad.Namespace{Name: "told"}, nil)
	require.NoError(t, err)
	seen := map[string]bool{}
	for !seen["Job"] || !seen["Allocation"] {
		select {
		case batch := <-events:
			require.NoError(t, batch.Err)
			for _, e := range batch.Events {
				seen[string(e.Topic)] = true
			}
		case <-ctx.Done():
			require.FailNow(t, "no event of a job and of an allocation", "%v", seen)
		}
	}
}

// promoted runs another version of the job, whose canary is promoted, and one that is failed.
func (s *server) promoted(t *testing.T, token string, file func(version int) string) {
	t.Helper()
	run := func(version int) (deployment string) {
		got, code := s.cli(t, token, "", "job", "run", "-detach", file(version))
		require.Zero(t, code, got)
		eventually(t, "a canary", func() (bool, string) {
			d, _, err := s.client.Jobs().LatestDeployment("talker", nil)
			if err != nil || d == nil || d.StatusDescription == "" {
				return false, fmt.Sprint(err)
			}
			g := d.TaskGroups["g"]
			deployment = d.ID
			b, _ := json.Marshal(d) // for people
			return d.Status == "running" && g.DesiredCanaries == 1 && g.HealthyAllocs == 1, string(b)
		})
		return deployment
	}
	id := run(2)
	for _, c := range []said{
		{line: "deployment pause D", want: `paused`},
		{line: "deployment resume -detach D", want: `resumed|^[0-9a-f-]{36}`},
		{line: "deployment promote -detach D", want: `promoted|Evaluation ID`},
	} {
		s.says(t, token, c, map[string]string{"D": id})
	}
	eventually(t, "the deployment to end", func() (bool, string) {
		d, _, err := s.client.Deployments().Info(id, nil)
		return err == nil && d.Status == "successful", fmt.Sprint(err, d)
	})
	id = run(3)
	got, code := s.cli(t, token, "", "deployment", "fail", "-detach", id)
	require.Zero(t, code, got)
	got, code = s.cli(t, token, "", "job", "revert", "-detach", "talker", "0")
	require.Zero(t, code, got)
	require.Regexp(t, regexp.MustCompile(`Evaluation ID|[0-9a-f-]{36}`), got)
}

// onTheirs has a node ask for an allocation of Nomad's own client, and run and dispatch jobs there.
func (s *server) onTheirs(t *testing.T, binary, token string) {
	t.Helper()
	startTheirs(t, binary, s.rpc, "127.0.0.1:1") // where nobody reaches it, so that the node is asked
	theirs := s.ready(t, "theirs")
	j := job("theirs", "batch", "cat local/in; echo $NOMAD_META_who; sleep 10000")
	j.ParameterizedJob = &nomad.ParameterizedJobConfig{Payload: "required", MetaRequired: []string{"who"}}
	j.TaskGroups[0].Tasks[0].DispatchPayload = &nomad.DispatchPayloadConfig{File: "in"}
	j.TaskGroups[0].Tasks[0].Config["args"] = []string{"-c", `cat "$NOMAD_TASK_DIR/in"; echo $NOMAD_META_who; sleep 10000`}
	s.run(t, j)
	got, code := s.cli(t, token, "payload\n", "job", "dispatch", "-detach", "-meta", "who=you", "theirs", "-")
	require.Zero(t, code, got)
	child := regexp.MustCompile(`theirs/dispatch-\S+`).FindString(got)
	require.NotEmpty(t, child, got)
	alloc := s.newest(t, child, theirs).ID
	eventually(t, "its log", func() (bool, string) {
		got, _ := s.cli(t, token, "", "alloc", "logs", alloc)
		return got == "payload\nyou\n", got
	})
	for _, c := range []said{
		{line: "alloc fs A t/local/in", want: `^payload\n$`},
		{line: "alloc exec A /bin/echo a b", want: `^a b\n$`},
		{line: "alloc exec -i -t=false A cat", stdin: "in and out", want: `^in and out$`},
		{line: "alloc status A", want: `Client Status\s+= running`},
		{line: "node status -stats N", want: `Host Resource Utilization`},
		{line: "alloc stop -detach A", want: `Evaluation ID|[0-9a-f-]{36}`},
	} {
		s.says(t, token, c, map[string]string{"A": alloc, "N": theirs})
	}
	for _, id := range []string{child, "theirs"} {
		_, _, err := s.client.Jobs().Deregister(id, true, nil)
		require.NoError(t, err)
	}
	eventually(t, "the dispatched job to end", func() (bool, string) {
		a, _, err := s.client.Allocations().Info(alloc, nil)
		return err != nil || a.ClientStatus == "complete" || a.ClientStatus == "failed", fmt.Sprint(err)
	})
}
