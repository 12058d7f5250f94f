package host

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/hashicorp/go-hclog"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// Bounds of a log line's fields: what does not fit is left out.
const (
	maxLogFields     = 32
	maxLogFieldBytes = 1 << 10
)

// logFuncs is wasmnode:log/v1: lines in the node's log under the plugin's name. It
// needs no grant; rate and length are bounded.
var logFuncs = map[string]hostFunc{
	abi.FuncLogWrite: {
		params: []api.ValueType{i32, i32, i32, i32, i32},
		run: func(ctx context.Context, m api.Module, stack []uint64) {
			c := callOf(ctx)
			limit := c.plugin.host.cfg.Limits.OutputBytes
			text := read(m, stack[1], stack[2], limit)
			var fields wasmnodev1.LogFields
			if err := decode(read(m, stack[3], stack[4], limit), &fields); err != nil {
				panic(&protocolError{"logs fields that are not a LogFields message"})
			}
			c.plugin.log(wasmnodev1.LogLevel(uint32(stack[0])), string(text), fields.Fields)
		},
	},
}

var hclogLevels = map[wasmnodev1.LogLevel]hclog.Level{
	wasmnodev1.LogLevel_LOG_LEVEL_TRACE: hclog.Trace,
	wasmnodev1.LogLevel_LOG_LEVEL_DEBUG: hclog.Debug,
	wasmnodev1.LogLevel_LOG_LEVEL_INFO:  hclog.Info,
	wasmnodev1.LogLevel_LOG_LEVEL_WARN:  hclog.Warn,
	wasmnodev1.LogLevel_LOG_LEVEL_ERROR: hclog.Error,
}

// log writes one line, unless the plugin writes too many.
func (p *Plugin) log(level wasmnodev1.LogLevel, text string, fields []*wasmnodev1.LogField) {
	to, known := hclogLevels[level]
	if !known {
		to = hclog.Info
	}
	dropped, ok := p.logs.allow()
	if !ok {
		return
	}
	if dropped > 0 {
		p.logger.Warn("the plugin logs faster than it may; lines were dropped", "dropped", dropped)
	}
	args := make([]any, 0, 2*min(len(fields), maxLogFields))
	for _, f := range fields[:min(len(fields), maxLogFields)] {
		args = append(args, fieldName(f.GetKey()), plaintext.Line(f.GetValue(), maxLogFieldBytes))
	}
	text = plaintext.Line(text, p.host.cfg.Limits.LogLineBytes)
	p.recent.add(text)
	p.logger.Log(to, text, args...)
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

// lastLines keeps the last few lines that a plugin wrote, for who asks why it
// crashed.
type lastLines struct {
	mu   sync.Mutex
	kept []string
}

const maxLastLines = 20

func (l *lastLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == maxLastLines {
		copy(l.kept, l.kept[1:])
		l.kept = l.kept[:maxLastLines-1]
	}
	l.kept = append(l.kept, line)
}

func (l *lastLines) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept)
}

// lineLogger turns a guest's standard output into log lines. One instance writes to
// it, so it needs no lock.
type lineLogger struct {
	plugin *Plugin
	level  wasmnodev1.LogLevel
	rest   []byte // of an unfinished line; what is beyond a line's limit is dropped
}

// Write implements [io.Writer].
func (l *lineLogger) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		line, rest, found := bytes.Cut(p, []byte{'\n'})
		room := max(0, l.plugin.host.cfg.Limits.LogLineBytes+1-len(l.rest))
		l.rest = append(l.rest, line[:min(len(line), room)]...)
		if found {
			l.plugin.log(l.level, string(l.rest), nil)
			l.rest = l.rest[:0]
		}
		p = rest
	}
	return written, nil
}

// flush logs what did not end with a line's end.
func (l *lineLogger) flush() {
	if len(l.rest) > 0 {
		l.plugin.log(l.level, string(l.rest), nil)
		l.rest = nil
	}
}
