package artifact_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/artifact"
)

const smallDiskEnv = "ARTIFACT_TEST_ON_A_SMALL_DISK"

// TestAFullDiskIsReportedAsOne runs itself again where it may mount a small disk.
func TestAFullDiskIsReportedAsOne(t *testing.T) {
	if os.Getenv(smallDiskEnv) != "" {
		onASmallDisk(t)
		return
	}
	if exec.Command("unshare", "-rm", "true").Run() != nil {
		t.Skip("no mounts are possible here")
	}
	cmd := exec.Command("unshare", "-rm", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), smallDiskEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS")
}

func onASmallDisk(t *testing.T) {
	w := newWeb(t, map[string][]byte{"/large": make([]byte, 1<<20), "/large.gz": gzipped(t, make([]byte, 1<<20))})
	for path := range w.files {
		disk := t.TempDir()
		require.NoError(t, syscall.Mount("none", disk, "tmpfs", 0, "size=256k"))
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, 0)) })
		d := allocdir.New(disk, "a1")
		require.NoError(t, d.Build())
		dir, err := d.Task("web")
		require.NoError(t, err)
		require.NoError(t, dir.Build())
		err = artifact.Fetch(t.Context(), artifact.Request{Artifact: block(w.URL+path, "", ""), Dir: dir})
		require.EqualError(t, err, "the node's disk is full")
		require.NotErrorIs(t, err, artifact.ErrRefused, "there may be room later")
		require.Empty(t, tree(t, dir.Path), "nothing half-written stays")
	}
}
