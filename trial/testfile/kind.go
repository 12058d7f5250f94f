package testfile

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/trial"
)

// labels are what a step's label may be.
type labels int

const (
	nolabel   labels = iota
	taskLabel        // a task's name; without it, "task"
	needed
)

// kind is what the steps of a name are like.
type kind struct {
	label      labels
	checkLabel func(string) error
	example    string // of the label
	// attrs are its own attributes, with their checks; the others are fields of the message, but
	// for some that are the node's own.
	attrs   map[string]func(*reader, attr)
	needs   []string
	message string
	own     []string
	config  bool   // it has a config block
	silent  bool   // the plugin has no part in it: nothing can be expected
	answers string // the message; empty: none
}

// The checks of attributes.
func aText(r *reader, a attr)    { _, _ = typed[string](r, a, "a text") }
func aBool(r *reader, a attr)    { _, _ = typed[bool](r, a, "true or false") }
func aTime(r *reader, a attr)    { r.duration(a) }
func theTexts(r *reader, a attr) { r.texts(a) }
func anObject(r *reader, a attr) { _, _ = typed[map[string]any](r, a, "an object") }
func anErrorCode(r *reader, a attr) {
	if text, is := typed[string](r, a, "a text"); is && codes[text] == 0 {
		r.fault(a.at, "%v", unknown(fmt.Sprintf("code %q", text), text, codes))
	}
}

// codes are those of errors, by their names.
var codes = func() map[string]abi.Code {
	out := map[string]abi.Code{}
	for n := range wasmnodev1.ErrorCode_name {
		if n != 0 {
			out[abi.CodeName(abi.Code(n))] = abi.Code(n)
		}
	}
	return out
}()

// kinds are the steps that there are, by their names.
var kinds = map[string]kind{
	"configure": {config: true},
	"start": {
		label: taskLabel, config: true, message: "TaskConfig", answers: "DriverStartTaskResponse",
		own: []string{"id", "name", "driver_config", "directories", "stdout_path", "stderr_path"},
	},
	"wait":    {label: taskLabel, attrs: map[string]func(*reader, attr){"within": aTime}, answers: "DriverWaitTaskResponse"},
	"inspect": {label: taskLabel, answers: "DriverInspectTaskResponse"},
	"signal":  {label: taskLabel, attrs: map[string]func(*reader, attr){"signal": aText}, needs: []string{"signal"}},
	"stop":    {label: taskLabel, attrs: map[string]func(*reader, attr){"signal": aText, "timeout": aTime}},
	"destroy": {label: taskLabel, attrs: map[string]func(*reader, attr){"force": aBool}},
	"exec": {
		label: taskLabel, attrs: map[string]func(*reader, attr){"command": theTexts, "stdin": aText, "timeout": aTime},
		needs: []string{"command"}, answers: "DriverExecTaskResponse",
	},
	"call": {
		label: needed, example: `call "driver_fingerprint" { }`, checkLabel: isOperation,
		attrs: map[string]func(*reader, attr){"task": aText, "request": anObject},
	},
	"restart_agent": {},
	"upgrade":       {attrs: map[string]func(*reader, attr){"file": aText}},
	"advance":       {silent: true, attrs: map[string]func(*reader, attr){"by": aTime}, needs: []string{"by"}},
	"end":           {silent: true, label: taskLabel, message: "ExitResult"},
	"refuse": {
		silent: true, label: needed, example: `refuse "process" { }`, checkLabel: isStarted, needs: []string{"code", "message"},
		attrs: map[string]func(*reader, attr){"code": anErrorCode, "message": aText, "recoverable": aBool},
	},
	"helper": {silent: true, label: needed, example: `helper "/usr/bin/tool" { }`, checkLabel: isAbsolute, message: "ProcessRunResponse"},
	"expect": {},
}

func isOperation(op string) error {
	if fieldsOf(messageOf(op, "Request")) != nil && (strings.HasPrefix(op, "driver_") || strings.HasPrefix(op, "device_")) {
		return nil
	}
	return fmt.Errorf("there is no operation %q: its name begins with driver_ or device_", op)
}

func isStarted(what string) error {
	if !slices.Contains([]string{"process", "wasm"}, what) {
		return fmt.Errorf(`%q cannot be refused: it is "process" or "wasm"`, what)
	}
	return nil
}

func isAbsolute(command string) error {
	if !filepath.IsAbs(command) {
		return fmt.Errorf("a helper is called by its absolute path, not %q", command)
	}
	return nil
}

// messageOf is the name of an operation's message.
func messageOf(op, kind string) string { return trial.OperationMessage(op, kind) }
