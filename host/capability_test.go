package host_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// logLine logs what is at messageAt: text, then fields.
func logLine(level int32, text, fields int) []byte {
	return modtest.Code(modtest.I32Const(level), modtest.I32Const(messageAt), modtest.I32Const(int32(text)),
		modtest.I32Const(messageAt+int32(text)), modtest.I32Const(int32(fields)), modtest.Call(fnLog))
}

func TestALogLineNamesItsPluginAndCannotForgeAnother(t *testing.T) {
	text := "started\x1b[31m\n{\"@level\":\"error\"}"
	fields := mustMarshal(&wasmnodev1.LogFields{Fields: []*wasmnodev1.LogField{
		{Key: "task", Value: "web\r1"}, {Key: "@module", Value: "node"}, {Key: "", Value: "\xff"},
	}})
	body := modtest.Code(logLine(int32(wasmnodev1.LogLevel_LOG_LEVEL_WARN), len(text), len(fields)), answer(0, 0))
	w := newWorld(t, host.Limits{})
	p := w.ready(t, guest(append([]byte(text), fields...), map[string][]byte{abi.OpDriverFingerprint: body}).Bytes(), host.Grants{})
	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	lines := w.logs.lines(t)
	require.Len(t, lines, 1)
	delete(lines[0], "@timestamp")
	require.Equal(t, line{
		"@level": "warn", "@module": "test", "@message": `started\u001b[31m\u000a{"@level":"error"}`,
		"task": `web\u000d1`, "_module": "node", "_": "\ufffd",
	}, lines[0])
}

func TestTheFieldsOfALogLineAreBoundedAtTheirEdges(t *testing.T) {
	logged := func(fields *wasmnodev1.LogFields) line {
		t.Helper()
		message := mustMarshal(fields)
		m := guest(message, map[string][]byte{abi.OpDriverFingerprint: modtest.Code(logLine(3, 0, len(message)), answer(0, 0))})
		m.Pages = 4
		w := newWorld(t, host.Limits{})
		_, err := w.ready(t, m.Bytes(), host.Grants{}).Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
		require.NoError(t, err)
		return w.logs.lines(t)[0]
	}
	many := &wasmnodev1.LogFields{}
	for i := range 33 {
		many.Fields = append(many.Fields, &wasmnodev1.LogField{Key: fmt.Sprintf("f%02d", i), Value: "v"})
	}
	require.Contains(t, logged(many), "f31")
	require.NotContains(t, logged(many), "f32")

	most := strings.Repeat("x", 1<<10)
	got := logged(&wasmnodev1.LogFields{Fields: []*wasmnodev1.LogField{{Key: most, Value: most}, {Key: "longer", Value: most + "x"}}})
	require.Equal(t, most, got[most])
	require.Equal(t, most+"…", got["longer"])

	for size, whole := range map[int]bool{128 << 10: true, 128<<10 + 1: false} {
		large := &wasmnodev1.LogFields{Fields: []*wasmnodev1.LogField{{Key: "large", Value: strings.Repeat("x", 128_000)}}}
		large.Fields[0].Value += strings.Repeat("x", size-len(mustMarshal(large)))
		require.Len(t, mustMarshal(large), size)
		got := logged(large)
		require.Equal(t, whole, got["large"] != nil)
		require.Equal(t, whole, got["fields_left_out"] == nil)
	}
}

func TestALongLogLineIsCut(t *testing.T) {
	text := strings.Repeat("ä", 20)
	w := newWorld(t, host.Limits{LogLineBytes: 7})
	p := w.ready(t, guest([]byte(text), map[string][]byte{abi.OpDriverFingerprint: modtest.Code(logLine(3, len(text), 0), answer(0, 0))}).Bytes(), host.Grants{})
	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"äää…"}, w.logs.messages(t))
}

// The engine hands over a number of 32 bits with whatever is above it in its stack.
func TestALogLineOfACompiledPluginEndsWhereItsLengthSays(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := w.ready(t, guestbuild.CPlugin(t, "host/testdata/logger"), host.Grants{})
	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.ErrorContains(t, err, "unreachable")
	require.Equal(t, []string{"first", "second", "last", "the plugin failed in a call"}, w.logs.messages(t))
}

