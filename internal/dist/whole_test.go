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

	"github.com/wasmnode/wasmnode/internal/enginetest"
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

// need skips a test where a machine has not what it needs, and says where that is.
func need(t *testing.T, program, debian string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not there: apt install %s", program, debian)
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, args, out)
	return string(out)
}

// TestAnotherDirectoryGivesTheSameBytes makes it all again: of a copy elsewhere, and with nothing
// that was compiled before.
func TestAnotherDirectoryGivesTheSameBytes(t *testing.T) {
	dir, flags := published(t)
	copied := filepath.Join(t.TempDir(), "another", "place")
	require.NoError(t, os.MkdirAll(copied, 0o700))
	output(t, "sh", "-c", `cd "$1" && git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -x -C "$2"`, "sh", "../..", copied)
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
		t.Skip("rpm needs root to install")
	}
	rpm := func(args ...string) string {
		return output(t, "rpm", append([]string{"--root", root, "--nodeps", "--noscripts"}, args...)...)
	}
	rpm("-i", file)
	require.Empty(t, rpm("-V", "wasmnode"), "all is as the package says")
	require.Contains(t, output(t, filepath.Join(root, "usr/bin/wasmnode"), "version"), "wasmnode ")
	mine := filepath.Join(root, "etc/wasmnode/wasmnode.hcl")
	require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o600))
	rpm("-U", "--force", file)
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

// TestTheBinaryForArm64Runs compiles and calls a plugin on another processor than this machine's.
func TestTheBinaryForArm64Runs(t *testing.T) {
	archive := one(t, "wasmnode_*_linux_arm64.tar.gz")
	need(t, "qemu-aarch64-static", "qemu-user-static")
	dir := t.TempDir()
	output(t, "tar", "-C", dir, "--strip-components=1", "-xzf", archive)
	binary := filepath.Join(dir, "usr/bin/wasmnode")
	require.Contains(t, output(t, "qemu-aarch64-static", binary, "version", "-v"), "linux/arm64")
	plugin := filepath.Join(dir, "usr/share/wasmnode/plugins/wasi.wasm")
	require.Contains(t, output(t, "qemu-aarch64-static", binary, "plugin", "conform", plugin), " 0 failed")
}

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

func newMachine(t *testing.T) *machine {
	t.Helper()
	dist, _ := published(t)
	need(t, "systemd-nspawn", "systemd-container")
	if os.Getuid() != 0 {
		t.Skip("a container of systemd needs root")
	}
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	require.NoError(t, os.Mkdir(root, 0o700))
	require.NoError(t, unix.Mount("/", root, "", unix.MS_BIND, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(root, 0)) })
	var said transcript
	cmd := exec.Command("systemd-nspawn", "-q", "-D", root, "--volatile=overlay", "--boot", "--register=no", "--keep-unit", "--private-network",
		"--console=pipe", "-M", fmt.Sprintf("wasmnode-test-%d", os.Getpid()), "--bind-ro="+dist+":/dist", "--", "--unit=basic.target")
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

const (
	installs = "dpkg -i /dist/wasmnode_*_amd64.deb"
	mainPID  = "systemctl show -p MainPID --value wasmnode"
	longJob  = `job "long" {
  group "long" {
    task "long" {
      driver = "raw_exec"
      config {
        command = "/usr/bin/sleep"
        args    = ["86399"]
      }
    }
  }
}
`
	rawExec = `plugin "raw_exec" {
  grant {
    process { commands = ["/usr/bin/sleep"] }
  }
}
`
)

