package template_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/template"
)

const smallDiskEnv = "TEMPLATE_TEST_ON_A_SMALL_DISK"

// TestAFullDiskLeavesTheFileAsItWas runs itself again where it may mount a small disk.
func TestAFullDiskLeavesTheFileAsItWas(t *testing.T) {
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
	in := input(t, nil)
	require.NoError(t, syscall.Mount("none", in.Dir.Local, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(in.Dir.Local, 0)) })
	tmpl, err := template.New(inline("x"))
	require.NoError(t, err)
	require.NoError(t, tmpl.Write(in, []byte("before")))
	err = tmpl.Write(in, make([]byte, 1<<20))
	require.EqualError(t, err, `file "local/out": the node's disk is full`)
	require.ErrorIs(t, err, template.ErrFile, "there may be room later")
	require.Equal(t, "before", string(tmpl.Current(in)))
	entries, err := os.ReadDir(in.Dir.Local)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
