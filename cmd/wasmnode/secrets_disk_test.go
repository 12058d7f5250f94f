package main

import (
	"bytes"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

const secretJob = `job "told" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      identity {
        env  = true
        file = true
      }
      template {
        data        = "{{ with nomadVar \"nomad/jobs/told\" }}PASSWORD={{ .password }}\nCOLOR={{ .color }}{{ end }}"
        destination = "secrets/told.env"
        env         = true
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 1000", "${PASSWORD}"]
      }
    }
  }
}`

// TestSecretsAreNotOnTheDisk looks for what a task was told in all that the node has there.
func TestSecretsAreNotOnTheDisk(t *testing.T) {
	const password = "correct-horse-battery-staple"
	s := newSite(t, "raw_exec")
	s.grant(t, `plugin "raw_exec" { grant { process { commands = ["*"] } } }`)
	n := s.start(t)
	n.out(t, "var", "put", "-out", "none", "nomad/jobs/told", "password="+password, "color=blue")
	n.out(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "told.nomad.hcl"), secretJob))
	alloc := n.awaitTasks(t, "told", "t").ID
	env := func() (token string) {
		out := n.out(t, "alloc", "exec", alloc, "/bin/sh", "-c", `echo "$PASSWORD $COLOR $NOMAD_TOKEN"`)
		fields := strings.Fields(out)
		require.Len(t, fields, 3)
		require.Equal(t, []string{password, "blue"}, fields[:2])
		return fields[2]
	}
	first := env()
	clean := func(when string) {
		t.Helper()
		require.Empty(t, s.filesWith(t, password, first[strings.LastIndex(first, ".")+1:]), when)
	}
	clean("after the start")

	n.out(t, "alloc", "restart", alloc)
	n.awaitAlloc(t, "told", func(a *nomad.AllocationListStub) bool {
		return a.TaskStates["t"].Restarts == 1 && a.TaskStates["t"].State == "running"
	})
	second := env()
	require.NotEqual(t, first, second, "it has started again")
	first = second
	clean("after a restart")

	before := n.awaitTasks(t, "told", "t")
	n.signal(t, syscall.SIGKILL)
	clean("after the agent's end")
	n = s.start(t)
	require.Equal(t, second, env(), "what a running task has stays as it is")
	after := n.awaitTasks(t, "told", "t")
	require.Equal(t, before.TaskStates["t"].StartedAt, after.TaskStates["t"].StartedAt)
	clean("after the next agent has found it")

	n.out(t, "job", "stop", "told")
	n.await(t, "told", nomad.AllocClientStatusComplete)
	clean("after its end")
}

// filesWith returns the files of the data directory that have one of the texts, as it is or as bytes are
// in JSON. Secrets directories are looked at where they are on the disk only to have no more than that.
func (s *site) filesWith(t *testing.T, texts ...string) (found []string) {
	t.Helper()
	var all [][]byte
	for _, text := range texts {
		all = append(all, []byte(text))
		for i := range 3 { // wherever among three bytes it begins
			coded := base64.StdEncoding.EncodeToString([]byte("xxx"[:i] + text))
			all = append(all, []byte(coded[4:len(coded)-4]))
		}
	}
	seen := 0
	require.NoError(t, filepath.WalkDir(s.data, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has gone meanwhile
		}
		if e.IsDir() && e.Name() == "secrets" {
			return fs.SkipDir
		}
		if !e.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		seen++
		for _, text := range all {
			if bytes.Contains(content, text) {
				found = append(found, path)
			}
		}
		return nil
	}))
	require.Greater(t, seen, 3, "there is something to look at")
	return found
}
