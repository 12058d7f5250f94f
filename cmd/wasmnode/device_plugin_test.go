package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// newFaultySite is a node with a device plugin of which a directory decides how it
// behaves.
func newFaultySite(t *testing.T, drivers ...string) (s *site, dir string) {
	t.Helper()
	s, dir = newSite(t, drivers...), t.TempDir()
	s.drop(t, "acme.wasm", guestbuild.Plugin(t, "managers/devices/testdata/faulty_device"))
	s.grant(t, fmt.Sprintf(`
plugin "faulty" {
  file = "acme.wasm"
  config {
    dir = %q
  }
  grant {
    fs      { read_write = [%q] }
    devices { nodes = ["/dev/zero"] }
  }
}`, dir, dir))
	return s, dir
}

// shellWithDevice writes a job whose task is a script that is given a device.
func shellWithDevice(t *testing.T, id, driver, script string) string {
	t.Helper()
	text := read(t, writeJob(t, id, "service", driver, fmt.Sprintf("command = \"/bin/sh\"\nargs = [\"-c\", %q]", script)))
	text = strings.Replace(text, "memory = 32\n", "memory = 32\ndevice \"acme/gpu\" {}\n", 1)
	return write(t, filepath.Join(t.TempDir(), "job.nomad.hcl"), text)
}

// TestADeviceNodeReachesProcesses has a device whose node is /dev/zero: a process with a
// root of its own sees it where the plugin said, one without sees the node's /dev.
func TestADeviceNodeReachesProcesses(t *testing.T) {
	s, dir := newFaultySite(t, "exec", "raw_exec")
	// The task's user, nobody, has to be let read it.
	require.NoError(t, os.Chmod(write(t, filepath.Join(dir, "manual"), "read me"), 0o644))
	edits, err := (&wasmnodev1.ContainerEdits{
		Env:         []string{"ACME=/dev/acme0"},
		DeviceNodes: []*wasmnodev1.EditedDeviceNode{{Path: "/dev/acme0", HostPath: "/dev/zero"}},
		Mounts:      []*wasmnodev1.EditedMount{{HostPath: filepath.Join(dir, "manual"), ContainerPath: "/devices/manual"}},
	}).MarshalVT()
	require.NoError(t, err)
	write(t, filepath.Join(dir, "reserve"), string(edits))
	s.grant(t, `
plugin "exec" {
  grant {
    process {
      commands  = ["*"]
      users     = ["nobody"]
      isolation = "full"
    }
  }
}
plugin "raw_exec" { grant { process { commands = ["*"] } } }`)
	n := s.start(t)
	n.awaitPlugin(t, "faulty", catalog.StateHealthy)
	for _, p := range n.plugins(t) {
		if p.Name == "exec" && p.State == catalog.StateUnhealthy {
			t.Skip("this machine cannot isolate processes: ", p.Reason)
		}
	}
	n.awaitPlugin(t, "exec", catalog.StateHealthy)
	for driver, want := range map[string]string{
		"exec":     "/dev/acme0\n4\nread me\n",
		"raw_exec": "/dev/acme0\nnot here\nnot here\n",
	} {
		script := `echo $ACME; (test -c $ACME && head -c 4 $ACME | wc -c) || echo not here; cat /devices/manual 2>/dev/null && echo || echo not here; exec sleep 3600`
		n.out(t, "job", "run", shellWithDevice(t, driver, driver, script))
		n.awaitLog(t, n.await(t, driver, "running").ID, want)
	}
}

// TestADeviceThatCouldNotBeReleasedIsReleasedByTheNextAgent kills the agent while a release is
// owed.
func TestADeviceThatCouldNotBeReleasedIsReleasedByTheNextAgent(t *testing.T) {
	s, dir := newFaultySite(t, "raw_exec")
	s.grant(t, `plugin "raw_exec" { grant { process { commands = ["*"] } } }`)
	calls := func(op string) int { return strings.Count("\n"+read(t, filepath.Join(dir, "calls")), "\n"+op+" ") }
	write(t, filepath.Join(dir, "release"), "trap")
	n := s.start(t)
	n.out(t, "job", "run", shellWithDevice(t, "user", "raw_exec", "exec sleep 3600"))
	alloc := n.await(t, "user", "running")
	n.out(t, "job", "stop", "-purge", "user")
	require.Eventually(t, func() bool { return calls("release") > 0 }, testTimeout, tick)
	require.Eventually(t, func() bool {
		n.out(t, "system", "gc")
		return n.run(t, "alloc", "status", alloc.ID).code != 0
	}, testTimeout, tick, "nothing else remembers it")
	n.signal(t, syscall.SIGKILL)
	failed := calls("release")
	require.NoError(t, os.Remove(filepath.Join(dir, "release")))
	n = s.start(t)
	n.awaitPlugin(t, "faulty", catalog.StateHealthy)
	require.Eventually(t, func() bool { return calls("release") > failed }, testTimeout, tick)
	require.Contains(t, read(t, filepath.Join(dir, "calls")), "release "+alloc.ID+"\n")
	require.Equal(t, 1, calls("reserve"))
}
