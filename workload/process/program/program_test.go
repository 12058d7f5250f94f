package program_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload/process/program"
)

func TestAProgramIsFoundInTheFirstDirectoryThatHasIt(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(first, "tool"), nil, 0o600), "not executable")
	require.NoError(t, os.WriteFile(filepath.Join(second, "tool"), nil, 0o700))
	file, ok := program.Find("tool", []string{"", "bin", first, second})
	require.True(t, ok)
	require.Equal(t, filepath.Join(second, "tool"), file)
	_, ok = program.Find("tool", []string{first})
	require.False(t, ok)
	t.Chdir(second)
	_, ok = program.Find("tool", []string{"", "."})
	require.False(t, ok, "relative to where this process is")
}

func TestWithoutAPathTheUsualDirectoriesAreSearched(t *testing.T) {
	for _, env := range [][]string{nil, {"HOME=/root"}, {"PATH="}} {
		require.Contains(t, program.SearchPath(env), "/usr/bin", "%q", env)
	}
	require.Equal(t, []string{"/a", "/b"}, program.SearchPath([]string{"HOME=/root", "PATH=/a:/b"}))
}

func TestAFailureIsRecoverableWhenTryingAgainCanHelp(t *testing.T) {
	for _, c := range []struct {
		cause       syscall.Errno
		want        abi.Code
		recoverable bool
	}{
		{syscall.ENOENT, abi.NotFound, false},
		{syscall.EACCES, abi.PermissionDenied, false},
		{syscall.ENOMEM, abi.ResourceExhausted, true},
		{syscall.ENOSPC, abi.ResourceExhausted, true}, // also of too many namespaces
		{syscall.ENOEXEC, abi.InvalidArgument, false},
	} {
		err := program.Failure("command /x", fmt.Errorf("exec: %w", c.cause), abi.InvalidArgument)
		require.Equal(t, c.want, err.Code, "%v", c.cause)
		require.Equal(t, c.recoverable, err.Recoverable, "%v", c.cause)
		require.Equal(t, "command /x: exec: "+c.cause.Error(), err.Message)
	}
}
