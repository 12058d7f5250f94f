package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// faultOf is the fault of a call.
func faultOf(t *testing.T, err error) *host.FaultError {
	t.Helper()
	var f *host.FaultError
	require.True(t, errors.As(err, &f), "%v", err)
	t.Logf("%+v", f)
	return f
}

// inStack reports whether a function is among a fault's frames, by the end of its name.
func inStack(f *host.FaultError, name string) bool {
	for _, frame := range f.Stack {
		function, _, _ := strings.Cut(frame, " at ")
		if strings.HasSuffix(function, name) {
			return true
		}
	}
	return false
}

func TestAFaultOfAGuestInGoSaysWhy(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := w.ready(t, guestbuild.Plugin(t, "host/testdata/faults/go"), host.Grants{})
	fail := func(how string) *host.FaultError {
		limit := testTimeout
		if how == "loop" {
			limit = 300 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		scope := taskScope(t)
		scope.Config.AllocId = "the-allocation"
		_, err := start(ctx, p, scope, map[string]any{"how": how})
		return faultOf(t, err)
	}

	f := fail("panic")
	require.Equal(t, host.FaultTrap, f.Kind)
	require.Equal(t, "panic: assignment to entry in nil map", f.Panic)
	require.Equal(t, "plugin faults_go trapped in driver_start_task: wasm error: unreachable: panic: assignment to entry in nil map", f.Error())
	require.Equal(t, "starting a task", f.Logs[0])
	require.Len(t, f.Logs, 1+24, "of the panic, no more than is read")
	require.True(t, strings.HasPrefix(f.Logs[4], "main.deep("), "the innermost function of 200: %s", f.Logs)

	f = fail("nil")
	require.Contains(t, f.Panic, "panic: runtime error: invalid memory address or nil pointer dereference")

	f = fail("loop")
	require.Equal(t, host.FaultTimeout, f.Kind)
	require.InDelta(t, 300*time.Millisecond, f.Deadline, float64(100*time.Millisecond))
	require.Contains(t, f.Error(), "; it had "+f.Deadline.String())
	require.Equal(t, []string{"starting a task"}, f.Logs, "not those of the calls before")

	f = fail("leak")
	require.Equal(t, "fatal error: out of memory", f.Panic)

	f = fail("noise")
	require.Equal(t, `panic: \u001b[31mred`, f.Panic)
	require.Equal(t, "noise 999", f.Logs[11], "also lines that are too many to be logged")

	var told []line
	for _, l := range w.logs.lines(t) {
		if l["@message"] == "the plugin failed in a call" {
			told = append(told, l)
		}
	}
	require.Len(t, told, 5, "one record a fault")
	require.Equal(t, "the-allocation", told[0]["alloc_id"])
	require.Equal(t, "driver_start_task", told[0]["op"])
	require.Contains(t, told[0]["error"], "assignment to entry in nil map")
}

func TestATrapOfAGuestInCTellsWhereItWas(t *testing.T) {
	p := newWorld(t, host.Limits{}).ready(t, guestbuild.CPlugin(t, "host/testdata/faults/c"), host.Grants{})
	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	f := faultOf(t, err)
	require.Equal(t, host.FaultTrap, f.Kind)
	require.Equal(t, []string{"opening the door"}, f.Logs)
	require.Equal(t, "open_the_door", f.Stack[0])
	require.True(t, inStack(f, "driver_fingerprint"))
}

func TestAnAbortOfAGuestInAssemblyScriptSaysWhy(t *testing.T) {
	p := newWorld(t, host.Limits{}).ready(t, guestbuild.AssemblyScriptPlugin(t, "host/testdata/faults/assemblyscript", "sdk/assemblyscript"), host.Grants{})
	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	f := faultOf(t, err)
	require.Equal(t, host.FaultTrap, f.Kind)
	require.Regexp(t, `^abort: there are no values in main\.ts\(\d+:\d+\)$`, f.Panic)
	require.Equal(t, "reading the meter", f.Logs[0])
	require.True(t, inStack(f, "main/readTheMeter"), "%s", f.Stack)
}

func TestAnAssertionOfAGuestInCSaysWhy(t *testing.T) {
	p := newWorld(t, host.Limits{}).ready(t, guestbuild.CReactor(t, "host/testdata/faults/c-reactor"), host.Grants{})
	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	f := faultOf(t, err)
	require.Equal(t, host.FaultTrap, f.Kind)
	require.Regexp(t, `^Assertion failed: values > 0 \(.*main\.c: read_the_meter: \d+\)$`, f.Panic)
	require.Equal(t, []string{"reading 0 values", f.Panic}, f.Logs)
	require.True(t, inStack(f, "read_the_meter"), "%s", f.Stack)
	require.True(t, inStack(f, "driver_fingerprint"), "%s", f.Stack)
}

func TestAPanicOfAGuestInRustSaysWhy(t *testing.T) {
	for target, build := range map[string]func(t testing.TB, dir, sdk string) []byte{"plugin": guestbuild.RustPlugin, "reactor": guestbuild.RustReactor} {
		t.Run(target, func(t *testing.T) {
			p := newWorld(t, host.Limits{}).ready(t, build(t, "host/testdata/faults/rust", "sdk/rust"), host.Grants{})
			_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
			f := faultOf(t, err)
			require.Equal(t, host.FaultTrap, f.Kind)
			require.Contains(t, f.Panic, "panicked at ")
			require.Contains(t, f.Panic, "there are no values")
			require.Contains(t, f.Panic, "./main.rs:", "and nothing of the machine that compiled it")
			require.Equal(t, "reading the meter", f.Logs[0])
			require.True(t, inStack(f, "plugin::read_the_meter"), "%s", f.Stack)
		})
	}
}

func TestAPanicOfAGuestInZigSaysWhy(t *testing.T) {
	for target, build := range map[string]func(t testing.TB, dir, sdk string) []byte{"plugin": guestbuild.ZigPlugin, "reactor": guestbuild.ZigReactor} {
		t.Run(target, func(t *testing.T) {
			p := newWorld(t, host.Limits{}).ready(t, build(t, "host/testdata/faults/zig", "sdk/zig"), host.Grants{})
			_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
			f := faultOf(t, err)
			require.Equal(t, host.FaultTrap, f.Kind)
			require.Equal(t, "panic: index out of bounds: index 2, len 2", f.Panic)
			require.Equal(t, []string{"reading value 2", f.Panic}, f.Logs)
			require.True(t, inStack(f, "main.readTheMeter"), "%s", f.Stack)
			require.Contains(t, f.Stack, "main.readTheMeter at "+lineOf(t, "main.zig", "testdata/faults/zig", "return values[at];"))
			require.Contains(t, f.Stack, "driver_fingerprint at "+lineOf(t, "main.zig", "testdata/faults/zig", "readTheMeter(values, 2)"))
		})
	}
}

// lineOf is where in a file of a folder the text is that it has once, as "file:line".
func lineOf(t *testing.T, file, folder, text string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(folder, file))
	require.NoError(t, err)
	before, _, found := strings.Cut(string(source), text)
	require.True(t, found, text)
	return fmt.Sprintf("%s:%d", file, strings.Count(before, "\n")+1)
}

