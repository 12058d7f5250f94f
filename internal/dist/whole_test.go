package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// published is the directory with what make dist made, and all of its flags but those of where
// it is. A test that needs it is of make dist-check.
func published(t *testing.T) (dir string, flags []string) {
	t.Helper()
	dir, flags = os.Getenv("WASMNODE_DIST"), strings.Fields(os.Getenv("WASMNODE_DIST_FLAGS"))
	if dir == "" {
		t.Skip("WASMNODE_DIST names no directory with what make dist made: make dist-check")
	}
	return dir, flags
}

// one returns the file that has such a name.
func one(t *testing.T, pattern string) string {
	t.Helper()
	dir, _ := published(t)
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	require.Len(t, found, 1, pattern)
	return found[0]
}

// need ends a test where a machine has not what it needs, and says where that is.
func need(t *testing.T, program, debian string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		guestbuild.Missing(t, fmt.Sprintf("%s is not there: apt install %s", program, debian))
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, args, out)
	return string(out)
}

// copyOfTree is the repository elsewhere.
func copyOfTree(t *testing.T) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "another", "place")
	require.NoError(t, os.MkdirAll(copied, 0o700))
	output(t, "sh", "-c", `cd "$1" && git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -x -C "$2"`, "sh", "../..", copied)
	return copied
}

// TestAnotherDirectoryGivesTheSameBytes makes it all again: of a copy elsewhere, and with nothing
// that was compiled before.
func TestAnotherDirectoryGivesTheSameBytes(t *testing.T) {
	dir, flags := published(t)
	copied := copyOfTree(t)
	t.Setenv("GOCACHE", t.TempDir())
	out := filepath.Join(t.TempDir(), "dist")
	require.NoError(t, run(append([]string{"-root", copied, "-out", out}, flags...)))
	require.Equal(t, read(t, dir, sumsName), read(t, out, sumsName))
}

func TestTheRPMIsInstalled(t *testing.T) {
	need(t, "rpm", "rpm")
	file, root := one(t, "wasmnode-*.x86_64.rpm"), t.TempDir()
	require.Equal(t, "/etc/wasmnode/environment\n/etc/wasmnode/wasmnode.hcl\n", output(t, "rpm", "-qpc", file))
	for _, script := range []string{"preinstall", "postinstall", "preuninstall", "postuninstall"} {
		require.Contains(t, output(t, "rpm", "-qp", "--scripts", file), script+" scriptlet (using /bin/sh)")
	}
	if os.Getuid() != 0 {
		guestbuild.Missing(t, "rpm needs root to install")
	}
	rpm := func(args ...string) string {
		return output(t, "rpm", append([]string{"--root", root, "--nodeps", "--noscripts"}, args...)...)
	}
	rpm("-i", file)
	require.Empty(t, rpm("-V", "wasmnode"), "all is as the package says")
	require.Contains(t, output(t, filepath.Join(root, "usr/bin/wasmnode"), "version"), "wasmnode ")
	closed := filepath.Join(root, "etc/wasmnode")
	require.NoError(t, os.Chmod(closed, 0o700))
	mine := filepath.Join(closed, "wasmnode.hcl")
	require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o600))
	rpm("-U", "--force", file)
	info, err := os.Stat(closed)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "who closed it finds it closed")
	require.Equal(t, "mine", read(t, root, "etc/wasmnode/wasmnode.hcl"))
	rpm("-e", "wasmnode")
	require.NoFileExists(t, filepath.Join(root, "usr/bin/wasmnode"))
}

func TestTheImageRuns(t *testing.T) {
	file := one(t, "wasmnode_*_linux_amd64.image.tar")
	e := enginetest.Docker(t)
	docker := func(args ...string) string {
		return output(t, "docker", append([]string{"-H", "unix://" + e.Socket}, args...)...)
	}
	_, name, _ := strings.Cut(strings.TrimSpace(docker("load", "-q", "-i", file)), "Loaded image: ")
	require.Contains(t, docker("run", "--rm", "--net", "none", name, "version"), "wasmnode ")
	id := strings.TrimSpace(docker("run", "-d", "--net", "none", name))
	asked := func() string {
		out, _ := exec.Command("docker", "-H", "unix://"+e.Socket, "exec", id, "/usr/bin/wasmnode", "node", "status", "-self").CombinedOutput()
		return string(out)
	}
	require.Eventually(t, func() bool { return strings.Contains(asked(), "ready") }, time.Minute, 100*time.Millisecond, "%s", docker("logs", id))
	docker("rm", "-f", id)
}
