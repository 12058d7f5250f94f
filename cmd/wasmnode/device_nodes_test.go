package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/guestbuild"
	"github.com/wasmnode/wasmnode/managers"
)

// TestADeviceNodeReachesProcesses has a device whose node is /dev/zero: a process with a
// root of its own sees it where the plugin said, one without sees the node's /dev.
func TestADeviceNodeReachesProcesses(t *testing.T) {
	s, dir := newSite(t, "exec", "raw_exec"), t.TempDir()
	s.drop(t, "acme.wasm", guestbuild.Plugin(t, "managers/testdata/faulty_device"))
	// The task's user, nobody, has to be let read it.
	require.NoError(t, os.Chmod(write(t, filepath.Join(dir, "manual"), "read me"), 0o644))
	edits, err := (&wasmnodev1.ContainerEdits{
		Env:         []string{"ACME=/dev/acme0"},
		DeviceNodes: []*wasmnodev1.EditedDeviceNode{{Path: "/dev/acme0", HostPath: "/dev/zero"}},
		Mounts:      []*wasmnodev1.EditedMount{{HostPath: filepath.Join(dir, "manual"), ContainerPath: "/devices/manual"}},
	}).MarshalVT()
	require.NoError(t, err)
	write(t, filepath.Join(dir, "reserve"), string(edits))
	s.grant(t, fmt.Sprintf(`
plugin "exec" {
  grant {
    process {
      commands  = ["*"]
      users     = ["nobody"]
      isolation = "full"
    }
  }
}
plugin "raw_exec" { grant { process { commands = ["*"] } } }
plugin "faulty" {
  config {
    dir = %q
  }
  grant {
    fs      { read_write = [%q] }
    devices { nodes = ["/dev/zero"] }
  }
}`, dir, dir))
	n := s.start(t)
	n.awaitPlugin(t, "faulty", managers.StateHealthy)
	for _, p := range n.plugins(t) {
		if p.Name == "exec" && p.State == managers.StateUnhealthy {
			t.Skip("this machine cannot isolate processes: ", p.Reason)
		}
	}
	n.awaitPlugin(t, "exec", managers.StateHealthy)
	for driver, want := range map[string]string{
		"exec":     "/dev/acme0\n4\nread me\n",
		"raw_exec": "/dev/acme0\nnot here\nnot here\n",
	} {
		script := `echo $ACME; (test -c $ACME && head -c 4 $ACME | wc -c) || echo not here; cat /devices/manual 2>/dev/null && echo || echo not here; exec sleep 3600`
		text := read(t, writeJob(t, driver, "service", driver, fmt.Sprintf("command = \"/bin/sh\"\nargs = [\"-c\", %q]", script)))
		text = strings.Replace(text, "memory = 32\n", "memory = 32\ndevice \"acme/gpu\" {}\n", 1)
		n.out(t, "job", "run", write(t, filepath.Join(t.TempDir(), "job.nomad.hcl"), text))
		n.awaitLog(t, n.await(t, driver, "running").ID, want)
	}
}
