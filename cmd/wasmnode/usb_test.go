package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// usbSite is a node with a tree such as the kernel's, of which two directories are
// granted: links lead from one into the other, and one of them leads to what is not
// granted.
type usbSite struct {
	*site
	sys    string
	plugin []byte
	module string
}

const stickID = "0781/usb/5567[A1@1-2]"

func newUSBSite(t *testing.T) *usbSite {
	t.Helper()
	s := &usbSite{site: newSite(t, "wasi", "raw_exec"), sys: t.TempDir(), plugin: guestbuild.Plugin(t, "guest-examples/devices/usb")}
	s.drop(t, "usb.wasm", s.plugin)
	s.module = s.program(t, "files")
	s.file(t, "kernel/secret/idVendor", "dead\n")
	s.file(t, "kernel/secret/idProduct", "beef\n")
	s.link(t, "1-3", "kernel/secret")
	s.plugStick(t)
	s.grant(t, fmt.Sprintf(`
plugin "raw_exec" { grant { process { commands = ["/bin/sh"] } } }
plugin "usb" {
  config {
    sysfs = %q
  }
  grant {
    fs      { read_only = [%q, %q] }
    devices { nodes = ["/dev/bus/usb"] }
  }
}`, s.sys, filepath.Join(s.sys, "bus/usb"), filepath.Join(s.sys, "devices")))
	return s
}

func (s *usbSite) file(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(s.sys, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	write(t, path, text)
}

// link lists a directory of the tree as what is plugged into a port.
func (s *usbSite) link(t *testing.T, port, target string) {
	t.Helper()
	bus := filepath.Join(s.sys, "bus/usb/devices")
	require.NoError(t, os.MkdirAll(bus, 0o755))
	require.NoError(t, os.Symlink(filepath.Join("../../..", target), filepath.Join(bus, port)))
}

func (s *usbSite) plugStick(t *testing.T) {
	t.Helper()
	for name, text := range map[string]string{
		"idVendor": "0781", "idProduct": "5567", "serial": "A1", "busnum": "1", "devnum": "4", "urbnum": "11",
	} {
		s.file(t, filepath.Join("devices/pci0/1-2", name), text+"\n")
	}
	s.link(t, "1-2", "devices/pci0/1-2")
}

func (s *usbSite) unplugStick(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Remove(filepath.Join(s.sys, "bus/usb/devices/1-2")))
	require.NoError(t, os.RemoveAll(filepath.Join(s.sys, "devices/pci0/1-2")))
}

// programJob is a job whose task is a WASI program that says what it sees of the stick.
func (s *usbSite) programJob(t *testing.T, id string) string {
	t.Helper()
	return withStick(t, id, writeJob(t, id, "service", "wasi", fmt.Sprintf(
		"module = %q\nargs = [\"env:USB_DEVICES\", \"read:/devices/usb/1-2/serial\", \"sleep:1h\"]", s.module)))
}

// commandJob is a job whose task is a process of the node's that says what it sees.
func (s *usbSite) commandJob(t *testing.T, id string) string {
	t.Helper()
	return withStick(t, id, writeJob(t, id, "service", "raw_exec",
		`command = "/bin/sh"`+"\n"+`args = ["-c", "echo $USB_DEVICES; exec sleep 3600"]`))
}

func withStick(t *testing.T, id, file string) string {
	t.Helper()
	text := strings.Replace(read(t, file), "memory = 32\n", "memory = 32\ndevice \"0781/usb\" {}\n", 1)
	return write(t, filepath.Join(t.TempDir(), id+".nomad.hcl"), text)
}

// awaitLog waits until a running task has said that.
func (n *node) awaitLog(t *testing.T, alloc, want string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, want, n.out(t, "alloc", "logs", alloc)) }, testTimeout, tick)
}

func TestAUSBDeviceReachesItsTaskThroughTheKernelsLinks(t *testing.T) {
	s := newUSBSite(t)
	n := s.start(t)
	n.awaitPlugin(t, "usb", catalog.StateHealthy)
	status := n.out(t, "node", "status", "-self")
	assert.Regexp(t, `0781/usb/5567\[A1@1-2\] +true`, status)
	assert.NotContains(t, status, "dead", "where a link leads that is not granted")
	n.out(t, "job", "run", s.programJob(t, "stick"))
	alloc := n.await(t, "stick", "running")
	n.awaitLog(t, alloc.ID, "/dev/bus/usb/001/004\nA1\n\n")
	require.Eventually(t, func() bool {
		return strings.Contains(n.out(t, "alloc", "status", "-stats", alloc.ID), stickID+" = 11")
	}, testTimeout, tick)
}

// TestAUSBDeviceIsOneTasksAtATime gives a device to a process, which neither the agent's
// end nor a newer plugin takes from it; a program waits for it, gets it when the process
// has ended, and keeps running when it is unplugged.
func TestAUSBDeviceIsOneTasksAtATime(t *testing.T) {
	s := newUSBSite(t)
	n := s.start(t)
	n.awaitPlugin(t, "usb", catalog.StateHealthy)
	n.out(t, "job", "run", s.commandJob(t, "first"))
	first := n.await(t, "first", "running")
	n.awaitLog(t, first.ID, "/dev/bus/usb/001/004\n")
	blocked := n.run(t, "job", "run", s.programJob(t, "second"))
	require.Equal(t, notPlaced, blocked.code, blocked)
	assert.Contains(t, blocked.stdout, `devices: 0781/usb: 1 asked for, 0 free`)

	unchanged := func(after string) {
		t.Helper()
		again := n.await(t, "first", "running")
		require.Equal(t, first.ID, again.ID, after)
		require.Len(t, again.TaskStates["task"].Events, len(first.TaskStates["task"].Events), after)
		require.Equal(t, "/dev/bus/usb/001/004\n", n.out(t, "alloc", "logs", first.ID), "it was not started again after %s", after)
		require.Contains(t, n.out(t, "alloc", "status", first.ID), stickID)
		require.Empty(t, n.allocs(t, "second"), after)
	}
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		n.signal(t, signal)
		n = s.start(t)
		unchanged(signal.String())
	}
	s.drop(t, "usb.wasm", renamed(t, s.plugin, "0.1.0", "0.1.1"))
	require.Eventually(t, func() bool { return n.awaitPlugin(t, "usb", catalog.StateHealthy).Version == "0.1.1" }, testTimeout, tick)
	assert.Contains(t, n.out(t, "node", "status", "-self"), stickID)
	unchanged("a newer plugin")

	n.out(t, "job", "stop", "first")
	n.await(t, "first", "complete")
	second := n.await(t, "second", "running")
	n.awaitLog(t, second.ID, "/dev/bus/usb/001/004\nA1\n\n")

	s.unplugStick(t)
	require.Eventually(t, func() bool { return !strings.Contains(n.out(t, "node", "status", "-self"), stickID) }, testTimeout, tick)
	require.Equal(t, second.ID, n.await(t, "second", "running").ID, "who has it keeps running")
	n.out(t, "job", "stop", "second")
	n.await(t, "second", "complete")
	require.Equal(t, notPlaced, n.run(t, "job", "run", s.commandJob(t, "third")).code)
	s.plugStick(t)
	n.await(t, "third", "running")
}
