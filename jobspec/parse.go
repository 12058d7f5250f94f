package jobspec

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// Bounds of a job file.
const (
	// MaxBytes bounds a file.
	MaxBytes = hclvalue.MaxBytes
	// maxExpanded bounds the blocks that `dynamic` makes in one file.
	maxExpanded = 10_000
)

// Options are what to parse, and with what.
type Options struct {
	// Path names the file in messages; file functions are relative to its directory.
	Path    string
	Content []byte
	// Vars are variables' values as given with -var: an expression in the variable's
	// type, or the text itself for strings.
	Vars map[string]string
	// VarFiles are files of `name = value` lines, later ones winning over earlier
	// ones, and Vars over all of them.
	VarFiles []File
	// Env is the environment, "NAME=VALUE": NOMAD_VAR_name sets a variable that
	// nothing else sets.
	Env []string
	// AllowFiles permits the functions that read files. A server that parses for
	// others must not set it.
	AllowFiles bool
}

// File is a file's path, for messages, and content.
type File struct {
	Path    string
	Content []byte
}

// Parse reads a job file. The error lists every fault, a line each, beginning with
// its position; it is of type [*Error].
//
// The bounds keep a file from exhausting the stack. They do not bound what its
// functions and loops compute: parse only what belongs to the one who waits for it.
func Parse(o Options) (*nomad.Job, error) {
	p := &parser{functions: functions(o), src: map[string][]byte{o.Path: o.Content}, groups: map[string]hcl.Range{}}
	body := p.read(o.Path, o.Content)
	if body == nil {
		return nil, p.err()
	}
	job := p.file(o, body)
	if err := p.err(); err != nil {
		return nil, err
	}
	return job, nil
}

// parser collects what is wrong with a file.
type parser struct {
	src       map[string][]byte // by path, for the text of interpolations
	functions map[string]function.Function
	expanded  int
	groups    map[string]hcl.Range // where they are, tasks outside of groups too
	diags     hcl.Diagnostics
}

// read parses a file's syntax; nil: it is not worth reading on.
func (p *parser) read(path string, content []byte) *hclsyntax.Body {
	body, diags := hclvalue.ParseFile(path, content)
	p.add(diags)
	return body
}

// file decodes a file's blocks.
func (p *parser) file(o Options, body *hclsyntax.Body) *nomad.Job {
	for _, a := range sorted(body.Attributes) {
		p.errorf(a.NameRange, "Unsupported argument; an argument named %q is not expected here.", a.Name)
	}
	vars := newVariables(p, o)
	locals := map[string]*hclsyntax.Attribute{}
	var job *hclsyntax.Block
	for _, b := range body.Blocks {
		switch b.Type {
		case "variable":
			vars.declare(b)
		case "variables":
			p.noLabels(b.Type, b.TypeRange, b.Labels)
			vars.declareAll(b)
		case "locals":
			p.declareLocals(b, locals)
		case "job":
			if job != nil {
				p.errorf(b.TypeRange, "Duplicate job block; a file has one, the first is at %s.", job.TypeRange)
			}
			job = b
		default:
			p.errorf(b.TypeRange, "Unsupported block type; blocks of type %q are not expected here%s", b.Type,
				suggest(b.Type, []string{"job", "locals", "variable", "variables"}))
		}
	}
	vars.finish()
	if job == nil {
		p.errorf(body.SrcRange, "Missing job block; a job file has exactly one.")
	} else if len(job.Labels) != 1 {
		p.errorf(job.TypeRange, "A job block has one label, the job's ID: job \"example\" { … }.")
	}
	if p.diags.HasErrors() {
		return nil
	}
	ctx := &hcl.EvalContext{Functions: p.functions, Variables: map[string]cty.Value{"var": cty.ObjectVal(vars.values)}}
	p.locals(ctx, locals)
	if p.diags.HasErrors() {
		return nil
	}
	return p.job(job, ctx)
}

// job decodes the job block.
func (p *parser) job(b *hclsyntax.Block, ctx *hcl.EvalContext) *nomad.Job {
	job := &nomad.Job{}
	var shared shared
	var loose []*nomad.TaskGroup
	p.body(b.Body, nil, ctx, reflect.ValueOf(job).Elem(), shared.handlers(p, map[string]handler{
		// A task outside of a group is a group of its own, of the same name.
		"task": func(e expansion) {
			t := &nomad.Task{}
			p.countLabels(e, reflect.TypeOf(t))
			p.once(e, p.groups)
			p.value(e, reflect.ValueOf(t))
			loose = append(loose, &nomad.TaskGroup{Name: &t.Name, Tasks: []*nomad.Task{t}})
		},
	}))
	job.TaskGroups = append(loose, job.TaskGroups...)
	for _, g := range job.TaskGroups {
		shared.give(g)
	}
	normalise(job, b.Labels[0])
	return job
}

func (p *parser) errorf(at hcl.Range, format string, args ...any) {
	p.add(hclvalue.Errorf(at, format, args...))
}

func (p *parser) add(d hcl.Diagnostics) { p.diags = append(p.diags, d...) }

func (p *parser) err() error {
	if !p.diags.HasErrors() {
		return nil
	}
	e := &Error{}
	for _, f := range hclvalue.Faults(p.diags) {
		e.Faults = append(e.Faults, Fault(f))
	}
	return e
}

// MaxFaults bounds what an [Error] prints.
const MaxFaults = 20

// Fault is one thing that is wrong with a job file.
type Fault struct {
	// Line says what, on a line that begins with "FILE:LINE,COLUMN: ".
	Line string
	// At is what of the file is wrong; without a file name, nobody knows.
	At hcl.Range
}

// Error is what is wrong with a job file.
type Error struct {
	// Faults are in the order of the file.
	Faults []Fault
}

// Error returns the faults, a line each.
func (e *Error) Error() string {
	lines := make([]string, 0, MaxFaults+1)
	for _, f := range e.Faults[:min(len(e.Faults), MaxFaults)] {
		lines = append(lines, f.Line)
	}
	if n := len(e.Faults) - MaxFaults; n > 0 {
		lines = append(lines, fmt.Sprintf("(and %d more)", n))
	}
	return strings.Join(lines, "\n")
}