func TestAFloodOfLinesIsDroppedAndCounted(t *testing.T) {
	body := modtest.Code(modtest.Times(1000, 1, logLine(3, 4, 0)), answer(0, 0))
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, host.Limits{LogsPerSecond: 20})
		p := w.ready(t, guest([]byte("spam"), map[string][]byte{abi.OpDriverFingerprint: body}).Bytes(), host.Grants{})
		_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
		require.NoError(t, err)
		require.Len(t, w.logs.lines(t), 40, "the burst")
		time.Sleep(time.Second)
		_, err = p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
		require.NoError(t, err)
		lines := w.logs.lines(t)
		require.Len(t, lines, 61, "what a second allows, and that lines were dropped")
		require.EqualValues(t, 960, lines[40]["dropped"])
	})
}

func TestATaskEventIsAboutTheTaskOfTheCall(t *testing.T) {
	scope := taskScope(t)
	event := func(e *wasmnodev1.TaskEvent, scope *host.TaskScope) (*world, []byte) { return sendEvent(t, e, scope) }
	w, out := event(&wasmnodev1.TaskEvent{TaskId: scope.Config.Id, Message: "pulling\n" + strings.Repeat("x", 2000), Annotations: map[string]string{"image\x00": "a"}}, scope)
	code, _ := decodeAnswer(t, out)
	require.Zero(t, code)
	require.Len(t, w.events, 1)
	require.Equal(t, scope.Config.Id, w.events[0].TaskId)
	require.True(t, strings.HasPrefix(w.events[0].Message, `pulling\u000axxx`))
	require.Less(t, len(w.events[0].Message), 1100)
	require.Equal(t, map[string]string{`image\u0000`: "a"}, w.events[0].Annotations)

	w, out = event(&wasmnodev1.TaskEvent{TaskId: "another"}, scope) // counted, see Stats
	require.Equal(t, abi.PermissionDenied, answeredError(t, out).Code)
	require.Empty(t, w.events)

	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprint(i)] = ""
	}
	w, out = event(&wasmnodev1.TaskEvent{TaskId: scope.Config.Id, Annotations: many}, scope)
	require.Equal(t, abi.InvalidArgument, answeredError(t, out).Code)
	require.Empty(t, w.events)
}

// sendEvent has a guest send an event in a call about a task, and returns its answer.
func sendEvent(t *testing.T, e *wasmnodev1.TaskEvent, scope *host.TaskScope) (*world, []byte) {
	t.Helper()
	w, message := newWorld(t, host.Limits{}), mustMarshal(e)
	m := guest(message, map[string][]byte{abi.OpDriverFingerprint: ask(fnEvent, len(message))})
	m.Pages = 4
	out, err := w.ready(t, m.Bytes(), host.Grants{}).Call(w.recordingEvents(t.Context()), abi.OpDriverFingerprint, nil, scope)
	require.NoError(t, err)
	return w, out
}

func TestATaskEventIsBoundedAtItsEdges(t *testing.T) {
	scope, text := taskScope(t), func(n int) string { return strings.Repeat("x", n) }
	most := &wasmnodev1.TaskEvent{TaskId: scope.Config.Id, Message: text(1024), Annotations: map[string]string{}}
	for i := range 32 {
		most.Annotations[fmt.Sprintf("%02d%s", i, text(254))] = text(256)
	}
	w, out := sendEvent(t, most, scope)
	code, message := decodeAnswer(t, out)
	require.Zero(t, code, string(message))
	require.True(t, most.EqualVT(w.events[0]))
	most.Annotations["one more"] = ""
	_, out = sendEvent(t, most, scope)
	code, _ = decodeAnswer(t, out)
	require.Equal(t, abi.InvalidArgument, abi.Code(code))
	w, _ = sendEvent(t, &wasmnodev1.TaskEvent{TaskId: most.TaskId, Message: text(1025), Annotations: map[string]string{text(257): text(257)}}, scope)
	require.NotEqual(t, text(1025), w.events[0].Message)
	require.Equal(t, map[string]string{text(256) + "…": text(256) + "…"}, w.events[0].Annotations)
	for size, want := range map[int]abi.Code{64 << 10: 0, 64<<10 + 1: abi.InvalidArgument} {
		long := &wasmnodev1.TaskEvent{TaskId: most.TaskId, Message: text(65_000)}
		long.Message += text(size - len(mustMarshal(long)))
		require.Len(t, mustMarshal(long), size)
		_, out := sendEvent(t, long, scope)
		code, _ := decodeAnswer(t, out)
		require.Equal(t, want, abi.Code(code))
	}
}

