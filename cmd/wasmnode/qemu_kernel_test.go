package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// machineKernel is where internal/tools/fetch-kernel.sh puts Debian's kernel for virtual machines.
const machineKernel = "../../.cache/kernel"

// needKernel skips a test where there is no kernel to boot, unless there has to be one.
func needKernel(t *testing.T) {
	t.Helper()
	_, err := os.Stat(filepath.Join(machineKernel, "vmlinuz"))
	if err == nil {
		_, err = exec.LookPath("busybox")
	}
	if err == nil {
		return
	}
	guestbuild.Missing(t, fmt.Sprintf("%v: it is of Debian's linux-image-cloud-amd64, qemu-guest-agent or busybox-static, and make machines has them", err))
}

// makeInitramfs writes the file system that a kernel begins with: Debian's busybox and guest agent
// with its libraries, which are QEMU's, too, and testdata/machine.
func makeInitramfs(t *testing.T, file string) {
	t.Helper()
	root := t.TempDir()
	put := func(from, to string, mode os.FileMode) {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		to = filepath.Join(root, to)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
		require.NoError(t, os.WriteFile(to, content, mode))
	}
	busybox, err := exec.LookPath("busybox")
	require.NoError(t, err)
	agent := filepath.Join(machineKernel, "qemu-ga")
	put(busybox, "bin/busybox", 0o700)
	put(agent, "bin/qemu-ga", 0o700)
	put("testdata/machine/init", "init", 0o700)
	put("testdata/machine/shutdown", "sbin/shutdown", 0o700)
	put("testdata/machine/power-button", "etc/acpi/PWRF/00000080", 0o700)
	libraries, err := exec.Command("ldd", agent).CombinedOutput()
	require.NoError(t, err, "%s", libraries)
	for word := range strings.FieldsSeq(string(libraries)) {
		if filepath.IsAbs(word) {
			put(word, word, 0o700)
		}
	}
	modules, err := filepath.Glob(filepath.Join(machineKernel, "modules", "*"))
	require.NoError(t, err)
	for _, m := range modules {
		put(m, filepath.Join("modules", filepath.Base(m)), 0o600)
	}
	for _, dir := range []string{"dev", "proc", "sys", "run", "tmp", "var/log", "var/run"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o700))
	}
	archive := exec.Command("sh", "-c", `find . | busybox cpio -o -H newc >"$0"`, file)
	archive.Dir = root
	out, err := archive.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// writeKernelMachine writes a job of a machine that boots the kernel, without KVM. It is told a port of
// the node's loopback, and may not reach it. Its clock counts instructions: on a busy machine a guest
// that measures its time by the node's misses a timer, and waits for it for ever.
func writeKernelMachine(t *testing.T, images, task string, port int) string {
	t.Helper()
	kernel, err := filepath.Abs(filepath.Join(machineKernel, "vmlinuz"))
	require.NoError(t, err)
	initramfs := filepath.Join(images, "initramfs")
	makeInitramfs(t, initramfs)
	text := read(t, writeMachine(t, images, "linux", "3m", fmt.Sprintf(`
        use_thin_copy     = true
        drive_interface   = "virtio"
        graceful_shutdown = true
        guest_agent       = true
        restrict_network  = true
        port_map {
          web = 80
        }
        args = ["-no-reboot", "-icount", "shift=2", "-kernel", %q, "-initrd", %q, "-append", "console=ttyS0 quiet panic=-1 node=%d"]
`, kernel, initramfs, port)))
	text = strings.NewReplacer(`task "task"`, fmt.Sprintf("task %q", task), "memory = 32", "memory = 192").Replace(text)
	return write(t, filepath.Join(t.TempDir(), "linux.nomad.hcl"), text)
}

// requireServed waits until an address serves what is wanted.
func requireServed(t *testing.T, address, want string) {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		response, err := client.Get("http://" + address)
		if !assert.NoError(c, err) {
			return
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		assert.NoError(c, err)
		assert.Equal(c, want, string(body))
	}, 3*testTimeout, tick) // a kernel that is emulated on a busy machine
}

