package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// machine is this machine's own system in a container, started by systemd, with all that is
// written kept in memory: what a package does to it is undone at the end.
type machine struct {
	t      *testing.T
	leader string // its first process
}

// transcript is what a process has said: it is read while the process says more.
type transcript struct {
	mu   sync.Mutex
	said bytes.Buffer
}

// Write implements [io.Writer].
func (s *transcript) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.Write(b)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

// newMachine starts one that has what is published in /dist, and other directories where they say.
func newMachine(t *testing.T, binds ...string) *machine {
	t.Helper()
	return newMachineOf(t, "/", binds...)
}

// newMachineOf starts one with the system that is in a directory.
func newMachineOf(t *testing.T, system string, binds ...string) *machine {
	t.Helper()
	dist, _ := published(t)
	need(t, "systemd-nspawn", "systemd-container")
	if os.Getuid() != 0 {
		guestbuild.Missing(t, "a container of systemd needs root")
	}
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	require.NoError(t, os.Mkdir(root, 0o700))
	require.NoError(t, unix.Mount(system, root, "", unix.MS_BIND, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(root, 0)) })
	var said transcript
	args := []string{"-q", "-D", root, "--volatile=overlay", "--boot", "--register=no", "--keep-unit", "--private-network",
		"--console=pipe", "-M", fmt.Sprintf("wasmnode-test-%d", os.Getpid())}
	for _, bind := range append(binds, dist+":/dist") {
		args = append(args, "--bind-ro="+bind)
	}
	cmd := exec.Command("systemd-nspawn", append(args, "--", "--unit=basic.target")...)
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	m := &machine{t: t}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it halts
		<-ended
		for _, name := range []string{"payload", "supervisor"} {
			for _, tree := range []string{"systemd", "unified", "."} {
				_ = exec.Command("find", filepath.Join("/sys/fs/cgroup", tree, name), "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run() // nspawn leaves them
			}
		}
	})
	require.Eventually(t, func() bool {
		out, _ := exec.Command("pgrep", "-P", fmt.Sprint(cmd.Process.Pid)).Output()
		m.leader = strings.TrimSpace(string(out))
		out, _ = m.try("systemctl is-system-running")
		return strings.HasPrefix(string(out), "running") || strings.HasPrefix(string(out), "degraded")
	}, time.Minute, 100*time.Millisecond, "%s", &said)
	m.do("rm -f /usr/sbin/policy-rc.d") // which containers have, so that no service starts
	return m
}

// try runs a script in the machine.
func (m *machine) try(script string) ([]byte, error) {
	cmd := exec.CommandContext(m.t.Context(), "nsenter", "-t", m.leader, "-a", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"DEBIAN_FRONTEND=noninteractive", "NOMAD_ADDR=unix:///run/wasmnode/api.sock", "sh", "-ec", script)
	return cmd.CombinedOutput()
}

// do runs a script that has to work.
func (m *machine) do(script string) string {
	m.t.Helper()
	out, err := m.try(script)
	require.NoError(m.t, err, "%s\n%s", script, out)
	return strings.TrimSpace(string(out))
}

// await waits until a script prints something with that in it.
func (m *machine) await(script, want string) {
	m.t.Helper()
	var out []byte
	require.Eventually(m.t, func() bool {
		out, _ = m.try(script)
		return strings.Contains(string(out), want)
	}, 2*time.Minute, 100*time.Millisecond, "%s: %s", script, lazy{&out})
}

// lazy is shown when it is printed.
type lazy struct{ text *[]byte }

func (l lazy) String() string { return string(*l.text) }

// left lists what the node has left of processes, mounts and cgroups.
func (m *machine) left() string {
	return m.do(`pgrep -a wasmnode || true; pgrep -fa '^/usr/bin/sleep 86399' || true; grep wasmnode /proc/mounts | grep -v -e ' /dist ' -e ' /later ' || true
		for top in $(awk '$3 == "cgroup2" { print $2 }' /proc/mounts); do find "$top" -name 'wasmnode*'; done`)
}

// files lists what is installed or kept that is named like the node, but for pages that man has kept.
func (m *machine) files() string {
	return m.do("find /etc /root /usr /var -xdev -path /var/cache/man -prune -o -name '*wasmnode*' -print | sort; find /run -name '*wasmnode*' | sort")
}