func TestAFloodOfEventsIsRefused(t *testing.T) {
	body := modtest.Code(
		modtest.Times(1000, 1, modtest.I32Const(0), modtest.I32Const(0), modtest.Call(fnEvent), modtest.Drop),
		modtest.Times(1000, 1, modtest.Call(fnRefresh)),
		ask(fnEvent, 0))
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, host.Limits{EventsPerSec: 5})
		p := w.ready(t, guest(nil, map[string][]byte{abi.OpDriverFingerprint: body}).Bytes(), host.Grants{})
		out, err := p.Call(w.recordingEvents(t.Context()), abi.OpDriverFingerprint, nil, nil)
		require.NoError(t, err)
		refused := answeredError(t, out)
		require.Equal(t, abi.ResourceExhausted, refused.Code)
		require.True(t, refused.Recoverable)
		require.Len(t, w.events, 10)
		require.Empty(t, w.refreshes)
	})
}

func TestWhatIsNoTaskEventIsRefused(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := w.ready(t, guest([]byte{0xff}, map[string][]byte{abi.OpDriverFingerprint: ask(fnEvent, 1)}).Bytes(), host.Grants{})
	out, err := p.Call(w.recordingEvents(t.Context()), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, abi.InvalidArgument, answeredError(t, out).Code)
	require.Empty(t, w.events)
}

func TestAnEventOfACallThatTakesNoneIsRefused(t *testing.T) {
	message := mustMarshal(&wasmnodev1.TaskEvent{TaskId: "a"})
	body := map[string][]byte{abi.OpDriverFingerprint: ask(fnEvent, len(message))}
	w := newWorld(t, host.Limits{})
	p := w.ready(t, guest(message, body).Bytes(), host.Grants{})
	out, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, abi.FailedPrecondition, answeredError(t, out).Code)
	refusing := host.WithEvents(t.Context(), func(*wasmnodev1.TaskEvent) error { return abi.NewError(abi.NotFound, "no such task") })
	out, err = p.Call(refusing, abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, abi.NotFound, answeredError(t, out).Code, "the sink's own error")
}

func TestARefreshIsPassedOn(t *testing.T) {
	w := newWorld(t, host.Limits{})
	p := w.ready(t, guest(nil, map[string][]byte{abi.OpDriverFingerprint: modtest.Code(modtest.Call(fnRefresh), answer(0, 0))}).Bytes(), host.Grants{})
	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"test"}, w.refreshes)
}

func TestOutputGoesToTheTasksLogFiles(t *testing.T) {
	write := func(stream int32) []byte {
		return modtest.Code(modtest.I32Const(stream), modtest.I32Const(messageAt), modtest.I32Const(6), modtest.Call(fnTaskOutput), modtest.Drop)
	}
	body := modtest.Code(write(1), write(2), write(1), answer(0, 0))
	p := newWorld(t, host.Limits{}).ready(t, guest([]byte("hello\n"), map[string][]byte{abi.OpDriverFingerprint: body}).Bytes(), host.Grants{})
	scope := taskScope(t)
	_, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, scope)
	require.NoError(t, err)
	for path, want := range map[string]string{scope.Config.StdoutPath: "hello\nhello\n", scope.Config.StderrPath: "hello\n"} {
		got, err := os.ReadFile(path + ".0")
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

// A mark is of the task's invocation: another call of it finds it, and what was written since.
func TestAMarkIsKeptWithTheOutput(t *testing.T) {
	at := func(fn uint32, length int32) []byte {
		return modtest.Code(modtest.I32Const(1), modtest.I32Const(messageAt), modtest.I32Const(length), modtest.Call(fn), modtest.Drop)
	}
	marked := modtest.Code(modtest.I32Const(1), modtest.Call(fnTaskMarked), modtest.Drop, modtest.I32Const(inputAt), modtest.Call(fnResult))
	p := newWorld(t, host.Limits{}).ready(t, guest([]byte("hello\n"), map[string][]byte{
		abi.OpDriverStartTask:   modtest.Code(at(fnTaskOutput, 6), at(fnTaskMark, 5), at(fnTaskOutput, 3), at(fnTaskMark, 257), answer(0, 0)),
		abi.OpDriverFingerprint: modtest.Code(marked, answer(inputAt, 9)),
	}).Bytes(), host.Grants{})
	scope := taskScope(t)
	_, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, scope)
	require.NoError(t, err)
	second := *scope
	second.Config = scope.Config.CloneVT()
	second.Config.Id = "another invocation"
	out, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, &second)
	require.NoError(t, err)
	require.NotContains(t, string(out), "hello")
	out, err = p.Call(t.Context(), abi.OpDriverFingerprint, nil, scope)
	require.NoError(t, err)
	require.Equal(t, mustMarshal(&wasmnodev1.OutputMark{Mark: []byte("hello"), BytesSince: 3}), out)
}

