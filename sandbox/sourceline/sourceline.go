// Package sourceline finds the lines of source that a module's debug information has for places
// in its code: DWARF's line tables, of versions 2 to 5.
//
// What it reads is a guest's, and may be anything: it is read once, from its beginning to its end,
// nothing of it is copied, and it is followed no deeper than one table into its texts. It knows
// nothing of modules.
//
// Start reading at [Tables.Find].
package sourceline

import (
	"bytes"
	"strconv"
	"strings"
)

// MaxTables is how many bytes of line tables are read: a program of a million lines has about so
// many, and a node reads them in some tens of milliseconds.
const MaxTables = 4 << 20

// MaxPath is how long the path of a file becomes, in bytes; of a longer one its end is kept.
const MaxPath = 96

// Tables are the sections that lines are in. The zero value has none.
type Tables struct {
	Line    []byte // .debug_line
	LineStr []byte // .debug_line_str: texts of version 5
	Str     []byte // .debug_str: likewise
}

// place is where a line is told of: which file it is of the table that begins at unit.
type place struct {
	found      bool
	address    uint64
	unit       int
	file, line uint64
}

// Find returns, for each address, "file:line", or "" where nothing is known: the tables do not
// tell, make no sense, or have more than [MaxTables] bytes. What comes before the part that makes
// no sense is used.
func (t Tables) Find(addresses []uint32) []string {
	lines := make([]string, len(addresses))
	if len(t.Line) > MaxTables {
		return lines
	}
	places := make([]place, len(addresses))
	for at := 0; at < len(t.Line); {
		u, ok := readUnit(t.Line, at)
		if !ok {
			break
		}
		u.run(addresses, places)
		at = u.end
	}
	for i, p := range places {
		if !p.found {
			continue
		}
		if u, ok := readUnit(t.Line, p.unit); ok {
			if file := t.file(u, p.file); file != "" {
				lines[i] = file + ":" + strconv.FormatUint(p.line, 10)
			}
		}
	}
	return lines
}

// note takes a row of a table and the one behind it.
func note(addresses []uint32, places []place, row, next *state, unit int) {
	if row.line == 0 || row.address == 0 || row.address >= next.address {
		return // it is of no line, or of a function that the linker left out
	}
	for i, a := range addresses {
		at := uint64(a)
		if p := &places[i]; row.address <= at && at < next.address && (!p.found || row.address >= p.address) {
			*p = place{true, row.address, unit, row.file, row.line}
		}
	}
}

// file is the path of a unit's file, by its number: "" where there is none.
func (t Tables) file(u unit, number uint64) string {
	dir, name := t.entry(u, number)
	if len(name) == 0 {
		return ""
	}
	path := string(tail(name))
	if len(dir) > 0 && name[0] != '/' {
		path = string(tail(dir)) + "/" + path
	}
	path = strings.TrimPrefix(path, "/proc/self/cwd/") // the folder it was built in: see sdk/templates/zig
	if len(path) > MaxPath {
		path = "…" + strings.ToValidUTF8(path[len(path)-MaxPath+len("…"):], "")
	}
	return path
}

// tail is as much of a text's end as a path may have.
func tail(text []byte) []byte { return text[max(0, len(text)-MaxPath-1):] }

// text is what is at a place in a table of texts.
func text(table []byte, at uint64) []byte {
	if at >= uint64(len(table)) {
		return nil
	}
	before, _, ends := bytes.Cut(table[at:], []byte{0})
	if !ends {
		return nil
	}
	return before
}
