package meter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sandbox/meter"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// What the meter added belongs to what it was added to, and all else is where it was.
func TestEveryInstructionHasItsOrigin(t *testing.T) {
	m, err := wasmbin.Decode(guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal"), wasmbin.DefaultLimits())
	require.NoError(t, err)
	rewritten, info, err := meter.Rewrite(m, meter.Options{Template: true, Origins: true})
	require.NoError(t, err)
	after, err := wasmbin.Decode(rewritten, wasmbin.DefaultLimits())
	require.NoError(t, err)
	var yield uint32 // the import's index: it comes behind the others
	for _, p := range m.Imports {
		if p.Kind == wasmbin.KindFunc {
			yield++
		}
	}
	added, last := 0, uint32(0)
	for i := range m.Funcs {
		ops := map[uint32]wasmbin.Op{}
		w := m.Walk(i)
		for w.Next() {
			ops[w.CodeOffset()] = w.Op
		}
		require.NoError(t, w.Err())
		seen := map[uint32]bool{}
		w = after.Walk(i)
		for w.Next() {
			was, ok := info.Origins.Of(w.CodeOffset())
			if !ok {
				require.Empty(t, seen, "only what the meter puts before the first instruction has none")
				continue
			}
			require.Contains(t, ops, was)
			require.GreaterOrEqual(t, was, last)
			last, seen[was] = was, true
			if w.Op == wasmbin.OpCall && w.Index == yield {
				added++
			} else if w.Op == wasmbin.OpCall {
				require.True(t, ops[was] == wasmbin.OpCall || ops[was].Bulk(), "%#x, or one that is done in pieces", ops[was])
			}
		}
		require.NoError(t, w.Err())
		require.Len(t, seen, len(ops), "function %d", i)
	}
	require.Greater(t, added, 10, "calls of the meter")

	for _, nowhere := range []uint32{0, uint32(len(rewritten)), 1<<32 - 1} {
		_, ok := info.Origins.Of(nowhere)
		require.False(t, ok, nowhere)
	}
}

func TestWithoutOriginsNothingIsAdded(t *testing.T) {
	m, err := wasmbin.Decode(guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal"), wasmbin.DefaultLimits())
	require.NoError(t, err)
	rewritten, info, err := meter.Rewrite(m, meter.Options{})
	require.NoError(t, err)
	require.Nil(t, info.Origins)
	after, err := wasmbin.Decode(rewritten, wasmbin.DefaultLimits())
	require.NoError(t, err)
	require.Len(t, after.Customs, 1, "the names")
}