// TestAPackageComesAndGoes is the life of a node on a machine with systemd: installed, used,
// reloaded, stuck, upgraded, not downgraded, crashed, removed.
func TestAPackageComesAndGoes(t *testing.T) {
	m := newMachine(t)
	m.do(installs)
	m.await("systemctl is-active wasmnode", "active")
	require.Equal(t, "the API answers at unix:///run/wasmnode/api.sock", m.do("systemctl show -p StatusText --value wasmnode"))
	require.Equal(t, "srw-rw---- root wasmnode", m.do("stat -c '%A %U %G' /run/wasmnode/api.sock"))
	require.Contains(t, m.do("MANWIDTH=80 man wasmnode-job-run"), "wasmnode job run [options]")

	m.do("cp /usr/share/wasmnode/plugins/wasi.wasm /usr/share/wasmnode/plugins/raw_exec.wasm /var/lib/wasmnode/plugins/")
	m.do("cat > /etc/wasmnode/raw_exec.hcl <<'E'\n" + rawExec + "E\nsystemctl reload wasmnode")
	m.await("wasmnode node status -self | tr -s ' '", "raw_exec true true")
	m.await("wasmnode node status -self | tr -s ' '", "wasi true true")
	m.do("wasmnode job run -detach /usr/share/wasmnode/jobs/hello.nomad.hcl")
	m.await("wasmnode alloc logs -job hello", `"word": "the"`)
	m.do("cat > /root/long.hcl <<'E'\n" + longJob + "E\nwasmnode job run -detach /root/long.hcl")
	const task = "pgrep -f '^/usr/bin/sleep 86399'"
	m.await(task, "\n")
	pid, agent := m.do(task), m.do(mainPID)

	m.do(installs)
	require.NotEqual(t, agent, m.do(mainPID), "the agent is the new one")
	m.await("wasmnode job status long", "running")
	require.Equal(t, pid, m.do(task), "and its task the old")

	m.do("cp /usr/bin/wasmnode /root/real; printf '#!/bin/sh\\necho \"  \\\\\"ClientSchema\\\\\": 99,\"\\n' > /usr/bin/wasmnode.new; chmod +x /usr/bin/wasmnode.new; mv /usr/bin/wasmnode.new /usr/bin/wasmnode")
	out, err := m.try(installs)
	require.Error(t, err)
	require.Contains(t, string(out), "it is of schema 99, and this one knows up to 1")
	require.Equal(t, pid, m.do(task), "nothing has happened")
	m.do("mv /root/real /usr/bin/wasmnode; dpkg --configure -a")

	agent = m.do(mainPID)
	m.do("kill -ABRT " + agent) // as the watchdog does
	m.await("systemctl is-active wasmnode; "+mainPID, "active\n")
	require.Eventually(t, func() bool { now := m.do(mainPID); return now != agent && now != "0" }, time.Minute, 100*time.Millisecond)
	m.await("wasmnode job status long", "running")
	require.Equal(t, pid, m.do(task))

	m.do("dpkg -r wasmnode")
	require.Empty(t, m.left(), "no process, mount or cgroup")
	require.Equal(t, "mine", m.do("echo mine; test -e /var/lib/wasmnode/server.db; test -e /etc/wasmnode/wasmnode.hcl; test ! -e /run/wasmnode"))
}

// TestAHardenedNodeRunsPrograms tries the unit with all that is closed in it.
func TestAHardenedNodeRunsPrograms(t *testing.T) {
	m := newMachine(t)
	m.do("mkdir -p /etc/systemd/system/wasmnode.service.d; touch /etc/systemd/system/wasmnode.service.d/a.conf")
	m.do(installs)
	m.do("cp /usr/share/wasmnode/hardened.conf /etc/systemd/system/wasmnode.service.d/; systemctl daemon-reload; systemctl restart wasmnode")
	m.do("cp /usr/share/wasmnode/plugins/wasi.wasm /var/lib/wasmnode/plugins/")
	m.await("wasmnode node status -self | tr -s ' '", "wasi true true")
	m.do("wasmnode job run -detach /usr/share/wasmnode/jobs/hello.nomad.hcl")
	m.await("wasmnode alloc logs -job hello", `"word": "the"`)
	m.do("systemctl restart wasmnode")
	m.await("wasmnode alloc status -json $(wasmnode job allocs -t '{{(index . 0).ID}}' hello)", `"complete"`)
}

// left lists what the node has left of processes, mounts and cgroups.
func (m *machine) left() string {
	return m.do(`pgrep -a wasmnode || true; pgrep -fa '^/usr/bin/sleep 86399' || true; grep wasmnode /proc/mounts | grep -v ' /dist ' || true
		for top in $(awk '$3 == "cgroup2" { print $2 }' /proc/mounts); do find "$top" -name 'wasmnode*'; done`)
}
