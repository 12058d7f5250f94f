package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
)

// grantFolder is a plugin's folder whose job runs a command that is not granted.
func grantFolder(t *testing.T, w workshop) string {
	t.Helper()
	folder := filepath.Join(w.dir, "mine")
	require.NoError(t, os.Mkdir(folder, 0o700))
	write(t, filepath.Join(folder, "Makefile"), ".PHONY: build\nbuild:\n\t@mkdir -p plugins && cp ../raw_exec.wasm plugins/.x && mv plugins/.x plugins/raw_exec.wasm\n")
	write(t, filepath.Join(folder, "agent.hcl"), `# What it may do.
plugin "raw_exec" {
  config {
    enabled = true
  }
  grant {
    process {
      commands  = ["/bin/none"] # nothing
      isolation = "none"
    }
  }
}
`)
	grantJob(t, folder, "/bin/true")
	return folder
}

func grantJob(t *testing.T, folder, command string) {
	t.Helper()
	write(t, filepath.Join(folder, "job.nomad.hcl"), `job "mine" {
  type = "batch"
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
        command = "`+command+`"
      }
      resources {
        cpu    = 20
        memory = 20
      }
    }
  }
}
`)
}

func TestWhatAPluginIsRefusedCanBeGrantedByAnAnswer(t *testing.T) {
	w, tt := newWorkshop(t, "raw_exec"), newTestTerminal(t)
	folder := grantFolder(t, w)
	cmd := exec.Command(binary, "plugin", "dev", "mine")
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+w.dir, "TMPDIR="+t.TempDir())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tt.theirs, tt.theirs, tt.theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	grants := func() string {
		text, err := os.ReadFile(filepath.Join(folder, "agent.hcl"))
		require.NoError(t, err)
		return string(text)
	}

	tt.enter(t, "y\r") // to no question: it is no answer
	tt.await(t, `grant  command /bin/true is not granted: add plugin "raw_exec" \{ grant \{ process \{ commands = \["/bin/true"\] \} \} \}`)
	tt.await(t, `grant  add it to mine/agent\.hcl\? \[y/N/always\]`)
	tt.enter(t, "\r")
	tt.await(t, `grant  it is not added`)
	require.NotContains(t, grants(), "/bin/true")

	grantJob(t, folder, "/bin/echo")
	tt.await(t, `(?s)commands = \["/bin/echo"\].*\[y/N/always\]`)
	tt.enter(t, "y\r")
	tt.await(t, `(?s)it is added to mine/agent\.hcl.*Terminated: Exit Code: 0`)
	require.Contains(t, grants(), `commands  = ["/bin/none", "/bin/echo"] # nothing`)

	grantJob(t, folder, "/bin/pwd")
	tt.await(t, `(?s)commands = \["/bin/pwd"\].*\[y/N/always\]`)
	tt.enter(t, "always\r")
	tt.await(t, `(?s)(Terminated: Exit Code: 0.*){2}`)

	grantJob(t, folder, "/bin/date")
	tt.await(t, `(?s)(Terminated: Exit Code: 0.*){3}`)
	require.Contains(t, grants(), `commands  = ["/bin/none", "/bin/echo", "/bin/pwd", "/bin/date"] # nothing`)
	tt.enter(t, "\x03")
	require.NoError(t, cmd.Wait())
	assert.Len(t, regexp.MustCompile(`\[y/N/always\]`).FindAllString(tt.shown.String(), -1), 3)
}

func TestWhatAPluginIsRefusedIsToldWhereNobodyAnswers(t *testing.T) {
	w := newWorkshop(t, "raw_exec")
	folder := grantFolder(t, w)
	before, err := os.ReadFile(filepath.Join(folder, "agent.hcl"))
	require.NoError(t, err)
	cmd := exec.Command(binary, "plugin", "dev", "mine")
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+w.dir, "TMPDIR="+t.TempDir())
	dev := launchProcess(t, cmd)
	dev.log.await(t, regexp.MustCompile(`(?m) grant  command /bin/true is not granted: add plugin "raw_exec" .*, to mine/agent\.hcl$`), dev.exited)
	assert.Zero(t, dev.signal(t, syscall.SIGINT))
	assert.NotContains(t, dev.log.String(), "[y/N/always]")
	after, err := os.ReadFile(filepath.Join(folder, "agent.hcl"))
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
}

func TestACallThatDoesNotReturnIsToldOf(t *testing.T) {
	now := time.Now()
	loops := host.RunningCall{Operation: "driver_start_task", Task: "hello", Began: now, Ends: now.Add(15 * time.Minute)}
	other := host.RunningCall{Operation: "driver_fingerprint", Began: now, Ends: now.Add(time.Minute)}
	told := map[runningKey]time.Duration{}
	at := func(seconds int, calls ...host.RunningCall) []string {
		return stillRunning(calls, told, now.Add(time.Duration(seconds)*time.Second))
	}
	require.Equal(t, []string{
		" has been in driver_start_task of task hello for 5s: it is ended in 14m55s unless it returns",
		" has been in driver_fingerprint for 5s: it is ended in 55s unless it returns",
	}, at(5, loops, other))
	require.Empty(t, at(9, loops, other))
	require.Equal(t, []string{" has been in driver_start_task of task hello for 10s: it is ended in 14m50s unless it returns"}, at(10, loops))
	require.Len(t, told, 1, "what has returned is forgotten")
	require.Empty(t, at(19, loops))
	require.Len(t, at(20, loops), 1)
}
