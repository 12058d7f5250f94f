package server

import (
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestWhatNodesRefuseOfAGroupIsAFaultOfTheJob(t *testing.T) {
	s, err := Open(Options{GroupFaults: func(g *api.TaskGroup) []string {
		return []string{"task " + g.Tasks[0].Name + ": no"}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	task := api.NewTask("web", "mock")
	task.Services = []*api.Service{{}, {Provider: "consul"}}
	group := api.NewTaskGroup("g", 1).AddTask(task)
	group.Services = []*api.Service{{}}
	job := api.NewServiceJob("j", "j", "global", 50).AddTaskGroup(group)
	faults, _ := s.ValidateJob(job)
	require.Equal(t, []string{`group "g": task web: no`}, faults)
	require.Equal(t, []string{"nomad", "nomad", "consul"}, []string{group.Services[0].Provider, task.Services[0].Provider, task.Services[1].Provider})
}
