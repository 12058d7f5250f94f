package host

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/sandbox"
)

// Bounds of a log line's fields: what does not fit is left out.
const (
	maxLogFields     = 32
	maxLogFieldBytes = 1 << 10
	maxFieldsBytes   = 128 << 10 // of all of them, as the guest hands them over
)

// lineRoom is how many times a line's text may be as long once it is escaped and has its
// fields; what is beyond is cut, the last fields first.
const lineRoom = 2

// logFuncs is wasmnode:log/v1: lines in the node's log under the plugin's name. It
// needs no grant; rate and length are bounded.
var logFuncs = map[string]sandbox.HostFunc{
	abi.FuncLogWrite: {
		Params: []api.ValueType{i32, i32, i32, i32, i32},
		Run: func(ctx context.Context, m api.Module, stack []uint64) {
			c := callOf(ctx)
			limits := c.plugin.host.cfg.Limits
			text := view(m, stack[1], min(uint64(uint32(stack[2])), uint64(limits.LogLineBytes+1)), limits.OutputBytes)
			c.inst.words.add(text)
			if c.plugin.mayLog() {
				c.inst.log(wasmnodev1.LogLevel(uint32(stack[0])), string(text), readFields(m, stack[3], stack[4]))
			}
		},
	},
}

// readFields reads an encoded LogFields message.
func readFields(m api.Module, ptr, length uint64) []*wasmnodev1.LogField {
	if uint32(length) > maxFieldsBytes {
		return []*wasmnodev1.LogField{{Key: "fields_left_out", Value: fmt.Sprintf("%d bytes, the limit is %d", uint32(length), maxFieldsBytes)}}
	}
	var fields wasmnodev1.LogFields
	if err := decode(read(m, ptr, length, maxFieldsBytes), &fields); err != nil {
		panic(&protocolError{"logs fields that are not a LogFields message"})
	}
	return fields.Fields
}

var hclogLevels = map[wasmnodev1.LogLevel]hclog.Level{
	wasmnodev1.LogLevel_LOG_LEVEL_TRACE: hclog.Trace,
	wasmnodev1.LogLevel_LOG_LEVEL_DEBUG: hclog.Debug,
	wasmnodev1.LogLevel_LOG_LEVEL_INFO:  hclog.Info,
	wasmnodev1.LogLevel_LOG_LEVEL_WARN:  hclog.Warn,
	wasmnodev1.LogLevel_LOG_LEVEL_ERROR: hclog.Error,
}

// mayLog reports whether the plugin may log one more line now. What is dropped is counted,
// and the count logged with the next one that is not.
func (p *Plugin) mayLog() bool {
	dropped, ok := p.logs.allow()
	if ok && dropped > 0 {
		const text = "the plugin logs faster than it may; lines were dropped"
		p.logger.Warn(text, "dropped", dropped)
		p.keepLine(lineOf(nil, hclog.Warn, text, []any{"dropped", dropped}))
	}
	return ok
}

// log writes one line of the call in progress, which [Plugin.mayLog] has let through, unless the plugin
// has logged too many bytes. What is secret in it is masked.
func (i *instance) log(level wasmnodev1.LogLevel, text string, fields []*wasmnodev1.LogField) {
	p, scope := i.plugin, i.scope
	to, known := hclogLevels[level]
	if !known {
		to = hclog.Info
	}
	line := p.host.cfg.Limits.LogLineBytes
	room := lineRoom * line
	whole := room
	text, room = fit(plaintext.Line(i.shown(text, len(text) > line), line), room)
	args := append(make([]any, 0, 2*min(len(fields), maxLogFields)+4), scope.names()...)
	for _, f := range fields[:min(len(fields), maxLogFields)] {
		if room <= 0 {
			break
		}
		var key, value string
		key, room = fit(fieldName(i.shown(f.GetKey(), false)), room)
		value, room = fit(plaintext.Line(i.shown(f.GetValue(), false), maxLogFieldBytes), room)
		args = append(args, key, value)
	}
	if !p.logBytes.AllowN(time.Now(), whole-max(room, 0)) {
		p.logs.dropped.Add(1)
		return
	}
	p.logger.Log(to, text, args...)
	p.keepLine(lineOf(scope, to, text, args[len(scope.names()):]))
}

// lineOf is a line as it is kept. Its fields are a key and a value in turn.
func lineOf(scope *TaskScope, level hclog.Level, text string, fields []any) LogLine {
	l := LogLine{Level: level.String(), Message: text}
	if scope != nil {
		l.AllocID, l.Task = scope.Config.GetAllocId(), scope.Config.GetName()
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if l.Fields == nil {
			l.Fields = map[string]string{}
		}
		l.Fields[fmt.Sprint(fields[i])] = fmt.Sprint(fields[i+1])
	}
	return l
}

// fit returns a line, or its beginning, such that it takes at most room bytes in the log's
// longest form, which is JSON, and how much room that leaves.
func fit(line string, room int) (fitting string, left int) {
	for at, r := range line {
		if room -= loggedBytes(r); room < 0 {
			return line[:at] + "…", 0
		}
	}
	return line, room
}

// loggedBytes is what a printable character becomes at most.
func loggedBytes(r rune) int {
	switch r {
	case '<', '>', '&':
		return len(`\u003c`)
	case '"', '\\', '\t':
		return 2
	}
	return utf8.RuneLen(r)
}

// fieldName makes a name of a guest's that cannot be taken for one of the logger's.
func fieldName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return '_'
	}, plaintext.Line(s, maxLogFieldBytes))
	if s == "" {
		return "_"
	}
	return s
}

// lineLogger turns a guest's standard output into log lines. One instance writes to
// it, so it needs no lock.
type lineLogger struct {
	plugin *Plugin
	inst   *instance
	level  wasmnodev1.LogLevel
	rest   []byte // of an unfinished line; what is beyond a line's limit is dropped
}

// Write implements [io.Writer].
func (l *lineLogger) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		// One call of a guest can write its whole memory, a line a byte.
		if l.inst.guest.Over() {
			return written - len(p), context.Canceled
		}
		line, rest, found := bytes.Cut(p, []byte{'\n'})
		room := max(0, l.plugin.host.cfg.Limits.LogLineBytes+1-len(l.rest))
		l.rest = append(l.rest, line[:min(len(line), room)]...)
		if found {
			l.end()
		}
		p = rest
	}
	return written, nil
}

// end logs the line that has ended.
func (l *lineLogger) end() {
	level := l.level
	if l.inst.words.panicked() { // the fault tells it, and where it was
		level = wasmnodev1.LogLevel_LOG_LEVEL_DEBUG
	}
	l.inst.words.add(l.rest)
	if l.plugin.mayLog() {
		l.inst.log(level, string(l.rest), nil)
	}
	l.rest = l.rest[:0]
}

// flush logs what did not end with a line's end.
func (l *lineLogger) flush() {
	if len(l.rest) > 0 {
		l.end()
	}
}
