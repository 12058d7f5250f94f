package sandbox

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
)

// branches is a module that takes the engine time, and little memory.
func branches(n int) []byte {
	reads := ""
	for i := range n {
		reads += "\x20" + wasmtest.U32(i) + "\x1a"
	}
	return wasmtest.Build(wasmtest.Program{Funcs: []wasmtest.Func{{
		Params: "\x7f", Locals: []string{wasmtest.U32(4999) + "\x7f"},
		Code: "\x02\x40" + wasmtest.Repeat("\x20\x00\x0d\x00", n) + "\x0b" + reads,
	}}})
}

func TestCompilingIsBoundedInTime(t *testing.T) {
	began := time.Now()
	_, err := compileApart(t.Context(), branches(3000), t.TempDir(), bounds{256 << 20, time.Second})
	require.ErrorIs(t, err, ErrCompileLimit)
	require.ErrorContains(t, err, "it takes more than 1 s of a processor")
	t.Logf("after %v", time.Since(began))
}

func TestWhatTheCompilerSaysIsToldApart(t *testing.T) {
	_, err := compileApart(t.Context(), []byte("no module"), t.TempDir(), boundsFor(nil))
	require.ErrorContains(t, err, "invalid magic number")
	_, err = compileApart(t.Context(), nil, t.TempDir(), bounds{0, time.Second})
	require.ErrorIs(t, err, ErrCompileLimit)
	report, err := compileApart(t.Context(), branches(1), "/proc/no-such-directory", boundsFor(nil))
	require.NoError(t, err)
	require.NotEmpty(t, report.Unkept)
	alone := compileAlone(nil)
	require.Error(t, alone.err())
	var p *PanicError
	require.ErrorAs(t, (&compileReport{Panic: "p", Stack: "s"}).err(), &p)
	require.Equal(t, &PanicError{Value: "p", Stack: "s"}, p)
}

func TestALargeModuleMayTakeMore(t *testing.T) {
	require.EqualValues(t, 256<<20, boundsFor(make([]byte, 117<<10)).bytes)
	require.EqualValues(t, 24*(20<<20), boundsFor(make([]byte, 20<<20)).bytes)
}

func TestARefusalIsRememberedForAWhile(t *testing.T) {
	var r refusals
	now := time.Unix(1_000_000, 0)
	require.NoError(t, r.of("a", now))
	r.add("a", ErrCompileLimit, now)
	require.NoError(t, r.of("b", now))
	require.ErrorIs(t, r.of("a", now.Add(refusedFor-time.Second)), ErrCompileLimit)
	require.EqualError(t, r.of("a", now.Add(refusedFor-time.Second)), "the module is too costly to compile; it is tried again in 1s")
	require.NoError(t, r.of("a", now.Add(refusedFor)))
	for i := range 3 * maxRefused {
		r.add(strconv.Itoa(i), errors.New("no"), now)
		require.LessOrEqual(t, len(r.by), maxRefused)
		require.Error(t, r.of(strconv.Itoa(i), now))
	}
	r.add("z", ErrCompileLimit, now.Add(refusedFor))
	require.Len(t, r.by, 1)
}
