package hclvalue

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Bounds of a file. The parser and the evaluation of expressions are recursive, and a
// goroutine whose stack is full ends the process.
const (
	// MaxBytes bounds a file. Nomad's largest examples are some kilobytes; a job file
	// with embedded templates can be a hundred.
	MaxBytes = 1 << 20
	// MaxNesting bounds brackets and quotes within each other.
	MaxNesting = 100
	// MaxOperators bounds the operators, indexes and template directives of one
	// expression, not counting what is in brackets of its own.
	MaxOperators = 500
	// maxExponent bounds the power of ten of a number as it is written, and how many
	// digits it is written with: 1e9999999 takes half a minute to turn into a text.
	maxExponent = 999
)

// ParseFile parses a file's syntax within the bounds. The path is for messages only.
// The body is nil when there is an error; then it is the first: what the parser finds
// wrong after that is mostly an echo.
func ParseFile(path string, content []byte) (*hclsyntax.Body, hcl.Diagnostics) {
	if diags := checkBounds(path, content); diags != nil {
		return nil, diags
	}
	f, diags := hclsyntax.ParseConfig(content, path, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, first(diags)
	}
	return f.Body.(*hclsyntax.Body), diags
}

// ParseExpression parses an expression within the bounds of a file.
func ParseExpression(path string, content []byte) (hclsyntax.Expression, hcl.Diagnostics) {
	if diags := checkBounds(path, content); diags != nil {
		return nil, diags
	}
	return hclsyntax.ParseExpression(content, path, hcl.InitialPos)
}

// first returns the error that is first in the file.
func first(diags hcl.Diagnostics) hcl.Diagnostics {
	errs := slices.DeleteFunc(slices.Clone(diags), func(d *hcl.Diagnostic) bool { return d.Severity != hcl.DiagError })
	return hcl.Diagnostics{slices.MinFunc(errs, func(a, b *hcl.Diagnostic) int {
		return cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte)
	})}
}

func checkSize(path string, content []byte) hcl.Diagnostics {
	if len(content) <= MaxBytes {
		return nil
	}
	start := hcl.Range{Filename: path, Start: hcl.InitialPos, End: hcl.InitialPos}
	return Errorf(start, "The file has more than %d bytes.", MaxBytes)
}

func checkBounds(path string, content []byte) hcl.Diagnostics {
	if diags := checkSize(path, content); diags != nil {
		return diags
	}
	tokens, _ := hclsyntax.LexConfig(content, path, hcl.InitialPos)
	// How many operators there are in each of the expressions that are open.
	counts := []int{0}
	inBody := []bool{true}
	atStart := false // of a bracket
	for _, t := range tokens {
		last := len(counts) - 1
		kind := kindOf(t)
		switch {
		case atStart && string(t.Bytes) == "for":
			inBody[last] = false // { for … }: newlines do not end it
		case kind == opening:
			if t.Type != hclsyntax.TokenTemplateInterp { // side by side in a text
				counts[last]++ // a[x][x][x] nests although its brackets do not
			}
			counts, inBody = append(counts, 0), append(inBody, t.Type == hclsyntax.TokenOBrace)
		case kind == closing && last > 0:
			counts, inBody = counts[:last], inBody[:last]
		case kind == operator:
			counts[last]++
		case kind == separator, kind == newline && inBody[last]:
			counts[last] = 0
		}
		atStart = kind == opening || atStart && kind == newline
		switch last = len(counts) - 1; {
		case last > MaxNesting:
			return Errorf(t.Range, "More than %d brackets within each other.", MaxNesting)
		case counts[last] > MaxOperators:
			return Errorf(t.Range, "More than %d operators in one expression.", MaxOperators)
		case t.Type == hclsyntax.TokenNumberLit && !writable(t.Bytes):
			return Errorf(t.Range, "The number is too large or too small; digits and powers of ten are limited to %d.", maxExponent)
		}
	}
	return nil
}

