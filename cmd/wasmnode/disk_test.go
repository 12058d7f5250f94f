package main

import (
	"fmt"
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
	assert.Regexp(t, `^Error: the control plane cannot store a change: [^\n]*server.db: [^\n]*: no space left on device\n$`, r.stderr)
	after := n.await(t, "first", "running")
	assert.Equal(t, running.ID, after.ID)
	assert.Equal(t, running.TaskStates, after.TaskStates, "what runs goes on")
	assert.Contains(t, n.run(t, "job", "status", "second").stderr, "no job begins with", "half a job was not kept")

	require.NoError(t, os.Remove(fill))
	n.out(t, "job", "run", second)
	n.await(t, "second", "running")
	require.Zero(t, n.signal(t, syscall.SIGTERM), n.log)
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
