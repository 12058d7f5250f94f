package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestADataDirectoryThatCannotBeWritten uses file systems that refuse, since root may
// write whatever a mode forbids.
func TestADataDirectoryThatCannotBeWritten(t *testing.T) {
	for _, c := range []struct{ name, mount, want string }{
		{"read-only", "mount -t tmpfs -o ro none %s", "read-only file system"},
		{"full", "mount -t tmpfs -o size=64k none %[1]s && ! head -c 1M /dev/zero >%[1]s/fill 2>&-", "no space left on device"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			r := execute(t, unshared(t, fmt.Sprintf(c.mount, dir), binary, "agent", "-data-dir", dir, "-http-addr", "127.0.0.1:0"))
			assert.Equal(t, 1, r.code)
			assert.Regexp(t, `^Error: data_dir: [^\n]*`+regexp.QuoteMeta(dir)+`[^\n]*: `+c.want+`: choose another with -data-dir\n$`, r.stderr)
			assert.Empty(t, r.stdout)
		})
	}
}

// TestADiskThatFillsUpStopsNothing fills the data directory of an agent that runs.
func TestADiskThatFillsUpStopsNothing(t *testing.T) {
	s := newSite(t, "mock")
	n := startProcess(t, unshared(t, "mount -t tmpfs -o size=32m none "+s.data, binary, "agent", "-config", s.config, "-http-addr", "127.0.0.1:0"))
	first := writeJob(t, "first", "service", "mock_driver", `run_for = "1h"`)
	// Larger than what the files have free in them.
	second := writeJob(t, "second", "service", "mock_driver", fmt.Sprintf("run_for = \"1h\"\nstdout_string = %q", strings.Repeat("x", 32<<10)))
	n.out(t, "job", "run", first)
	running := n.await(t, "first", "running")

	inside := fmt.Sprintf("/proc/%d/root%s", n.cmd.Process.Pid, s.data)
	fill := filepath.Join(inside, "fill")
	require.ErrorIs(t, os.WriteFile(fill, make([]byte, 32<<20), 0o600), syscall.ENOSPC)
	r := n.run(t, "job", "run", second)
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, diskFull, r.stderr)
	after := n.await(t, "first", "running")
	assert.Equal(t, running.ID, after.ID)
	assert.Equal(t, running.TaskStates, after.TaskStates, "what runs goes on")
	assert.Contains(t, n.run(t, "job", "status", "second").stderr, "no job begins with", "half a job was not kept")

	require.NoError(t, os.Remove(fill))
	n.out(t, "job", "run", second)
	n.await(t, "second", "running")
	require.Zero(t, n.signal(t, syscall.SIGTERM), n.log)
}

// diskFull is what a change is answered with that there is no room for.
const diskFull = `^Error: the control plane cannot store a change: [^\n]*server.db: the disk is full: make room, and try again: [^\n]*: no space left on device\n$`

// TestAnAgentStartsOnADiskThatCannotBeWrittenToAndGoesOnAfterwards kills an agent, as a crash
// does, whose disk a task filled, or which the kernel made read-only.
func TestAnAgentStartsOnADiskThatCannotBeWrittenToAndGoesOnAfterwards(t *testing.T) {
	for name, disk := range map[string]struct {
		spoil, repair func(t *testing.T, dir string)
		says, refusal string
	}{
		"full": {
			spoil: func(t *testing.T, dir string) {
				require.ErrorIs(t, os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 64<<20), 0o600), syscall.ENOSPC)
			},
			repair:  func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "fill"))) },
			says:    "the disk is full",
			refusal: diskFull,
		},
		"read-only": { // where the agent looks: a file system that files are open on stays as it is
			spoil: func(t *testing.T, dir string) {
				require.NoError(t, syscall.Mount(dir, dir, "", syscall.MS_BIND, ""))
				t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
				require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
			},
			repair: func(t *testing.T, dir string) {
				require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND, ""))
			},
			says:    "the disk cannot be written to",
			refusal: `^Error: the control plane cannot store a change: [^\n]*server.db: nothing can be written: read-only file system\n$`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "raw_exec")
			if err := syscall.Mount("none", s.data, "tmpfs", 0, "size=64m"); err != nil {
				t.Skipf("this machine lets the test mount nothing: %v", err)
			}
			t.Cleanup(func() { require.NoError(t, syscall.Unmount(s.data, syscall.MNT_DETACH)) })
			s.grant(t, `plugin "raw_exec" { grant { process { commands = ["/bin/sleep"] } } }`)
			task := "command = \"/bin/sleep\"\nargs = [\"1000\"]"
			first, second := writeJob(t, "first", "service", "raw_exec", task), writeJob(t, "second", "service", "raw_exec", task)
			n := s.start(t)
			n.out(t, "job", "run", "-detach", first)
			running := n.await(t, "first", "running")
			n.signal(t, syscall.SIGKILL)
			disk.spoil(t, s.data)

			n = launchProcess(t, exec.Command(s.binary, "agent", "-http-addr", "127.0.0.1:0", "-config", s.config))
			n.address = n.log.await(t, answersLine, n.exited)[1] // it is ready when it can make itself known
			require.Contains(t, n.log.String(), disk.says+": what runs goes on, and changes are refused until that is over")
			after := n.await(t, "first", "running")
			require.Equal(t, running.ID, after.ID)
			require.Equal(t, taskEvents(running), taskEvents(after), "nothing happened to it")
			status, health := n.health(t)
			require.Equal(t, http.StatusInternalServerError, status)
			require.Contains(t, health, disk.says+": "+s.data)
			r := n.run(t, "job", "run", "-detach", second)
			assert.Equal(t, 1, r.code)
			assert.Regexp(t, disk.refusal, r.stderr)

			disk.repair(t, s.data)
			require.Eventually(t, func() bool { status, _ := n.health(t); return status == http.StatusOK }, testTimeout, tick)
			n.out(t, "job", "run", "-detach", second)
			n.await(t, "second", "running")
			require.Equal(t, taskEvents(running), taskEvents(n.await(t, "first", "running")))
			for _, job := range []string{"first", "second"} {
				n.out(t, "job", "stop", job)
			}
			require.Zero(t, n.signal(t, syscall.SIGTERM), n.log)
		})
	}
}

var answersLine = regexp.MustCompile(`the API answers: http_addr=(\S+)`)

// health is what /v1/agent/health answers.
func (n *node) health(t *testing.T) (status int, body string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Get("http://" + n.address + "/v1/agent/health")
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// unshared is a command that runs after a shell's in a mount namespace of its own, of
// which nothing is left afterwards.
func unshared(t *testing.T, setup string, args ...string) *exec.Cmd {
	t.Helper()
	if err := exec.Command("unshare", "-rm", "mount", "-t", "tmpfs", "none", t.TempDir()).Run(); err != nil {
		t.Skip("this machine lets the test make no mount namespace")
	}
	return exec.Command("unshare", append([]string{"-rm", "sh", "-c", setup + ` && exec "$0" "$@"`}, args...)...)
}
