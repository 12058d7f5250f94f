package standalone

import (
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestWhatNodesRefuseOfAGroupIsAFaultOfTheJob(t *testing.T) {
	s, err := Open(Options{GroupFaults: func(g *nomad.TaskGroup) []string {
		return []string{"task " + g.Tasks[0].Name + ": no"}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	task := nomad.NewTask("web", "mock")
	task.Services = []*nomad.Service{{}, {Name: "b", Provider: "consul"}}
	group := nomad.NewTaskGroup("g", 1).AddTask(task)
	group.Services = []*nomad.Service{{}}
	job := nomad.NewServiceJob("j", "j", "global", 50).AddTaskGroup(group)
	faults, _ := s.ValidateJob(job)
	require.Equal(t, []string{`group "g": task web: no`}, faults)
	require.Equal(t, []string{"nomad", "nomad", "consul"}, []string{group.Services[0].Provider, task.Services[0].Provider, task.Services[1].Provider})
}
