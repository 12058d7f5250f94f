package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readingJob prints a variable whenever it is started.
const readingJob = `
job "reading" {
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $WORD; exec sleep 1000"]
      }
      template {
        data        = "{{ with nomadVar \"PATH\" }}WORD={{ .word }}{{ end }}"
        destination = "secrets/word.env"
        env         = true
        splay       = "0s"
      }
    }
  }
}
`

// TestATaskReadsAVariable has the agent killed while the task waits for the variable, and while it
// changes. With ACLs another job's cannot be read.
func TestATaskReadsAVariable(t *testing.T) {
	s := newSite(t, "raw_exec")
	s.grant(t, "plugin \"raw_exec\" { grant { process { commands = [\"*\"] } } }\nacl { enabled = true }")
	n := s.start(t)
	token := regexp.MustCompile(`Secret ID += (\S+)`).FindStringSubmatch(n.out(t, "acl", "bootstrap"))[1]
	t.Setenv("NOMAD_TOKEN", token)
	file := func(path string) string {
		return write(t, filepath.Join(t.TempDir(), "reading.nomad.hcl"), strings.Replace(readingJob, "PATH", path, 1))
	}
	require.Zero(t, n.run(t, "job", "run", "-detach", file("nomad/jobs/reading")).code)
	const waits = "Missing: nomad.var.block(nomad/jobs/reading@default.global)"
	tells := func(text string) func(a *nomad.AllocationListStub) bool {
		return func(a *nomad.AllocationListStub) bool {
			for _, e := range a.TaskStates["t"].Events {
				if strings.Contains(e.DisplayMessage, text) {
					return true
				}
			}
			return false
		}
	}
	alloc := n.awaitAlloc(t, "reading", func(a *nomad.AllocationListStub) bool { return a.TaskStates["t"] != nil && tells(waits)(a) })
	require.Equal(t, nomad.AllocClientStatusPending, alloc.ClientStatus)

	require.Equal(t, -1, n.signal(t, syscall.SIGKILL))
	n = s.start(t)
	n.out(t, "var", "put", "-out", "none", "nomad/jobs/reading", "word=first")
	n.awaitAlloc(t, "reading", func(a *nomad.AllocationListStub) bool { return a.ClientStatus == nomad.AllocClientStatusRunning })
	printed := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool { return n.out(t, "alloc", "logs", alloc.ID) == want }, testTimeout, tick, want)
	}
	printed("first\n")
	n.out(t, "var", "put", "-force", "-out", "none", "nomad/jobs/reading", "word=second")
	printed("first\nsecond\n")
	assert.Contains(t, n.out(t, "alloc", "status", alloc.ID), "Template with change_mode restart re-rendered")

	n.out(t, "job", "stop", "-detach", "-purge", "reading")
	n.out(t, "var", "put", "-out", "none", "nomad/jobs/other", "word=theirs")
	require.Zero(t, n.run(t, "job", "run", "-detach", file("nomad/jobs/other")).code)
	n.awaitAlloc(t, "reading", func(a *nomad.AllocationListStub) bool {
		return a.ID != alloc.ID && a.ClientStatus == nomad.AllocClientStatusFailed &&
			tells(`variable "nomad/jobs/other" in namespace "default": Permission denied: with ACLs, the policy of a task's identity is to read nomad/jobs, nomad/jobs/reading, nomad/jobs/reading/g, nomad/jobs/reading/g/t in namespace "default", and no policy is attached to it`)(a)
	})

	n.out(t, "job", "stop", "-detach", "-purge", "reading")
	rules := "namespace \"default\" {\n  variables {\n    path \"shared/*\" {\n      capabilities = [\"read\"]\n    }\n  }\n}\n"
	n.out(t, "acl", "policy", "apply", "-namespace", "default", "-job", "reading", "sharing", write(t, filepath.Join(t.TempDir(), "sharing.hcl"), rules))
	require.Zero(t, n.run(t, "job", "run", "-detach", file("nomad/jobs/other")).code)
	n.awaitAlloc(t, "reading", func(a *nomad.AllocationListStub) bool {
		return a.ClientStatus == nomad.AllocClientStatusFailed && tells(`in namespace "default", and what is attached to it, sharing, does not allow it`)(a)
	})
}

// sayingJob has its driver say what it was told, in an event and in an error.
const sayingJob = `
job "saying" {
  group "g" {
    task "t" {
      driver = "mock_driver"
      config {
        run_for      = "1h"
        start_event  = "connects to ${DATABASE_URL}"
        signal_error = "cannot tell ${DATABASE_URL}"
      }
      template {
        data        = "{{ with nomadVar \"nomad/jobs/saying\" }}DATABASE_URL=postgres://web:{{ .word }}@db{{ end }}"
        destination = "secrets/db.env"
        env         = true
      }
    }
  }
}
`

// TestWhatATemplateMadeOfAVariableIsMasked has a driver say a value whose name tells nothing, before and
// after the agent is killed.
func TestWhatATemplateMadeOfAVariableIsMasked(t *testing.T) {
	s := newSite(t, "mock")
	n := s.start(t)
	n.out(t, "var", "put", "-out", "none", "nomad/jobs/saying", "word=correct-horse")
	require.Zero(t, n.run(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "saying.nomad.hcl"), sayingJob)).code)
	alloc := n.awaitAlloc(t, "saying", func(a *nomad.AllocationListStub) bool { return a.ClientStatus == nomad.AllocClientStatusRunning })
	signals := func() {
		t.Helper()
		r := n.run(t, "alloc", "signal", "-s", "SIGHUP", alloc.ID)
		require.Equal(t, 1, r.code)
		require.Contains(t, r.stderr, "cannot tell masked-masked-masked")
		all := r.stderr + n.out(t, "alloc", "status", "-json", alloc.ID) + n.out(t, "plugin", "logs", "mock_driver")
		require.Contains(t, all, "connects to masked-masked-masked")
		require.NotContains(t, all, "correct-horse")
	}
	signals()
	require.Equal(t, -1, n.signal(t, syscall.SIGKILL))
	n = s.start(t)
	n.awaitAlloc(t, "saying", func(a *nomad.AllocationListStub) bool { return a.ClientStatus == nomad.AllocClientStatusRunning })
	require.NotEmpty(t, n.running(t, "saying"))
	signals()
}
