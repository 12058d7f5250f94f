package supervisor_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/supervisor"
)

// Whatever becomes of its files, an agent that starts finds the supervisor that has its tasks.
func TestASupervisorWhoseFilesAreGoneIsFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "supervisor")
	lock, err := supervisor.Lock(dir)
	require.NoError(t, err)
	home := supervisor.NewHome(dir, lock)
	defer func() { require.NoError(t, home.Close()) }()
	p := beginAs(t, dir, time.Hour, home.Return)
	require.NoError(t, connect(t, dir, nil).Start(t.Context(), spec(t, "runs", "spin")))
	for name, remove := range map[string]func() error{
		"the socket":    func() error { return os.Remove(supervisor.Socket(dir)) },
		"the directory": func() error { return os.RemoveAll(dir) },
		"its name":      func() error { return os.Rename(dir, dir+".old") },
	} {
		require.NoError(t, remove(), name)
		c := connect(t, dir, nil)
		require.Eventually(t, func() bool { return c.Answers(t.Context()) }, 30*time.Second, 10*time.Millisecond, name)
		status, err := c.Inspect(t.Context(), "runs")
		require.NoError(t, err, name)
		require.Equal(t, workload.Running, status.State)
		_, err = supervisor.Lock(dir)
		require.ErrorContains(t, err, "has a supervisor already", name)
		require.DirExists(t, supervisor.Results(dir))
	}
	require.NoError(t, connect(t, dir, nil).Destroy(t.Context(), "runs"))
	p.end(t)
	require.NoFileExists(t, supervisor.Socket(dir), "who serves next makes it anew")
}

// While one is there without a socket, it is not taken for gone: nothing is started beside it.
func TestASupervisorThatIsToReturnIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	c := connect(t, dir, nil)
	require.False(t, c.Answers(t.Context()), "nobody is there")
	lock, err := supervisor.Lock(dir)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.True(t, c.Answers(ctx), "somebody is, and has the lock")
	require.NoError(t, lock.Close())
	require.False(t, c.Answers(t.Context()), "it has ended")
}

// A supervisor does not return to where another one is, nor to where its agent's data is gone.
func TestASupervisorReturnsToItsOwnPlaceOnly(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	dir := filepath.Join(data, "supervisor")
	lock, err := supervisor.Lock(dir)
	require.NoError(t, err)
	home := supervisor.NewHome(dir, lock)
	defer func() { require.NoError(t, home.Close()) }()
	require.NoError(t, os.RemoveAll(dir))
	other, err := supervisor.Lock(dir)
	require.NoError(t, err)
	_, err = home.Return()
	require.ErrorContains(t, err, "has a supervisor already")
	require.NoError(t, other.Close())
	l, err := home.Return()
	require.NoError(t, err)
	again, err := home.Return()
	require.NoError(t, err)
	require.Nil(t, again, "it is there")
	require.NoError(t, l.Close())
	require.NoError(t, os.RemoveAll(data))
	gone, err := home.Return()
	require.NoError(t, err)
	require.Nil(t, gone)
	require.NoDirExists(t, data)
}