// kernelsEnv has a kernel boot a second time; "make check-full" sets it.
const kernelsEnv = "WASMNODE_KERNELS"

// TestAKernelBootsServesAndIsShutDown runs Debian's kernel as a user would run theirs: it serves
// HTTP through the port of its group, writes to an overlay, outlives the agent, and is shut down by its
// guest agent; at a second start, which has none, by its power button.
func TestAKernelBootsServesAndIsShutDown(t *testing.T) {
	if testing.Short() {
		t.Skip("it boots a kernel")
	}
	tools := needQEMU(t)
	needKernel(t)
	images, disk := t.TempDir(), "0"+strings.Repeat("\x00", 1<<20-1)
	write(t, filepath.Join(images, "linux"), disk)
	loopback := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(loopback.Close)
	s := newSite(t, "qemu")
	s.grant(t, fmt.Sprintf(qemuPlugin, tools, images))
	// The guest computes on a busy machine, emulated: its agent may take long to answer.
	write(t, s.config, strings.Replace(read(t, s.config), "client {", "client {\n  max_kill_timeout = \"3m\"", 1))
	n := s.start(t)
	task := "linux-" + strings.Repeat("x", 50)
	n.out(t, "job", "run", "-detach", writeKernelMachine(t, images, task, loopback.Listener.Addr().(*net.TCPAddr).Port))
	alloc := n.await(t, "linux", "running")
	said := func() string { return n.run(t, "alloc", "logs", alloc.ID).stdout }
	t.Cleanup(func() {
		if t.Failed() {
			files, _ := filepath.Glob(filepath.Join(s.data, "alloc", alloc.ID, "alloc", "logs", "*.stdout.*"))
			for _, f := range files {
				t.Logf("the machine has said:\n%s", read(t, f))
			}
		}
	})
	ports := n.allocation(t, alloc.ID).AllocatedResources.Shared.Ports
	require.Len(t, ports, 1)
	address := net.JoinHostPort(ports[0].HostIP, fmt.Sprint(ports[0].Value))
	requireServed(t, address, "start 1\n")
	require.Eventually(t, func() bool { return strings.Contains(said(), "the node is not reached") }, testTimeout, tick)
	sockets, err := filepath.Glob(filepath.Join(s.data, "alloc", alloc.ID, task, "q*.sock"))
	require.NoError(t, err)
	require.Len(t, sockets, 2)
	require.Greater(t, len(sockets[0]), 107, "more than fits into a socket's address")

	before := taskEvents(n.await(t, "linux", "running"))
	n.signal(t, syscall.SIGKILL)
	requireServed(t, address, "start 1\n")
	n = s.start(t)
	require.Equal(t, before, taskEvents(n.await(t, "linux", "running")), "nothing happened to it")
	requireServed(t, address, "start 1\n")

	again := os.Getenv(kernelsEnv) == "1"
	if again {
		n.out(t, "alloc", "restart", alloc.ID)
		requireServed(t, address, "start 2\n")
		require.Contains(t, said(), "shut down by its agent")
		require.NotContains(t, n.out(t, "alloc", "status", alloc.ID), "power button")
	}
	n.out(t, "job", "stop", "linux")
	status := n.out(t, "alloc", "status", n.await(t, "linux", "complete").ID)
	require.Contains(t, said(), "shut down by its agent")
	require.Contains(t, status, "Exit Code: 0")
	require.NotContains(t, status, "The machine runs on")
	require.Equal(t, again, strings.Contains(status, "The guest agent does not answer: the machine's power button is pressed"))
	require.Equal(t, again, strings.Contains(said(), "switched off by its power button"))
	require.True(t, disk == read(t, filepath.Join(images, "linux")), "an overlay leaves the image as it is")
}
