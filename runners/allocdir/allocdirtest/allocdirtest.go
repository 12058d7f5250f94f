// Package allocdirtest has what agents mount in a test's directories end with the test. It is for
// tests only. Start reading at [Unmount].
package allocdirtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/allocdir"
)

// Unmount has nothing be mounted below a directory when a test ends and what it asks to be done
// afterwards is done: secrets of tasks are, as long as their allocations are kept.
func Unmount(t testing.TB, dir string) {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, allocdir.UnmountBelow(dir)) })
}
