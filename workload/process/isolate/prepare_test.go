package isolate

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The first goroutine stays on the first thread.
func init() { runtime.LockOSThread() }

var threadOfFirst int

func TestMain(m *testing.M) {
	onThread(func() { threadOfFirst = unix.Gettid() })
	os.Exit(m.Run())
}

// What happens to a thread that builds a root would happen to the process in the eyes of others.
func TestTheFirstThreadBuildsNoRoot(t *testing.T) {
	require.NotZero(t, threadOfFirst)
	require.NotEqual(t, unix.Getpid(), threadOfFirst)
}
