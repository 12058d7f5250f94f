package config

import (
	"bytes"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// unfold puts nested blocks that are on one line on lines of their own, and the arguments in
// them:
//
//	plugin "wasi" { grant { wasm { directories = ["/srv"] max_programs = 3 } } }
//
// Nomad's agent configuration may be written so, and what this program tells people to
// add is. HCL's native syntax wants a line each. It returns where each line of the
// result begins in the original.
func unfold(path string, src []byte) ([]byte, []hcl.Pos) {
	tokens, diags := hclsyntax.LexConfig(src, path, hcl.InitialPos)
	if diags.HasErrors() {
		return src, nil
	}
	u := unfolder{src: src, lines: []hcl.Pos{hcl.InitialPos}}
	for i, t := range tokens {
		if u.value && u.brackets == 0 && i > 0 && beginsArgument(tokens[i-1:]) {
			u.copy(t.Range.Start.Byte, t.Range.Start)
			u.value = false
		}
		u.token(t, i+1 < len(tokens) && tokens[i+1].Type == hclsyntax.TokenNewline)
	}
	u.copy(len(src), hcl.Pos{})
	return u.out.Bytes(), u.lines
}

// beginsArgument reports whether the second of these tokens begins another argument, the first
// being the end of a value.
func beginsArgument(tokens hclsyntax.Tokens) bool {
	if len(tokens) < 3 || tokens[1].Type != hclsyntax.TokenIdent || tokens[2].Type != hclsyntax.TokenEqual {
		return false
	}
	switch tokens[0].Type {
	case hclsyntax.TokenCQuote, hclsyntax.TokenCBrack, hclsyntax.TokenCBrace, hclsyntax.TokenNumberLit, hclsyntax.TokenIdent:
		return true
	}
	return false
}

// unfolder walks over a file's tokens and knows whether it is in an expression.
type unfolder struct {
	src   []byte
	out   bytes.Buffer
	at    int // up to where src is copied
	lines []hcl.Pos

	value    bool // after an attribute's "=", up to the end of the line or block
	brackets int  // open ones in that value
	fresh    bool // nothing is on the current line yet
}

func (u *unfolder) token(t hclsyntax.Token, endsLine bool) {
	switch t.Type {
	case hclsyntax.TokenNewline, hclsyntax.TokenComment:
		if u.brackets == 0 {
			u.value = false
		}
		u.fresh = true
		return
	case hclsyntax.TokenEqual:
		u.value = true
	case hclsyntax.TokenOBrace:
		if !u.value {
			u.breakAt(t.Range.End, endsLine)
			u.fresh = true
			return
		}
		u.brackets++
	case hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		u.brackets++
	case hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
		u.brackets--
	case hclsyntax.TokenCBrace:
		if u.brackets > 0 {
			u.brackets--
			break
		}
		u.value = false
		u.breakAt(t.Range.Start, u.fresh)
		u.breakAt(t.Range.End, endsLine)
		u.fresh = true
		return
	}
	u.fresh = false
}

// breakAt begins a new line at a place, unless there is one already.
func (u *unfolder) breakAt(pos hcl.Pos, already bool) {
	if !already {
		u.copy(pos.Byte, pos)
	}
}

// copy copies the source up to a place, and ends the line there unless it is the end.
func (u *unfolder) copy(to int, pos hcl.Pos) {
	start := u.lines[len(u.lines)-1]
	line := start.Line
	for _, c := range u.src[u.at:to] {
		u.out.WriteByte(c)
		if c == '\n' {
			line++
			u.lines = append(u.lines, hcl.Pos{Line: line, Column: 1})
		}
	}
	u.at = to
	if to < len(u.src) {
		u.out.WriteByte('\n')
		u.lines = append(u.lines, pos)
	}
}

// relocate makes diagnostics refer to the original.
func relocate(diags hcl.Diagnostics, path string, lines []hcl.Pos) {
	for _, d := range diags {
		if d.Subject != nil && d.Subject.Filename == path {
			subject := moved(*d.Subject, lines)
			d.Subject = &subject
		}
	}
}

// moved returns where a range begins in the original. Its end does not move.
func moved(r hcl.Range, lines []hcl.Pos) hcl.Range {
	if r.Start.Line <= len(lines) {
		begin := lines[r.Start.Line-1]
		r.Start.Line, r.Start.Column = begin.Line, begin.Column+r.Start.Column-1
	}
	return r
}
