package clustertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-version"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// ready waits for a node, and returns its ID.
func (s *server) ready(t *testing.T, name string) (id string) {
	t.Helper()
	eventually(t, "node "+name, func() (bool, string) {
		nodes, _, err := s.client.Nodes().List(nil)
		if err != nil {
			return false, err.Error()
		}
		for _, n := range nodes {
			if d := n.Drivers["raw_exec"]; n.Name == name && n.Status == "ready" && d != nil && d.Healthy {
				id = n.ID
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d nodes", len(nodes))
	})
	return id
}

// job is one whose task runs a shell's script.
func job(id, kind, script string) *nomad.Job {
	j := nomad.NewServiceJob(id, id, "global", 50)
	if kind == "batch" {
		j = nomad.NewBatchJob(id, id, "global", 50)
	}
	g := nomad.NewTaskGroup("g", 1)
	cpu, memory, zero := 50, 32, 0
	g.AddTask(nomad.NewTask("t", "raw_exec").SetConfig("command", "/bin/sh").SetConfig("args", []string{"-c", script}).
		Require(&nomad.Resources{CPU: &cpu, MemoryMB: &memory}))
	g.RestartPolicy = &nomad.RestartPolicy{Attempts: &zero}
	if kind == "service" {
		healthy := 100 * time.Millisecond
		g.Update = &nomad.UpdateStrategy{MinHealthyTime: &healthy}
	}
	j.AddTaskGroup(g)
	return j
}

func (s *server) run(t *testing.T, j *nomad.Job) {
	t.Helper()
	_, _, err := s.client.Jobs().Register(j, nil)
	require.NoError(t, err)
}

// allocs waits until a job's allocations have certain client statuses, oldest first.
func (s *server) allocs(t *testing.T, job string, statuses ...string) (list []*nomad.AllocationListStub) {
	t.Helper()
	want := strings.Join(statuses, " ")
	eventually(t, "allocations of "+job+": "+want, func() (bool, string) {
		var err error
		if list, _, err = s.client.Jobs().Allocations(job, true, nil); err != nil {
			return false, err.Error()
		}
		var got []string
		for i := range list {
			got = append(got, list[len(list)-1-i].ClientStatus)
		}
		return strings.Join(got, " ") == want, strings.Join(got, " ")
	})
	return list
}

func (s *server) deployed(t *testing.T, job string, version uint64) {
	t.Helper()
	eventually(t, "the deployment of "+job, func() (bool, string) {
		d, _, err := s.client.Jobs().LatestDeployment(job, nil)
		if err != nil || d == nil {
			return false, fmt.Sprint(err)
		}
		return d.JobVersion == version && d.Status == "successful", d.Status + ": " + d.StatusDescription
	})
}

// TestANodeOfACluster is a node's life with a server of each version.
func TestANodeOfACluster(t *testing.T) {
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) { life(t, binary) })
	}
}

