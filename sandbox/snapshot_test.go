package sandbox_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

func reactor() wazero.ModuleConfig {
	return wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithSysWalltime().WithSysNanotime()
}

// dice compiles the guest as a template.
func dice(t testing.TB) *sandbox.Module {
	t.Helper()
	m, err := compileIn(t.Context(), open(t, ""), guestbuild.Plugin(t, "sandbox/testdata/dice"), sandbox.Options{MemoryMaxBytes: 64 * megabyte, Template: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
	return m
}

// snapshot takes one, and returns the instance that it is of, too.
func snapshot(t testing.TB, m *sandbox.Module) (*sandbox.Snapshot, *sandbox.Instance) {
	t.Helper()
	i, err := m.Instantiate(t.Context(), reactor())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, i.Close(context.Background())) })
	s, err := i.Snapshot()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s, i
}

func ask(t testing.TB, i *sandbox.Instance, function string, args ...uint64) int64 {
	t.Helper()
	stack := append(args, make([]uint64, 1)...)
	require.NoError(t, i.Call(t.Context(), i.ExportedFunction(function), stack))
	return int64(stack[0])
}

func TestCopiesOfAGoGuestDoNotSeeEachOthersChanges(t *testing.T) {
	s, original := snapshot(t, dice(t))
	instances := []*sandbox.Instance{original}
	for range 3 {
		i, err := s.Instantiate(t.Context(), reactor())
		require.NoError(t, err)
		defer func() { require.NoError(t, i.Close(context.Background())) }()
		instances = append(instances, i)
	}
	rolls := map[int64]bool{}
	for n, i := range instances {
		for range n {
			ask(t, i, "count")
		}
		require.EqualValues(t, n+1, ask(t, i, "count"))
		for range 200 { // more than the generator has in stock
			rolls[ask(t, i, "roll")] = true
		}
		rolls[ask(t, i, "entropy")] = true
		require.EqualValues(t, 10+1000, ask(t, i, "work", 1000))
		require.Positive(t, ask(t, i, "age"))
	}
	require.Equal(t, len(instances)*201, len(rolls), "no random number came twice")
}

func TestConcurrentCopiesOutliveTheSnapshot(t *testing.T) {
	s, _ := snapshot(t, dice(t))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			i, err := s.Instantiate(context.Background(), reactor())
			if err != nil {
				t.Error(err)
				return
			}
			stack := []uint64{500}
			if err := i.Call(context.Background(), i.ExportedFunction("work"), stack); err != nil || stack[0] != 510 {
				t.Error(err, stack)
			}
			if err := i.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	i, err := s.Instantiate(t.Context(), reactor())
	require.NoError(t, err)
	s.Close()
	require.EqualValues(t, 510, ask(t, i, "work", 500))
	require.NoError(t, i.Close(t.Context()))
	_, err = s.Instantiate(t.Context(), reactor())
	require.ErrorIs(t, err, sandbox.ErrClosed)
}

func TestASnapshotIsOfAnInstanceThatHasJustBegun(t *testing.T) {
	m := dice(t)
	s, i := snapshot(t, m)
	ask(t, i, "count")
	_, err := i.Snapshot()
	require.ErrorIs(t, err, sandbox.ErrNoSnapshot)
	c, err := s.Instantiate(t.Context(), reactor())
	require.NoError(t, err)
	_, err = c.Snapshot()
	require.ErrorIs(t, err, sandbox.ErrNoSnapshot)
	require.NoError(t, c.Close(t.Context()))
}

func TestAGuestThatCannotBeCopiedRunsItsOwnInitialiser(t *testing.T) {
	start := run(0, modtest.Get(0))
	start.Pages = 2000
	m, err := compileIn(t.Context(), open(t, ""), start.Bytes(), sandbox.Options{MemoryMaxBytes: 200 * megabyte, Template: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(context.Background())) }()
	i := instantiate(t, m)
	_, err = i.Snapshot()
	require.ErrorIs(t, err, sandbox.ErrNoSnapshot)
	require.ErrorContains(t, err, "its memory begins with more than 67108864 bytes")
	require.EqualValues(t, 7, ask(t, i, "run", 7))
}

// BenchmarkCopies makes copies of a Go guest and keeps them.
func BenchmarkCopies(b *testing.B) {
	s, _ := snapshot(b, dice(b))
	keepInstances(b, func() (*sandbox.Instance, error) { return s.Instantiate(b.Context(), reactor()) })
}