// writable reports whether a number's text is short even when it is written out.
func writable(number []byte) bool {
	digits := number
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		digits = number[:i]
		exponent, err := strconv.Atoi(string(number[i+1:]))
		if err == nil && (exponent > maxExponent || exponent < -maxExponent) || errors.Is(err, strconv.ErrRange) {
			return false
		}
	}
	return len(digits) <= maxExponent
}

type tokenKind int

const (
	operand tokenKind = iota
	opening
	closing
	operator
	separator
	newline
)

// kindOf returns what a token does to the depth of the recursion. Whatever is not known
// to be harmless is an operator.
func kindOf(t hclsyntax.Token) tokenKind {
	switch t.Type {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
		hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		return opening
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
		hclsyntax.TokenTemplateSeqEnd:
		return closing
	case hclsyntax.TokenComma:
		return separator
	case hclsyntax.TokenNewline:
		return newline
	case hclsyntax.TokenComment:
		if bytes.HasSuffix(t.Bytes, []byte("\n")) {
			return newline
		}
		return operand
	case hclsyntax.TokenIdent, hclsyntax.TokenNumberLit, hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit,
		hclsyntax.TokenOHeredoc, hclsyntax.TokenCHeredoc, hclsyntax.TokenEqual,
		hclsyntax.TokenEOF:
		return operand
	}
	return operator
}

// Errorf makes an error at a place in a file.
func Errorf(at hcl.Range, format string, args ...any) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: fmt.Sprintf(format, args...), Subject: &at}}
}

// Fault is an error among diagnostics, for people.
type Fault struct {
	// Line is the error on a line, beginning with "FILE:LINE,COLUMN: " where it has a place.
	Line string
	// At is the place; without a file name there is none.
	At hcl.Range
}

// Faults returns the errors among diagnostics in the order of the file, and each once.
func Faults(diags hcl.Diagnostics) []Fault { return faults(diags, hcl.DiagError) }

func faults(diags hcl.Diagnostics, severity hcl.DiagnosticSeverity) []Fault {
	errs := slices.DeleteFunc(slices.Clone(diags), func(d *hcl.Diagnostic) bool { return d.Severity != severity })
	files := map[string]int{} // in the order in which they come up
	for _, d := range errs {
		file := place(d).Filename
		if _, ok := files[file]; !ok {
			files[file] = len(files)
		}
	}
	slices.SortStableFunc(errs, func(a, b *hcl.Diagnostic) int {
		atA, atB := place(a), place(b)
		return cmp.Or(files[atA.Filename]-files[atB.Filename], atA.Start.Byte-atB.Start.Byte)
	})
	var found []Fault
	seen := map[string]bool{}
	for _, d := range errs {
		if line := describe(d); !seen[line] {
			seen[line] = true
			found = append(found, Fault{Line: line, At: place(d)})
		}
	}
	return found
}

// Lines returns the lines of the faults among diagnostics.
func Lines(diags hcl.Diagnostics) []string { return lines(Faults(diags)) }

// Warnings returns the lines of the warnings among diagnostics, in the form and order of Lines.
func Warnings(diags hcl.Diagnostics) []string { return lines(faults(diags, hcl.DiagWarning)) }

func lines(faults []Fault) []string {
	var all []string
	for _, f := range faults {
		all = append(all, f.Line)
	}
	return all
}

func place(d *hcl.Diagnostic) (at hcl.Range) {
	if d.Subject != nil {
		at = *d.Subject
	}
	return at
}

func describe(d *hcl.Diagnostic) string {
	text := d.Summary
	if d.Detail != "" {
		text += "; " + d.Detail
	}
	text = strings.Join(strings.Fields(text), " ")
	if d.Subject == nil {
		return text
	}
	return At(*d.Subject, text)
}

// At puts a place before a text, in the form of [Fault.Line].
func At(at hcl.Range, text string) string {
	return fmt.Sprintf("%s:%d,%d: %s", at.Filename, at.Start.Line, at.Start.Column, text)
}