func life(t *testing.T, binary string) {
	s := startServers(t, binary, 1, "")[0]
	agent := startNode(t, "ours", "", s)
	id := s.ready(t, "ours")
	marks := filepath.Join(t.TempDir(), "marks")

	t.Run("a batch job completes, another fails", func(t *testing.T) {
		s.run(t, job("good", "batch", "exit 0"))
		a := s.allocs(t, "good", "complete")[0]
		require.Equal(t, id, a.NodeID)
		state := a.TaskStates["t"]
		require.Equal(t, "dead", state.State)
		require.False(t, state.StartedAt.IsZero())
		var types []string
		for _, e := range state.Events {
			types = append(types, e.Type)
		}
		require.Equal(t, []string{structs.EventReceived, structs.EventTaskSetup, structs.EventStarted, structs.EventTerminated}, types)
		bad := job("bad", "batch", "exit 3")
		none := 0
		unlimited := false
		bad.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: &none, Unlimited: &unlimited}
		s.run(t, bad)
		events := s.allocs(t, "bad", "failed")[0].TaskStates["t"].Events
		require.Contains(t, fmt.Sprint(events[3].Details), "exit_code:3")
	})

	svc := job("svc", "service", "echo $$ >> "+marks+"; exec sleep 10000")
	svc.TaskGroups[0].Services = []*nomad.Service{{Name: "web", Provider: "nomad", PortLabel: "http"}}
	svc.TaskGroups[0].Networks = []*nomad.NetworkResource{{DynamicPorts: []nomad.Port{{Label: "http"}}}}
	svc.TaskGroups[0].Tasks[0].Templates = []*nomad.Template{{
		EmbeddedTmpl: ref(`{{ with nomadVar "nomad/jobs/svc" }}{{ .k }}{{ end }} {{ range nomadService "web" }}{{ .Port }}{{ end }}`),
		DestPath:     ref("local/out"), ChangeMode: ref("noop"),
	}}
	signs := !versionOf(t, binary).LessThan(version.Must(version.NewVersion("1.7.0")))
	if signs {
		svc.TaskGroups[0].Tasks[0].Identities = []*nomad.WorkloadIdentity{{Name: "vault", Audience: []string{"vault"}, File: true, TTL: time.Hour}}
	}
	t.Run("a service is healthy, found, and reads its variables", func(t *testing.T) {
		_, _, err := s.client.Variables().Create(&nomad.Variable{Path: "nomad/jobs/svc", Items: nomad.VariableItems{"k": "secret"}}, nil)
		require.NoError(t, err)
		s.run(t, svc)
		s.deployed(t, "svc", 0)
		found, _, err := s.client.Services().Get("web", nil)
		require.NoError(t, err)
		require.Len(t, found, 1)
		alloc := s.allocs(t, "svc", "running")[0]
		out := filepath.Join(filepath.Dir(agent.args[3]), "data", "alloc", alloc.ID, "t", "local", "out")
		eventually(t, "the template", func() (bool, string) {
			got, err := os.ReadFile(out)
			return string(got) == fmt.Sprintf("secret %d", found[0].Port), fmt.Sprintf("%s %v", got, err)
		})
		if signs {
			token, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(out)), "secrets", "nomad_vault.jwt"))
			require.NoError(t, err)
			require.Len(t, strings.Split(string(token), "."), 3)
		}
	})
	t.Run("an agent that is killed comes back to what runs", func(t *testing.T) {
		agent.end(syscall.SIGKILL)
		agent.start(t)
		eventually(t, "the agent", func() (bool, string) {
			return strings.Count(agent.log(), "agent is ready") == 2, agent.log()
		})
		s.allocs(t, "svc", "running")
		once(t, marks)
	})
	t.Run("a server that is restarted is joined again", func(t *testing.T) {
		s.end(syscall.SIGKILL)
		s.start(t)
		s.awaitLeader(t)
		require.Equal(t, id, s.ready(t, "ours"))
		s.run(t, job("after", "batch", "exit 0"))
		s.allocs(t, "after", "complete")
		s.allocs(t, "svc", "running")
		once(t, marks)
	})
	t.Run("an update in place is another deployment", func(t *testing.T) {
		svc.TaskGroups[0].Tasks[0].KillTimeout = ref(3 * time.Second)
		svc.TaskGroups[0].Services[0].Tags = []string{"new"}
		s.run(t, svc)
		s.deployed(t, "svc", 1)
		s.allocs(t, "svc", "running")
		once(t, marks)
		eventually(t, "the service's new tags", func() (bool, string) {
			found, _, err := s.client.Services().Get("web", nil)
			return err == nil && len(found) == 1 && len(found[0].Tags) == 1, fmt.Sprint(found, err)
		})
	})
	t.Run("a drain ends at once", func(t *testing.T) {
		_, err := s.client.Nodes().UpdateDrain(id, &nomad.DrainSpec{Deadline: time.Hour}, false, nil)
		require.NoError(t, err)
		s.allocs(t, "svc", "complete")
		eventually(t, "the end of the drain", func() (bool, string) {
			n, _, err := s.client.Nodes().Info(id, nil)
			return err == nil && !n.Drain, fmt.Sprint(err)
		})
		_, err = s.client.Nodes().ToggleEligibility(id, true, nil)
		require.NoError(t, err)
		s.allocs(t, "svc", "complete", "running")
	})
	t.Run("a job that is stopped is gone with its services", func(t *testing.T) {
		_, _, err := s.client.Jobs().Deregister("svc", false, nil)
		require.NoError(t, err)
		s.allocs(t, "svc", "complete", "complete")
		eventually(t, "no service", func() (bool, string) {
			found, _, err := s.client.Services().Get("web", nil)
			return err == nil && len(found) == 0, fmt.Sprint(len(found), err)
		})
	})
	t.Run("a node that servers let go of registers again", func(t *testing.T) {
		_, _, err := s.client.Nodes().Purge(id, nil)
		require.NoError(t, err)
		require.Equal(t, id, s.ready(t, "ours"))
		s.run(t, job("later", "batch", "exit 0"))
		s.allocs(t, "later", "complete")
	})
}

// once requires that a task has been started once.
func once(t *testing.T, marks string) {
	t.Helper()
	got, err := os.ReadFile(marks)
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(got)), 1)
}

func ref[T any](v T) *T { return &v }

// TestTheLeaderOfThreeServersIsKilled goes on with the two that are left.
func TestTheLeaderOfThreeServersIsKilled(t *testing.T) {
	list := binaries(t)
	servers := startServers(t, list[len(list)-1], 3, "")
	startNode(t, "ours", "", servers...)
	servers[0].ready(t, "ours")
	servers[0].run(t, job("svc", "service", "exec sleep 10000"))
	servers[0].deployed(t, "svc", 0)
	leader, err := servers[0].client.Status().Leader()
	require.NoError(t, err)
	var left []*server
	for _, s := range servers {
		if s.rpc == leader {
			s.end(syscall.SIGKILL)
		} else {
			left = append(left, s)
		}
	}
	require.Len(t, left, 2)
	eventually(t, "another leader", func() (bool, string) {
		now, err := left[0].client.Status().Leader()
		return err == nil && now != "" && now != leader, fmt.Sprint(now, err)
	})
	left[1].ready(t, "ours")
	left[1].run(t, job("after", "batch", "exit 0"))
	left[1].allocs(t, "after", "complete")
	left[1].allocs(t, "svc", "running")
	_, _, err = left[1].client.Jobs().Deregister("svc", false, nil)
	require.NoError(t, err)
	left[1].allocs(t, "svc", "complete")
}