func TestAMarkIsBoundedAtItsEdge(t *testing.T) {
	marks := func(length int32) []byte {
		return modtest.Code(modtest.I32Const(1), modtest.I32Const(messageAt), modtest.I32Const(length), modtest.Call(fnTaskMark), modtest.Drop)
	}
	marked := modtest.Code(modtest.I32Const(1), modtest.Call(fnTaskMarked), modtest.Drop, modtest.I32Const(inputAt), modtest.Call(fnResult))
	want := &wasmnodev1.OutputMark{Mark: bytes.Repeat([]byte("x"), 256)}
	p := newWorld(t, host.Limits{}).ready(t, guest(bytes.Repeat([]byte("x"), 257), map[string][]byte{
		abi.OpDriverStartTask:   modtest.Code(marks(256), marks(257), answer(0, 0)),
		abi.OpDriverFingerprint: modtest.Code(marked, answer(inputAt, len(mustMarshal(want)))),
	}).Bytes(), host.Grants{})
	scope := taskScope(t)
	_, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, scope)
	require.NoError(t, err)
	out, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, scope)
	require.NoError(t, err)
	require.Equal(t, mustMarshal(want), out)
}

// started calls a guest that asks to start a program, as start_task does.
func started(t *testing.T, w *world, scope *host.TaskScope, grant host.WasmGrant, r *wasmnodev1.WasmStartRequest) []byte {
	t.Helper()
	message := mustMarshal(r)
	p := w.ready(t, guest(message, map[string][]byte{abi.OpDriverStartTask: ask(fnStart, len(message))}).Bytes(), host.Grants{Wasm: grant})
	out, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, scope)
	require.NoError(t, err)
	return out
}

// program is a WASI command that returns at once.
func program() []byte {
	return (&modtest.Module{Pages: 1, Funcs: []modtest.Func{{Export: "_start"}}}).Bytes()
}

func put(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, content, 0o644))
	return path
}

func TestAProgramStartsAsTheTasksWorkload(t *testing.T) {
	granted := t.TempDir()
	absolute := put(t, granted, "bin/app.wasm", program())
	for name, c := range map[string]struct{ module string }{
		"relative":              {"local/app.wasm"},
		"absolute in the task":  {"TASK/local/app.wasm"},
		"absolute and granted":  {absolute},
		"in the shared one":     {"SHARED/app.wasm"},
		"through a link inside": {"local/link.wasm"},
	} {
		t.Run(name, func(t *testing.T) {
			w, scope := newWorld(t, host.Limits{}), taskScope(t)
			d := scope.Config.Directories
			put(t, d.Task, "local/app.wasm", program())
			put(t, d.Shared, "app.wasm", program())
			require.NoError(t, os.Symlink("app.wasm", filepath.Join(d.Task, "local/link.wasm")))
			module := strings.NewReplacer("TASK", d.Task, "SHARED", d.Shared).Replace(c.module)
			code, message := decodeAnswer(t, started(t, w, scope, host.WasmGrant{Directories: []string{granted}}, &wasmnodev1.WasmStartRequest{Module: module}))
			require.Zero(t, code)
			var answer wasmnodev1.WasmStartResponse
			require.NoError(t, answer.UnmarshalVT(message))
			require.Equal(t, scope.Config.Id, answer.WorkloadId)
			exit, err := w.workloads.Wait(t.Context(), scope.Config.Id)
			require.NoError(t, err)
			require.Zero(t, exit.ExitCode)
		})
	}
}

