package sandbox

import (
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/sandbox/meter"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/sandbox/sourceline"
)

// The bounds of modules whose lines are told. The engine keeps a place for every instruction of
// them, some bytes for each byte of code, and the file stays in memory.
const (
	maxLinesCode = 1 << 20
	maxLinesFile = 16 << 20
)

// sourceLines are what the lines of a module's stacks are looked up in.
type sourceLines struct {
	origins *meter.Origins
	tables  sourceline.Tables
}

// hasLines reports whether a module has lines that are told.
func hasLines(scanned *scan.Module) bool {
	n := len(lineTables(scanned).Line)
	return n > 0 && n <= sourceline.MaxTables && scanned.Code.Bytes <= maxLinesCode && scanned.Size <= maxLinesFile
}

func lineTables(scanned *scan.Module) (t sourceline.Tables) {
	for _, c := range scanned.Binary.Customs {
		content := scanned.Binary.Content(c)
		switch c.Name {
		case ".debug_line":
			t.Line = content
		case ".debug_line_str":
			t.LineStr = content
		case ".debug_str":
			t.Str = content
		}
	}
	return t
}

// Frame is a function of a stack.
type Frame struct {
	// Func is the function as the engine writes it: the module's name, a dot, the function's name
	// or its number, and its types.
	Func string
	// Line is where in the source it was, as "file:line"; empty: that is not known.
	Line string
}

// stackMark is what the engine writes before the frames of a stack.
const stackMark = "wasm stack trace:"

// Frames returns the functions that a guest of the module was in when it failed, the innermost
// first: at most so many. The error is what the call returned. There are lines where the module was
// compiled with [Options].Lines, has DWARF's line tables, and at most 1 MiB of code in a file of at
// most 16 MiB. What is in those tables is the guest's word.
func (m *Module) Frames(err error, most int) []Frame {
	_, trace, found := strings.Cut(err.Error(), stackMark)
	if !found {
		return nil
	}
	var frames []Frame
	var offsets []uint32 // of those whose line is looked for
	var of []int         // which those are
	for line := range strings.Lines(trace) {
		line = strings.TrimSpace(line)
		if offset, is := placeIn(line); is && len(frames) > 0 {
			offsets, of = append(offsets, offset), append(of, len(frames)-1)
			continue
		}
		if line == "" || strings.HasPrefix(line, meter.ImportModule+".") {
			continue // the node's own: where the guest looks whether its call is over
		}
		if len(frames) == most {
			break
		}
		frames = append(frames, Frame{Func: line})
	}
	for i, line := range m.linesAt(offsets) {
		frames[of[i]].Line = line
	}
	return frames
}

// placeIn reads the place in the code that the engine tells below a frame.
func placeIn(line string) (uint32, bool) {
	digits, ours := strings.CutSuffix(line, meter.OffsetSuffix)
	digits, prefixed := strings.CutPrefix(digits, meter.OffsetPrefix)
	if !ours || !prefixed {
		return 0, false
	}
	offset, err := strconv.ParseUint(digits, 16, 32)
	return uint32(offset), err == nil
}

// linesAt returns the lines of places in the code that runs.
func (m *Module) linesAt(offsets []uint32) []string {
	if m.lines == nil || len(offsets) == 0 {
		return nil
	}
	addresses := make([]uint32, len(offsets))
	for i, offset := range offsets {
		addresses[i], _ = m.lines.origins.Of(offset) // no line is of address 0
	}
	return m.lines.tables.Find(addresses)
}
