package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// servingJob has a task that stays and one that ends when a file is there, each with a service.
const servingJob = `
job "serving" {
  group "g" {
    network {
      port "http" {}
    }
    service {
      name     = "front"
      provider = "nomad"
      port     = "http"
      tags     = ["b", "a"]
    }
    task "stays" {
      driver = "raw_exec"
      service {
        name     = "api-${NOMAD_TASK_NAME}"
        provider = "nomad"
        port     = "http"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 1000"]
      }
      template {
        data        = "{{ range nomadService \"helper\" }}helper at {{ .Address }}{{ else }}no helper{{ end }}"
        destination = "local/helper"
        change_mode = "noop"
      }
    }
    task "ends" {
      driver = "raw_exec"
      lifecycle {
        hook = "prestart"
        sidecar = true
      }
      restart {
        attempts = 1
        delay    = "1h"
        interval = "2h"
        mode     = "fail"
      }
      service {
        name     = "helper"
        provider = "nomad"
        address  = "example.com"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "while [ ! -e FILE ]; do sleep 0.1; done; exit 1"]
      }
    }
  }
}
`

// awaitService waits until a service has registrations, or none.
func (n *node) awaitService(t *testing.T, name string, has bool) []*nomad.ServiceRegistration {
	t.Helper()
	client, err := nomad.NewClient(&nomad.Config{Address: "http://" + n.address})
	require.NoError(t, err)
	defer client.Close()
	q := &nomad.QueryOptions{WaitTime: 30 * time.Second}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		list, meta, err := client.Services().Get(name, q)
		require.NoError(t, err)
		if len(list) > 0 == has {
			return list
		}
		q.WaitIndex = meta.LastIndex
	}
	require.FailNow(t, "not in time", "%s: %v", name, has)
	return nil
}

// TestServicesAreFoundWhereTheirTasksRun has the agent killed, and a task end meanwhile.
func TestServicesAreFoundWhereTheirTasksRun(t *testing.T) {
	s := newSite(t, "raw_exec")
	s.grant(t, `plugin "raw_exec" { grant { process { commands = ["*"] } } }`)
	n := s.start(t)
	require.Contains(t, n.out(t, "service", "list"), "No service registrations found")
	end := filepath.Join(t.TempDir(), "end")
	require.Zero(t, n.run(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "serving.nomad.hcl"), strings.Replace(servingJob, "FILE", end, 1))).code)
	alloc := n.await(t, "serving", "running")
	before := n.awaitService(t, "api-stays", true)
	n.awaitService(t, "helper", true)
	front := n.awaitService(t, "front", true)
	rendered := func(want string) {
		require.Eventually(t, func() bool { return n.out(t, "alloc", "fs", alloc.ID, "stays/local/helper") == want }, testTimeout, tick, want)
	}
	rendered("helper at example.com")

	require.Equal(t, -1, n.signal(t, syscall.SIGKILL))
	write(t, end, "")
	n = s.start(t)
	n.awaitService(t, "helper", false)
	rendered("no helper")
	require.Equal(t, before, n.awaitService(t, "api-stays", true), "it was never gone")
	require.Equal(t, front, n.awaitService(t, "front", true))

	require.Equal(t, "Service Name  Tags\napi-stays     []\nfront         [a,b]\n", n.out(t, "service", "list"))
	require.Equal(t, "Service Name  Namespace  Tags\napi-stays     default    []\nfront         default    [a,b]\n", n.out(t, "service", "list", "-namespace=*"))
	info := n.out(t, "service", "info", "api")
	require.Regexp(t, `^Job ID +Address +Tags +Node ID +Alloc ID\nserving +\S+:\d+ +\[\] +[0-9a-f]{8} +`+alloc.ID[:8]+"\n$", info)
	require.Contains(t, n.out(t, "service", "info", "-verbose", "front"), "= "+front[0].ID)
	require.Contains(t, n.run(t, "service", "info", "nope").stderr, `No service registrations with prefix "nope" found`)
	require.Contains(t, n.out(t, "service", "delete", "front", front[0].ID), "Successfully deleted service registration")
	require.Contains(t, n.run(t, "service", "delete", "front", front[0].ID).stderr, "service registration not found")

	n.out(t, "job", "stop", "-detach", "serving")
	n.awaitService(t, "api-stays", false)
	require.Contains(t, n.out(t, "service", "list"), "No service registrations found")
}