func TestAProgramOutsideOfTheGrantedDirectoriesIsNotStarted(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, "secret.wasm", program())
	for name, c := range map[string]struct {
		request *wasmnodev1.WasmStartRequest
		code    abi.Code
		text    string
	}{
		"no path":          {&wasmnodev1.WasmStartRequest{}, abi.InvalidArgument, `"" is not a path`},
		"nothing there":    {&wasmnodev1.WasmStartRequest{Module: "local/none.wasm"}, abi.NotFound, "module local/none.wasm: no such file or directory"},
		"parent":           {&wasmnodev1.WasmStartRequest{Module: "../../secret.wasm"}, abi.PermissionDenied, "leads out of the task's directory"},
		"absolute":         {&wasmnodev1.WasmStartRequest{Module: outside + "/secret.wasm"}, abi.PermissionDenied, fmt.Sprintf(`add plugin "test" { grant { wasm { directories = [%q] } } }`, outside)},
		"absolute parent":  {&wasmnodev1.WasmStartRequest{Module: "TASK/../../../../../../.." + outside + "/secret.wasm"}, abi.PermissionDenied, "neither in the task's directory nor granted"},
		"link outside":     {&wasmnodev1.WasmStartRequest{Module: "out/secret.wasm"}, abi.FailedPrecondition, "escapes"},
		"NUL":              {&wasmnodev1.WasmStartRequest{Module: "local/app.wasm\x00"}, abi.InvalidArgument, "is not a path"},
		"directory":        {&wasmnodev1.WasmStartRequest{Module: "local"}, abi.InvalidArgument, "is not a file"},
		"FIFO":             {&wasmnodev1.WasmStartRequest{Module: "local/fifo"}, abi.InvalidArgument, "is not a file"},
		"no module":        {&wasmnodev1.WasmStartRequest{Module: "local/text"}, abi.InvalidArgument, "not a WebAssembly module"},
		"mount of host":    {&wasmnodev1.WasmStartRequest{Module: "local/app.wasm", Mounts: []*wasmnodev1.Mount{{TaskPath: "/etc", HostPath: "/etc"}}}, abi.PermissionDenied, `nor granted: add plugin "test" { grant { wasm { directories = ["/etc"] } } }`},
		"module of host":   {&wasmnodev1.WasmStartRequest{Module: "/etc"}, abi.PermissionDenied, `{ directories = ["/"] }`}, // that it is a directory is not told
		"mount of a file":  {&wasmnodev1.WasmStartRequest{Module: "local/app.wasm", Mounts: []*wasmnodev1.Mount{{TaskPath: "/x", HostPath: outside + "/secret.wasm"}}}, abi.PermissionDenied, fmt.Sprintf(`{ directories = [%q] }`, outside+"/secret.wasm")},
		"mount by a link":  {&wasmnodev1.WasmStartRequest{Module: "local/app.wasm", Mounts: []*wasmnodev1.Mount{{TaskPath: "/x", HostPath: "out"}}}, abi.FailedPrecondition, "escapes"},
		"relative target":  {&wasmnodev1.WasmStartRequest{Module: "local/app.wasm", Mounts: []*wasmnodev1.Mount{{TaskPath: "x", HostPath: "local"}}}, abi.InvalidArgument, "is not absolute"},
		"missing mount":    {&wasmnodev1.WasmStartRequest{Module: "local/app.wasm", Mounts: []*wasmnodev1.Mount{{TaskPath: "/x", HostPath: "none"}}}, abi.NotFound, "mount none: no such file"},
		"no such port":     {&wasmnodev1.WasmStartRequest{Module: "local/app.wasm", Listen: []string{"http", "admin"}}, abi.InvalidArgument, `no port "admin": add network { port "admin" {} }`},
		"too many ports":   {&wasmnodev1.WasmStartRequest{Module: "local/app.wasm", Listen: slices.Repeat([]string{"http"}, 17)}, abi.InvalidArgument, "more than 16 ports"},
		"port of nowhere":  {&wasmnodev1.WasmStartRequest{Module: "local/app.wasm", Listen: []string{"nowhere"}}, abi.FailedPrecondition, `port "nowhere" has no address`},
		"input by a link":  {&wasmnodev1.WasmStartRequest{Module: "local/app.wasm", Stdin: "out/secret.wasm"}, abi.InvalidArgument, "escapes"},
		"input of host":    {&wasmnodev1.WasmStartRequest{Module: "local/app.wasm", Stdin: "/etc/passwd"}, abi.PermissionDenied, "nor granted"},
		"control in paths": {&wasmnodev1.WasmStartRequest{Module: "local/\x1b[2J"}, abi.NotFound, `local/\u001b[2J`},
	} {
		t.Run(name, func(t *testing.T) {
			w, scope := newWorld(t, host.Limits{}), taskScope(t)
			scope.Config.Ports = []*wasmnodev1.Port{{Label: "http", HostIp: "127.0.0.1"}, {Label: "nowhere"}}
			d := scope.Config.Directories
			put(t, d.Task, "local/app.wasm", program())
			put(t, d.Task, "local/text", []byte("hello"))
			require.NoError(t, syscall.Mkfifo(filepath.Join(d.Task, "local/fifo"), 0o600))
			require.NoError(t, os.Symlink(outside, filepath.Join(d.Task, "out")))
			c.request.Module = strings.Replace(c.request.Module, "TASK", d.Task, 1)
			err := answeredError(t, started(t, w, scope, host.WasmGrant{}, c.request))
			require.Equal(t, c.code, err.Code, "%v", err)
			require.ErrorContains(t, err, c.text)
			list, listErr := w.workloads.List(t.Context())
			require.NoError(t, listErr)
			require.Empty(t, list)
		})
	}
}

