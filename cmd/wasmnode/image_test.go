package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// TestATaskInAnImageOutlivesTheAgent: it is the same after kill -9 under another program, what is
// run in it is held in the image, and what its driver was not granted, the task's event says how to
// grant. Beside it another image has its own files and processes, and the same task's memory.
func TestATaskInAnImageOutlivesTheAgent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can isolate processes")
	}
	enginetest.Program(t, "busybox", "busybox-static")
	busybox, err := exec.LookPath("busybox")
	require.NoError(t, err)
	images, data := t.TempDir(), t.TempDir()
	for _, dir := range []string{filepath.Dir(images), images, filepath.Dir(data), data} {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	root, side := filepath.Join(images, "shell"), filepath.Join(images, "side")
	content, err := os.ReadFile(busybox)
	require.NoError(t, err)
	for _, dir := range []string{root, side} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
		for _, name := range []string{"sh", "busybox"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", name), content, 0o755))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(side, "mine"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(data, "greeting"), []byte("hello\n"), 0o644))

	s := newSite(t)
	s.drop(t, "image.wasm", guestbuild.Plugin(t, "cmd/wasmnode/testdata/image"))
	s.grant(t, fmt.Sprintf(`plugin "image" {
  grant {
    process {
      commands  = ["*"]
      users     = ["nobody"]
      isolation = "full"
      mounts    = ["r:%s"]
    }
  }
}`, images))
	job := func(id string) string {
		return writeJob(t, id, "batch", "image", fmt.Sprintf(`image = %q
data = %q
script = "busybox dd if=/dev/zero of=/dev/shm/hold bs=1M count=20; : >/local/held; exec busybox sleep 1000"
side_image = %q
side = "busybox ls -d bin data mine; echo $$; until [ -e /local/go ]; do busybox sleep 0.05; done; busybox dd if=/dev/zero of=/dev/null bs=19000000 count=1 2>/dev/null && echo enough || echo too little; : >/local/gone; exec busybox sleep 1000"`,
			root, data, side))
	}
	n := s.start(t)
	n.out(t, "job", "run", "-detach", job("denied"))
	denied := n.await(t, "denied", "failed")
	require.Contains(t, n.out(t, "alloc", "status", denied.ID), fmt.Sprintf(`mount %s is not granted: add plugin "image" { grant { process { mounts = ["r:%s"] } } }`, data, data))

	write(t, s.config, strings.ReplaceAll(read(t, s.config), images, images+`", "r:`+data))
	n.reload(t)
	n.out(t, "job", "run", "-detach", job("stay"))
	stay := n.await(t, "stay", "running")
	has := func(name string) func() bool {
		return func() bool {
			_, err := os.Stat(filepath.Join(s.data, "alloc", stay.ID, "task", "local", name))
			return err == nil
		}
	}
	require.Eventually(t, has("held"), testTimeout, tick)
	n.signal(t, syscall.SIGKILL)
	s.newProgram(t, 0)
	n = s.start(t)
	require.Contains(t, n.log.String(), "the supervisor was replaced by this program, with its tasks")
	require.Equal(t, taskEvents(stay), taskEvents(n.await(t, "stay", "running")), "nothing happened to it")
	require.Equal(t, "65534\nhello\nbin\ndata\n", n.out(t, "alloc", "exec", stay.ID, "/bin/sh", "-c", "busybox id -u; busybox cat /data/greeting; busybox ls -d bin data usr 2>/dev/null || true"))
	n.out(t, "alloc", "exec", stay.ID, "/bin/sh", "-c", ": >/local/go")
	require.Eventually(t, has("gone"), testTimeout, tick)
	require.Equal(t, "bin\nmine\n1\ntoo little\n", n.out(t, "alloc", "fs", stay.ID, "alloc/logs/task.stdout.side.0"))
	require.Regexp(t, `[1-9]\d* [KM]iB`, n.out(t, "alloc", "status", "-stats", stay.ID))
	n.out(t, "job", "stop", "stay")
	n.await(t, "stay", "complete")
	require.Eventually(t, func() bool { return len(s.cgroups(t)) == 0 }, testTimeout, tick, "nothing is left of them")
}