func TestAGuestThatLoopsTellsWhereItWas(t *testing.T) {
	g := guest(nil, map[string][]byte{abi.OpDriverFingerprint: modtest.Code(modtest.Loop(), modtest.I32Const(0))})
	p := newWorld(t, host.Limits{CallTimeout: 100 * time.Millisecond}).ready(t, g.Bytes(), host.Grants{})
	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	f := faultOf(t, err)
	require.Len(t, f.Stack, 1)
	require.True(t, strings.HasPrefix(f.Stack[0], "$"), "a module without names: %s", f.Stack)
}

func TestAStackIsBoundedAtItsEdge(t *testing.T) {
	frames := func(n int) error {
		return errors.New("wasm error: unreachable\nwasm stack trace:" + strings.Repeat("\n\t.f(i32,i32) i32", n))
	}
	require.Len(t, host.StackOf(frames(16)), 16)
	require.Equal(t, "…", host.StackOf(frames(17))[16])
	require.Len(t, host.StackOf(frames(17)), 17)
	require.Empty(t, host.StackOf(errors.New("no stack")))
	for in, want := range map[string]string{
		".main.deep(i32,i32) i32":             "main.deep",
		".main.(*T).Do(i64)":                  "main.(*T).Do",
		".pair() (i32,i64)":                   "pair",
		"env.host(i32)":                       "env.host",
		".$17() i32":                          "$17",
		".red\x1b[2J()":                       `red\u001b[2J`,
		"." + strings.Repeat("a", 128) + "()": strings.Repeat("a", 128),
		"." + strings.Repeat("a", 129) + "()": strings.Repeat("a", 128) + "…",
		"._ZN4core9panicking9panic_fmt17h0123456789abcdefE(i32)":                      "core::panicking::panic_fmt",
		"._ZN36_$LT$T$u20$as$u20$core..any..Any$GT$7type_id17h0123456789abcdefE(i32)": "_<T as core::any::Any>::type_id",
		"._ZN9nothingE()":              "_ZN9nothingE",
		"._ZN99999999999999999999xE()": "_ZN99999999999999999999xE",
		"._ZN()":                       "_ZN",
	} {
		require.Equal(t, []string{want}, host.StackOf(fmt.Errorf("x\nwasm stack trace:\n\t%s", in)))
	}
}

func TestTheDetailsOfAFaultAreBoundedAtTheirEdge(t *testing.T) {
	for bytes, cut := range map[int]bool{10 << 10: false, 10<<10 + 1: true} {
		f := &host.FaultError{Plugin: "x", Logs: []string{"first", strings.Repeat("x", bytes-len("first\n"))}}
		text := f.FaultDetails()["plugin_log"]
		require.Equal(t, cut, text == "first\n…", "%d bytes", len(text))
	}
	for bytes, cut := range map[int]bool{4 << 10: false, 4<<10 + 1: true} {
		f := &host.FaultError{Plugin: "x", Stack: []string{"f", strings.Repeat("x", bytes-len("f\n"))}}
		require.Equal(t, cut, f.FaultDetails()["plugin_stack"] == "f\n…")
	}
}
