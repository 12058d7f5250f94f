package main

import (
	"path/filepath"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

const checkedJob = `
job "checked" {
  group "g" {
    update {
      min_healthy_time = "1s"
      healthy_deadline = "1m"
    }
    restart {
      attempts = 1
      delay    = "1s"
      mode     = "fail"
    }
    service {
      provider = "nomad"
      check {
        type     = "script"
        task     = "t"
        command  = "/bin/sh"
        args     = ["-c", "cd \"${NOMAD_TASK_DIR}\"; if [ -e bad ]; then rm bad; exit 2; fi"]
        interval = "1s"
        timeout  = "1m"
        check_restart {
          limit = 1
          grace = "0s"
        }
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 1000"]
      }
    }
  }
}
`

func TestACommandInATaskIsACheck(t *testing.T) {
	s := newSite(t, "raw_exec")
	s.grant(t, `plugin "raw_exec" { grant { process { commands = ["*"] } } }`)
	n := s.start(t)
	require.Zero(t, n.runJob(t, write(t, filepath.Join(t.TempDir(), "checked.nomad.hcl"), checkedJob)).code)
	alloc := n.awaitAlloc(t, "checked", func(a *nomad.AllocationListStub) bool {
		return a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil && *a.DeploymentStatus.Healthy
	}).ID
	n.out(t, "alloc", "exec", alloc, "/bin/sh", "-c", "touch \"$NOMAD_TASK_DIR/bad\"") // for one check
	n.awaitAlloc(t, "checked", func(a *nomad.AllocationListStub) bool {
		task := a.TaskStates["t"]
		return task.Restarts == 1 && task.State == "running"
	})
	require.Contains(t, n.out(t, "alloc", "status", alloc), "unhealthy")
}
