package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// switched is a package's sources with mutants in them, each of which can be turned on.
type switched struct {
	files map[string]string          // the path of each source: of what is compiled instead
	lines map[string]map[int][]begun // of each source, by its base name
}

// begun is where in a line a piece of a mutant is, from 1.
type begun struct{ column, mutant int }

// at returns the mutant whose piece is the last one before a place; 0: there is none.
func (s *switched) at(file string, line, column int) (mutant int) {
	for _, b := range s.lines[file][line] {
		if mutant == 0 || b.column <= column {
			mutant = b.mutant
		}
	}
	return mutant
}

// support is what the sources call. A mutant that is reached tells it, once in a process.
const support = `package %s

import (
	"cmp"
	"os"
	"strconv"
	"sync/atomic"
)

var mutantNow, _ = strconv.Atoi(os.Getenv("MUTANT_ON"))
var mutantLog = os.Getenv("MUTANT_REACHED")
var mutantReached [%d]atomic.Bool

func mutantOn(k int) bool {
	if mutantLog != "" && !mutantReached[k].Load() && !mutantReached[k].Swap(true) {
		if f, err := os.OpenFile(mutantLog, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			f.WriteString(strconv.Itoa(k) + "\n")
			f.Close()
		}
	}
	return mutantNow == k
}

type mutantNumber interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func mutantIf[T any](k int, on, off T) T {
	if mutantOn(k) {
		return on
	}
	return off
}
func mutantLess[T cmp.Ordered](k int, a, b T) bool    { return mutantIf(k, a <= b, a < b) }
func mutantAtMost[T cmp.Ordered](k int, a, b T) bool  { return mutantIf(k, a < b, a <= b) }
func mutantMore[T cmp.Ordered](k int, a, b T) bool    { return mutantIf(k, a >= b, a > b) }
func mutantAtLeast[T cmp.Ordered](k int, a, b T) bool { return mutantIf(k, a > b, a >= b) }
func mutantPlus[T mutantNumber](k int, a, b T) T      { return mutantIf(k, a-b, a+b) }
func mutantMinus[T mutantNumber](k int, a, b T) T     { return mutantIf(k, a+b, a-b) }
func mutantAnd(k int, a bool, b func() bool) bool {
	if mutantOn(k) {
		return a || b()
	}
	return a && b()
}
func mutantOr(k int, a bool, b func() bool) bool {
	if mutantOn(k) {
		return a && b()
	}
	return a || b()
}
`

// write puts the sources of a package with those mutants that are not left out into a
// directory. The number of a mutant is its index and one.
func write(name, dir, scratch string, all []mutant, out map[int]bool) (*switched, error) {
	s := &switched{files: map[string]string{}, lines: map[string]map[int][]begun{}}
	byFile := map[string][]placed{}
	for i, m := range all {
		for j, p := range m.pieces {
			if !out[i+1] {
				p.text = strings.ReplaceAll(p.text, "#", strconv.Itoa(i+1))
				byFile[m.file] = append(byFile[m.file], placed{p, i + 1, j > 0})
			}
		}
	}
	for path, pieces := range byFile {
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text, lines := assemble(source, pieces)
		s.files[path] = filepath.Join(scratch, filepath.Base(path))
		s.lines[filepath.Base(path)] = lines
		if err := os.WriteFile(s.files[path], text, 0o600); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(scratch, "mutant_support.go")
	s.files[filepath.Join(dir, "zz_mutants.go")] = path
	return s, os.WriteFile(path, fmt.Appendf(nil, support, name, len(all)+1), 0o600)
}

// placed is a piece of a mutant.
type placed struct {
	piece
	mutant int
	closes bool // what an earlier piece began
}

// assemble returns a source with the pieces, and where in its lines they are. Pieces of one
// place nest as the nodes do, of which the outer ones come first in the order of mutants.
func assemble(source []byte, pieces []placed) (text []byte, lines map[int][]begun) {
	slices.SortStableFunc(pieces, func(a, b placed) int {
		if a.at != b.at || a.closes != b.closes {
			return cmp.Or(cmp.Compare(a.at, b.at), map[bool]int{true: -1, false: 1}[a.closes])
		}
		if a.closes {
			return cmp.Compare(b.mutant, a.mutant)
		}
		return cmp.Compare(a.mutant, b.mutant)
	})
	lines = map[int][]begun{}
	from := 0
	for _, p := range pieces {
		text = append(text, source[from:p.at]...)
		line := 1 + bytes.Count(text, []byte("\n"))
		lines[line] = append(lines[line], begun{len(text) - bytes.LastIndexByte(text, '\n'), p.mutant})
		text = append(text, p.text...)
		from = p.at + p.drop
	}
	return append(text, source[from:]...), lines
}
