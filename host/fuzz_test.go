package host_test

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sandbox"
)

// Whatever lies in the plugin directory is a plugin or is refused at a stage, in one
// line and in bounded time.
func FuzzLoad(f *testing.F) {
	for _, b := range badFiles() {
		f.Add(b.wasm)
	}
	for _, b := range faults {
		f.Add(faulty(b.body).Bytes())
	}
	w := newWorldOn(f, "", host.Limits{FileBytes: 1 << 20, MemoryBytes: 4 << 20, DescribeTime: 50 * time.Millisecond, CallTimeout: 50 * time.Millisecond})
	f.Fuzz(func(t *testing.T, wasm []byte) {
		began := time.Now()
		p, err := w.Load(t.Context(), host.NewSource(wasm))
		if took := time.Since(began); took > testTimeout {
			t.Fatalf("took %v", took)
		}
		if err == nil {
			defer p.Close()
			err = p.Configure(t.Context(), host.Grants{}, nil)
			for _, op := range p.Spec().Operations {
				_, err := p.Call(t.Context(), op, []byte("input"), nil)
				checkFault(t, err)
			}
			checkFault(t, err)
			return
		}
		var refused *sandbox.StageError
		require.ErrorAs(t, err, &refused)
		require.False(t, strings.ContainsAny(err.Error(), "\n\r\x1b"), "%q", err.Error())
		checkFault(t, err)
	})
}

// checkFault fails when an error says that the node is at fault.
func checkFault(t *testing.T, err error) {
	t.Helper()
	var fault *host.FaultError
	if errors.As(err, &fault) && fault.Kind == host.FaultHost {
		t.Fatalf("%+v", err)
	}
	var bug *sandbox.PanicError
	if errors.As(err, &bug) {
		t.Fatalf("%v\n%s", bug, bug.Stack)
	}
}

// FuzzHostFunctions calls what guests may import with whatever arguments and memory.
func FuzzHostFunctions(f *testing.F) {
	m := guest(nil, nil)
	// The input is the number of the function to call, its arguments, and what lies
	// behind them; the guest leaves it at inputAt.
	body := modtest.Code(modtest.I32Const(inputAt), modtest.Call(fnInput))
	argument := func(i int, typ byte) []byte {
		load := modtest.Code(modtest.I32Const(inputAt+4+8*int32(i)), []byte{0x29, 3, 0})
		if typ == modtest.I32 {
			return append(load, modtest.Wrap...)
		}
		return load
	}
	for n, i := range m.Imports {
		if uint32(n) == fnSleep || uint32(n) == fnExit {
			continue // these end the call, as they should
		}
		body = append(body, modtest.Code(modtest.I32Const(inputAt), modtest.Load(), modtest.I32Const(int32(n)), []byte{0x46, 0x04, 0x40})...)
		for a, typ := range i.Type.Params {
			body = append(body, argument(a, typ)...)
		}
		body = append(body, modtest.Call(uint32(n))...)
		if len(i.Type.Results) > 0 {
			body = append(body, modtest.Drop...)
		}
		body = append(body, modtest.I32Const(inputAt+512)...)
		body = append(body, modtest.Call(fnResult)...)
		body = append(body, 0x0b)
	}
	body = append(body, answer(0, 8)...)
	for i, fn := range m.Funcs {
		if fn.Export == abi.OpDriverFingerprint || fn.Export == abi.OpDriverStartTask {
			m.Funcs[i].Body = body
		}
	}
	for n := range m.Imports {
		for _, a := range []uint64{0, inputAt + 44, 1<<16 - 1, 1 << 16, 1 << 31, 1<<32 - 1} {
			in := binary.LittleEndian.AppendUint32(nil, uint32(n))
			for _, v := range []uint64{a, 8, a, 8, 1} {
				in = binary.LittleEndian.AppendUint64(in, v)
			}
			f.Add(append(in, mustMarshal(&wasmnodev1.WasmStartRequest{Module: "app.wasm"})...))
		}
	}
	w := newWorld(f, host.Limits{CallTimeout: time.Second})
	p, err := w.Load(context.Background(), host.NewSource(m.Bytes()))
	require.NoError(f, err)
	f.Cleanup(p.Close)
	require.NoError(f, p.Configure(context.Background(), host.Grants{}, nil))
	scope := taskScope(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 16<<10 {
			return
		}
		for _, op := range []string{abi.OpDriverFingerprint, abi.OpDriverStartTask} {
			_, err := p.Call(t.Context(), op, in, scope)
			checkFault(t, err)
			var fault *host.FaultError
			if err != nil && !errors.As(err, &fault) {
				t.Fatalf("got %T: %v", err, err)
			}
		}
	})
}
