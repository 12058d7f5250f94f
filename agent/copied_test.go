package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACopiedDataDirectoryDoesNotJoin(t *testing.T) {
	a := stored(t)
	file := filepath.Join(a.cfg.DataDir, machineFile)
	require.NoError(t, a.ofMachine("", true), "a machine without an ID")
	require.NoFileExists(t, file)
	require.NoError(t, a.ofMachine("one", false))
	require.NoError(t, a.ofMachine("one", true))
	require.NoError(t, a.ofMachine("two", false), "alone, moved or copied, it goes on")
	err := a.ofMachine("two", true)
	require.EqualError(t, err, "data_dir: "+a.cfg.DataDir+" is of another machine, and servers would take the two for one node: "+
		"if it was copied, start with an empty one (-data-dir); if it was moved, and no agent runs with it elsewhere, remove "+file+" and start again")
	require.NoError(t, a.ofMachine("one", true), "the machine that it is of goes on")
	require.NoError(t, os.Remove(file))
	require.NoError(t, a.ofMachine("two", true))
	require.Error(t, a.ofMachine("one", true))

	// The agent asks before it talks to any server.
	if machineID(machineIDFiles) != "" {
		a.cfg.Client.Servers = nowhere
		require.ErrorContains(t, a.join(), "is of another machine")
		require.Nil(t, a.cluster)
	}
}

func TestTheIDOfAMachineIsNotToldAsItIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machine-id")
	const id = "0123456789abcdef0123456789abcdef"
	require.Empty(t, machineID([]string{file}))
	for _, none := range []string{"", "uninitialized\n", id[2:], strings.Repeat("z", 32)} {
		require.NoError(t, os.WriteFile(file, []byte(none), 0o600))
		require.Empty(t, machineID([]string{file}), none)
	}
	require.NoError(t, os.WriteFile(file, []byte(id+"\n"), 0o600))
	got := machineID([]string{"/nowhere", file})
	require.Len(t, got, 32)
	require.NotContains(t, got, id)
}