func TestAReadOnlyVolumeStaysReadOnly(t *testing.T) {
	volume := t.TempDir()
	put(t, volume, "in.txt", []byte("one two two"))
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	put(t, scope.Config.Directories.Task, "app.wasm", guestbuild.Program(t, "guest-examples/programs/files"))
	scope.Config.Mounts = []*wasmnodev1.Mount{{HostPath: volume, TaskPath: "/data", ReadOnly: true}}
	code, message := decodeAnswer(t, started(t, w, scope, host.WasmGrant{}, &wasmnodev1.WasmStartRequest{
		Module: "app.wasm", Args: []string{"read:/data/in.txt", "write:/data/new=x"},
		Mounts: []*wasmnodev1.Mount{{HostPath: volume, TaskPath: "/data"}}}))
	require.Zero(t, code, "%s", message)
	exit, err := w.workloads.Wait(t.Context(), scope.Config.Id)
	require.NoError(t, err)
	require.Equal(t, 1, exit.ExitCode)
	stderr, err := os.ReadFile(scope.Config.StderrPath + ".0")
	require.NoError(t, err)
	require.Contains(t, string(stderr), "files: write:/data/new=x: ")
	entries, err := os.ReadDir(volume)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestProgramsAreStartedOnlyWhereATaskStarts(t *testing.T) {
	message := mustMarshal(&wasmnodev1.WasmStartRequest{Module: "app.wasm"})
	p := newWorld(t, host.Limits{}).ready(t, guest(message, map[string][]byte{
		abi.OpDriverFingerprint: ask(fnStart, len(message)),
		abi.OpDriverStartTask:   ask(fnStart, len(message)),
	}).Bytes(), host.Grants{})
	for op, scope := range map[string]*host.TaskScope{abi.OpDriverFingerprint: taskScope(t), abi.OpDriverStartTask: nil} {
		out, err := p.Call(t.Context(), op, nil, scope)
		require.NoError(t, err)
		require.Equal(t, abi.FailedPrecondition, answeredError(t, out).Code)
	}
}

func TestARequestIsAsLongAsItMayBe(t *testing.T) {
	for length, code := range map[int]abi.Code{1 << 20: abi.InvalidArgument, 1<<20 + 1: abi.ResourceExhausted} {
		m := guest(nil, map[string][]byte{abi.OpDriverStartTask: ask(fnStart, length)}) // zeros, which are no message
		m.Pages = 32
		out, err := newWorld(t, host.Limits{}).ready(t, m.Bytes(), host.Grants{}).Call(t.Context(), abi.OpDriverStartTask, nil, taskScope(t))
		require.NoError(t, err)
		require.Equal(t, code, answeredError(t, out).Code)
	}
}

func TestTheErrorOfADeniedProgramNamesTheMissingGrant(t *testing.T) {
	// Granted when it was loaded, taken away since: the call in flight is told.
	w := newWorld(t, host.Limits{})
	p := w.load(t, guest(nil, map[string][]byte{abi.OpDriverStartTask: ask(fnStart, 0)}).Bytes())
	out, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, taskScope(t))
	require.NoError(t, err)
	require.Equal(t, abi.PermissionDenied, answeredError(t, out).Code)
}

