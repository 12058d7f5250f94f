package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/enginetest"
)

const containerdJob = `job %q {
  type = "batch"
  group "g" {
    task "t" {
      driver = "containerd-driver"
      config {
        image   = %q
        command = "/program"
        args    = ["count", "1000", "50", "end"]
      }
      resources {
        cpu    = 10
        memory = 32
      }
    }
  }
}
`

// Whenever the agent is killed, a container's output is there, each line once, and nothing of it
// is left in containerd.
func TestContainersOfContainerdOutliveAgentsThatAreKilled(t *testing.T) {
	e := enginetest.NewContainerd(t)
	s := newSite(t)
	s.drop(t, "containerd-driver.wasm", driver(t, "containerd"))
	s.grant(t, fmt.Sprintf(`plugin "containerd-driver" {
  config {
    endpoint  = "unix://%s"
    namespace = %q
  }
  grant {
    net { sockets = [%q] }
  }
}`, e.Socket, e.Namespace, e.Socket))
	n := s.start(t)
	n.awaitDriver(t, "containerd-driver", true)
	commandsInAContainer(t, n)
	for round := range 3 {
		job := fmt.Sprint("count-", round)
		n.out(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "job.nomad.hcl"), fmt.Sprintf(containerdJob, job, enginetest.Image)))
		if round > 0 { // the first kill is somewhere in the start, and the others while it runs, or ends
			require.Eventually(t, func() bool { return len(e.Containers(t)) > 0 }, testTimeout, tick)
		}
		time.Sleep(rand.N(600 * time.Millisecond))
		n.signal(t, syscall.SIGKILL)
		n = s.start(t)
		alloc := n.await(t, job, "complete")
		for flag, stream := range map[string]string{"-stdout": "o", "-stderr": "e"} {
			requireCounted(t, n.out(t, "alloc", "logs", flag, alloc.ID), stream, 1000, "round %d", round)
		}
		require.Eventually(t, func() bool { return len(e.Containers(t)) == 0 }, testTimeout, tick, "left over in round %d", round)
	}
}

// commandsInAContainer runs a command in a container that waits.
func commandsInAContainer(t *testing.T, n *node) {
	t.Helper()
	text := strings.Replace(fmt.Sprintf(containerdJob, "waits", enginetest.Image), `["count", "1000", "50", "end"]`, `["wait"]`, 1)
	n.out(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "job.nomad.hcl"), text))
	alloc := n.await(t, "waits", "running")
	require.Equal(t, "out", n.out(t, "alloc", "exec", "-i=false", "-t=false", alloc.ID, "/program", "print", "out", "", "0"))
	n.out(t, "job", "stop", "-detach", "waits")
	n.await(t, "waits", "complete")
}
