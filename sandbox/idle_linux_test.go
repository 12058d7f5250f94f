package sandbox_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sandbox/descriptor"
)

// A guest writes to much memory, clears it, and waits.
func TestAGuestThatWaitsGivesBackWhatItHasCleared(t *testing.T) {
	const wait = 300 * time.Millisecond
	for name, c := range map[string]struct {
		opts          sandbox.Options
		subscriptions int32
	}{
		"asleep":                   {sandbox.Options{Template: true}, 1},
		"without a template":       {sandbox.Options{}, 1},
		"waiting for a descriptor": {sandbox.Options{Template: true}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.MemoryMaxBytes = 16 * megabyte
			m, err := compileIn(t.Context(), open(t, ""), clearing(wait, c.subscriptions), c.opts)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close(t.Context())) }()
			var table descriptor.Table
			defer table.Close()
			_, err = table.TakeSignals() // none comes
			require.NoError(t, err)
			i, err := m.Instantiate(sandbox.WithGuest(t.Context(), &sandbox.Guest{Descriptors: &table}),
				wazero.NewModuleConfig().WithName("").WithSysNanotime().WithSysWalltime())
			require.NoError(t, err)
			defer func() { require.NoError(t, i.Close(t.Context())) }()

			before, began := privateMemory(t), time.Now()
			require.EqualValues(t, 7, ask(t, i, "run", 0), "what is in the memory is as the guest left it")
			require.GreaterOrEqual(t, time.Since(began), wait)
			require.Less(t, privateMemory(t)-before, 4*megabyte, "of 8")
		})
	}
}

// clearing is a guest that writes ones to 8 MiB and then zeros, also to where it has data, waits
// for the first so many of a time and a descriptor, and returns the sum of what it left in three places: 7.
func clearing(wait time.Duration, subscriptions int32) []byte {
	const (
		events = 1 << 10
		result = 2 << 10
		data   = 4 << 10
		left   = 8 << 10
		large  = 1 << 20
	)
	clock, read := make([]byte, 48), make([]byte, 48)
	binary.LittleEndian.PutUint32(clock[16:], 1) // the clock that never goes back
	binary.LittleEndian.PutUint64(clock[24:], uint64(wait))
	read[8], read[16] = 1, descriptor.First
	fill := func(at, value, n int32) []byte {
		return modtest.Code(modtest.I32Const(at), modtest.I32Const(value), modtest.I32Const(n), modtest.Fill)
	}
	load := func(at int32) []byte { return modtest.Code(modtest.I32Const(at), modtest.Load()) }
	module := run(0,
		fill(large, 1, 8*megabyte), fill(large, 0, 8*megabyte), fill(data, 0, 4<<10),
		modtest.I32Const(left), modtest.I32Const(7), modtest.Store(),
		modtest.I32Const(0), modtest.I32Const(events), modtest.I32Const(subscriptions), modtest.I32Const(result), modtest.Call(0), modtest.Drop,
		load(data), load(left), modtest.Add, load(large), modtest.Add)
	module.Imports = []modtest.Import{{Module: "wasi_snapshot_preview1", Name: "poll_oneoff",
		Type: modtest.Type{Params: []byte{modtest.I32, modtest.I32, modtest.I32, modtest.I32}, Results: []byte{modtest.I32}}}}
	module.Pages = 10 * megabyte / sandbox.PageSize
	module.Data = []modtest.Data{{Bytes: append(clock, read...)}, {Offset: data, Bytes: bytes.Repeat([]byte{0xff}, 4<<10)}}
	return module.Bytes()
}

// privateMemory is how many bytes this process has for itself and has written to.
func privateMemory(t *testing.T) (sum int) {
	t.Helper()
	rollup, err := os.ReadFile("/proc/self/smaps_rollup")
	require.NoError(t, err)
	const field = "Private_Dirty:"
	_, after, ok := bytes.Cut(rollup, []byte(field))
	require.True(t, ok)
	_, err = fmt.Sscan(string(after), &sum)
	require.NoError(t, err)
	return sum << 10
}