func TestAPluginSeesTheDirectoriesGrantedAndNoOther(t *testing.T) {
	// The guest opens "file" in its first directory, descriptor 3.
	dir := t.TempDir()
	put(t, dir, "file", []byte("x"))
	module := guest([]byte("file"), nil)
	module.Imports[fnRead] = modtest.Import{Module: abi.ModuleWASI, Name: "path_open", Type: modtest.Type{
		Params:  []byte{modtest.I32, modtest.I32, modtest.I32, modtest.I32, modtest.I32, modtest.I64, modtest.I64, modtest.I32, modtest.I32},
		Results: []byte{modtest.I32},
	}}
	openFile := func(create int32) []byte {
		return modtest.Code(
			modtest.I32Const(inputAt), // where the errno goes
			modtest.I32Const(3), modtest.I32Const(0), modtest.I32Const(messageAt), modtest.I32Const(4), modtest.I32Const(create),
			modtest.I64Const(1<<6|1<<1), modtest.I64Const(0), modtest.I32Const(0), modtest.I32Const(inputAt+8), modtest.Call(fnRead),
			modtest.Store(), answer(inputAt, 4))
	}
	for i, f := range module.Funcs {
		switch f.Export {
		case abi.OpDriverFingerprint:
			module.Funcs[i].Body = openFile(0)
		case abi.OpDriverStartTask:
			module.Funcs[i].Body = openFile(8) // O_TRUNC
		}
	}
	for name, c := range map[string]struct {
		grant       host.FSGrant
		read, write bool
	}{
		"nothing":    {host.FSGrant{}, false, false},
		"read only":  {host.FSGrant{ReadOnly: []string{dir}}, true, false},
		"read write": {host.FSGrant{ReadWrite: []string{dir}}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, dir, "file", []byte("x")) // another case may have truncated it
			p := newWorld(t, host.Limits{}).ready(t, module.Bytes(), host.Grants{FS: c.grant})
			out, err := p.Call(t.Context(), abi.OpDriverStartTask, nil, nil)
			require.NoError(t, err)
			require.Equal(t, c.write, out[0] == 0, "errno %d", out[0])
			if c.read && !c.write {
				got, err := os.ReadFile(filepath.Join(dir, "file"))
				require.NoError(t, err)
				require.Equal(t, "x", string(got))
			}
		})
	}
	p := newWorld(t, host.Limits{}).load(t, module.Bytes())
	require.ErrorContains(t, p.Configure(t.Context(), host.Grants{FS: host.FSGrant{ReadOnly: []string{dir + "/none"}}}, nil), "granted directory")
}

// The content of a program is read once, until its file changes in any way.
func TestAChangedProgramIsReadAgain(t *testing.T) {
	w, scope := newWorld(t, host.Limits{}), taskScope(t)
	path := put(t, scope.Config.Directories.Task, "app.wasm", program())
	exits := func() int {
		t.Helper()
		code, message := decodeAnswer(t, started(t, w, scope, host.WasmGrant{}, &wasmnodev1.WasmStartRequest{Module: "app.wasm"}))
		require.Zero(t, code, "%s", message)
		exit, err := w.workloads.Wait(t.Context(), scope.Config.Id)
		require.NoError(t, err)
		require.NoError(t, w.workloads.Destroy(t.Context(), scope.Config.Id))
		return exit.ExitCode
	}
	settle := func() { // what is younger is not kept
		require.Eventually(t, func() bool {
			var s syscall.Stat_t
			return syscall.Stat(path, &s) == nil && time.Since(time.Unix(s.Ctim.Unix())) > 1100*time.Millisecond
		}, time.Minute, 10*time.Millisecond)
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	settle()
	require.Zero(t, exits())
	require.Zero(t, exits(), "what is kept")
	trapping := (&modtest.Module{Pages: 1, Funcs: []modtest.Func{{Export: "_start", Body: []byte{0}}}}).Bytes()
	require.NoError(t, os.WriteFile(path, trapping, 0o644))
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()), "its time is set back")
	require.Equal(t, 134, exits())
}
