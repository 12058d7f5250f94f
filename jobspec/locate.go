package jobspec

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// Locate finds the places in a job file of faults that were found after the file was read,
// and returns them in the order of the file. A fault begins with the names of what it is
// in, each inside the one before, such as
//
//	group "web": task "app": config.mounts[0].source: missing
//
// and the place is that of the last of them that the file has once: of the job when there
// is none. It has no place when the file is no job file of HCL.
//
// A name is that of an argument or of a type of block. After it comes which one, where there
// are several: the block's label or name in quotes, or its number from 1, or from 0 in
// brackets. A block that `dynamic` makes is where that is written.
func Locate(path string, content []byte, faults []string) []Fault {
	job := jobIn(path, content)
	located := make([]Fault, len(faults))
	for i, fault := range faults {
		if job == nil {
			located[i] = Fault{Line: path + ": " + fault}
			continue
		}
		at := job.last(fault)
		located[i] = Fault{Line: hclvalue.At(at, fault), At: at}
	}
	slices.SortStableFunc(located, func(a, b Fault) int { return cmp.Compare(a.At.Start.Byte, b.At.Start.Byte) })
	return located
}

// last returns where the last of a path's names is that a place has once: the place itself
// when there is none.
func (p place) last(path string) hcl.Range {
	at, here := p.at, []place{p}
	for len(here) > 0 {
		if len(here) == 1 {
			at = here[0].at
		}
		here, path = follow(here, path)
	}
	return at
}

// jobIn returns the place of a file's job block; nil: it has none.
func jobIn(path string, content []byte) *place {
	body, _ := hclvalue.ParseFile(path, content)
	if body == nil {
		return nil
	}
	for _, b := range body.Blocks {
		if b.Type == "job" {
			job := blockPlace(b)
			// A task outside of a group is in one of its own, of the same name.
			for _, t := range b.Body.Blocks {
				if t.Type == "task" {
					inner := &hclsyntax.Body{Blocks: hclsyntax.Blocks{t}}
					job.groups = append(job.groups, place{at: t.DefRange(), labels: t.Labels, body: inner})
				}
			}
			return &job
		}
	}
	return nil
}

// place is a block, or the value of an argument.
type place struct {
	at     hcl.Range
	body   *hclsyntax.Body      // of a block
	labels []string             // of the block, those that the way here has not named
	many   bool                 // it is the content of a dynamic block: any label and number
	value  hclsyntax.Expression // of an argument
	groups []place              // that are in the job and not in its body
}

func blockPlace(b *hclsyntax.Block) place {
	return place{at: b.DefRange(), body: b.Body, labels: b.Labels}
}

// The steps of a path, each with what may follow it: the next, or the end.
var (
	nameStep   = regexp.MustCompile(`^(?:: |\.)?([\pL_][\pL\pN_-]*)(?:[:.[,]| \(| "| \d+[:, ]|$)`)
	labelStep  = regexp.MustCompile(`^ ("(?:[^"\\]|\\.)*")`)
	numberStep = regexp.MustCompile(`^ (\d{1,9})(?:[:.,]| \()`)
	indexStep  = regexp.MustCompile(`^\[(\d{1,9})\]`)
	keyStep    = regexp.MustCompile(`^\[("(?:[^"\\]|\\.)*")\]`)
)

// follow takes the step that a path begins with. It returns where that leads, of several
// places to all that it may mean, and the rest of the path.
func follow(from []place, path string) (to []place, rest string) {
	step := func(r *regexp.Regexp) (what string, ok bool) {
		m := r.FindStringSubmatchIndex(path)
		if m == nil {
			return "", false
		}
		what, rest = path[m[2]:m[3]], path[m[3]:]
		return what, true
	}
	if name, ok := step(nameStep); ok {
		return inside(from, name), rest
	}
	if quoted, ok := step(keyStep); ok {
		name, _ := strconv.Unquote(quoted)
		return inside(from, name), rest[len("]"):]
	}
	if quoted, ok := step(labelStep); ok {
		label, _ := strconv.Unquote(quoted)
		return labelled(from, label), rest
	}
	if number, ok := step(numberStep); ok {
		n, _ := strconv.Atoi(number)
		return nth(from, n-1), rest
	}
	if index, ok := step(indexStep); ok {
		n, _ := strconv.Atoi(index)
		return nth(from, n), rest[len("]"):]
	}
	return nil, path
}

// inside returns what is called a name in places.
func inside(from []place, name string) (to []place) {
	for _, p := range from {
		switch {
		case len(p.labels) > 0 && p.labels[0] == name && p.body != nil: // as drivers have labels of blocks in config
			p.labels = p.labels[1:]
			to = append(to, p)
		case p.body != nil:
			to = append(to, inBody(p.body, name)...)
		default:
			to = append(to, inValue(p.value, name)...)
		}
		if name == "group" {
			to = append(to, p.groups...)
		}
	}
	return to
}

func inBody(b *hclsyntax.Body, name string) (to []place) {
	if a := b.Attributes[name]; a != nil {
		to = append(to, place{at: a.SrcRange, value: a.Expr})
	}
	for _, block := range b.Blocks {
		switch {
		case block.Type == name:
			to = append(to, blockPlace(block))
		case block.Type == "dynamic" && slices.Equal(block.Labels, []string{name}):
			for _, content := range block.Body.Blocks {
				to = append(to, place{at: block.DefRange(), body: content.Body, many: true})
			}
		}
	}
	return to
}

func inValue(e hclsyntax.Expression, name string) (to []place) {
	object, ok := e.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil
	}
	for _, item := range object.Items {
		if text(item.KeyExpr) == name {
			at := hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range())
			to = append(to, place{at: at, value: item.ValueExpr})
		}
	}
	return to
}

// labelled returns which of some blocks has a label, or that as its name; without one, those
// that may.
func labelled(from []place, label string) (to []place) {
	var may []place
	for _, p := range from {
		switch {
		case p.many:
			may = append(may, p)
		case len(p.labels) > 0 && p.labels[0] == label:
			p.labels = p.labels[1:]
			to = append(to, p)
		case p.body != nil && len(p.labels) == 0:
			if a := p.body.Attributes["name"]; a != nil && text(a.Expr) == label {
				to = append(to, p)
			}
		}
	}
	if len(to) == 0 {
		return may
	}
	return to
}

// nth returns which of some blocks, or elements of the one list, is the n-th, from 0.
func nth(from []place, n int) (to []place) {
	if len(from) == 1 {
		if list, ok := from[0].value.(*hclsyntax.TupleConsExpr); ok {
			if n < len(list.Exprs) {
				to = append(to, place{at: list.Exprs[n].Range(), value: list.Exprs[n]})
			}
			return to
		}
	}
	if slices.ContainsFunc(from, func(p place) bool { return p.many }) {
		return from // how many it makes is not known
	}
	if n >= 0 && n < len(from) {
		to = append(to, from[n])
	}
	return to
}

// text returns a text that is written as such; empty: it is none.
func text(e hclsyntax.Expression) string {
	if v, diags := e.Value(nil); !diags.HasErrors() && v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
		return v.AsString()
	}
	return ""
}
