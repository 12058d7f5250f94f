package jobspec

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/nomad/api"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Bounds of a job file.
const (
	// MaxBytes bounds a file. Nomad's largest examples are some kilobytes; a file
	// with embedded templates can be a hundred.
	MaxBytes = 1 << 20
	// MaxNesting bounds brackets within brackets: the parser is recursive.
	MaxNesting = 100
	// MaxExpanded bounds the blocks that `dynamic` makes in one file.
	MaxExpanded = 10_000
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
// its position; it is of type [Error].
func Parse(o Options) (*api.Job, error) {
	p := &parser{functions: functions(o), src: map[string][]byte{o.Path: o.Content}}
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
	diags     hcl.Diagnostics
}

// read parses a file's syntax; nil: it is not worth reading on.
func (p *parser) read(path string, content []byte) *hclsyntax.Body {
	start := hcl.Range{Filename: path, Start: hcl.InitialPos, End: hcl.InitialPos}
	if len(content) > MaxBytes {
		p.errorf(start, "The file has %d bytes; the limit is %d.", len(content), MaxBytes)
		return nil
	}
	if at, deep := tooDeep(path, content); deep {
		p.errorf(at, "More than %d brackets within each other.", MaxNesting)
		return nil
	}
	f, diags := hclsyntax.ParseConfig(content, path, hcl.InitialPos)
	p.add(diags)
	if diags.HasErrors() {
		return nil
	}
	return f.Body.(*hclsyntax.Body)
}

// tooDeep finds the first bracket that is nested too deeply.
func tooDeep(path string, content []byte) (hcl.Range, bool) {
	tokens, _ := hclsyntax.LexConfig(content, path, hcl.InitialPos)
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl, hclsyntax.TokenOQuote:
			if depth++; depth > MaxNesting {
				return t.Range, true
			}
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd, hclsyntax.TokenCQuote:
			depth = max(0, depth-1)
		}
	}
	return hcl.Range{}, false
}

// file decodes a file's blocks.
func (p *parser) file(o Options, body *hclsyntax.Body) *api.Job {
	for _, a := range body.Attributes {
		p.errorf(a.NameRange, "Unsupported argument; an argument named %q is not expected here.", a.Name)
	}
	vars := newVariables(p, o)
	var locals []*hclsyntax.Attribute
	var job *hclsyntax.Block
	for _, b := range body.Blocks {
		switch b.Type {
		case "variable":
			vars.declare(b)
		case "variables":
			vars.declareAll(b)
		case "locals":
			for _, a := range sorted(b.Body.Attributes) {
				locals = append(locals, a)
			}
		case "job":
			if job != nil {
				p.errorf(b.TypeRange, "Duplicate job block; a file has one, the first is at %s.", job.TypeRange)
			}
			job = b
		default:
			p.errorf(b.TypeRange, "Unsupported block type; blocks of type %q are not expected here%s.", b.Type,
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

// locals evaluates local values in the order in which they need each other.
func (p *parser) locals(ctx *hcl.EvalContext, waiting []*hclsyntax.Attribute) {
	values := map[string]cty.Value{}
	ctx.Variables["local"] = cty.ObjectVal(values)
	for len(waiting) > 0 {
		names := map[string]bool{}
		for _, a := range waiting {
			names[a.Name] = true
		}
		var blocked []*hclsyntax.Attribute
		for _, a := range waiting {
			if needs(a.Expr, names) {
				blocked = append(blocked, a)
				continue
			}
			values[a.Name] = p.eval(a.Expr, ctx)
		}
		ctx.Variables["local"] = cty.ObjectVal(values)
		if len(blocked) == len(waiting) {
			for _, a := range blocked {
				p.errorf(a.SrcRange, "Local value %q refers to itself, directly or through others.", a.Name)
			}
			return
		}
		waiting = blocked
	}
}

// needs reports whether an expression refers to one of the locals named.
func needs(e hclsyntax.Expression, names map[string]bool) bool {
	for _, t := range hclsyntax.Variables(e) {
		if t.RootName() != "local" || len(t) < 2 {
			continue
		}
		if attr, ok := t[1].(hcl.TraverseAttr); ok && names[attr.Name] {
			return true
		}
	}
	return false
}

// job decodes the job block.
func (p *parser) job(b *hclsyntax.Block, ctx *hcl.EvalContext) *api.Job {
	job := &api.Job{}
	var shared shared
	var loose []*api.TaskGroup
	p.body(b.Body, nil, ctx, reflect.ValueOf(job).Elem(), shared.handlers(p, map[string]handler{
		// A task outside of a group is a group of its own, of the same name.
		"task": func(e expansion) {
			t := &api.Task{}
			p.value(e, reflect.ValueOf(t))
			loose = append(loose, &api.TaskGroup{Name: &t.Name, Tasks: []*api.Task{t}})
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
	p.add(hcl.Diagnostics{{Severity: hcl.DiagError, Summary: fmt.Sprintf(format, args...), Subject: &at}})
}

func (p *parser) add(d hcl.Diagnostics) { p.diags = append(p.diags, d...) }

func (p *parser) err() error {
	if !p.diags.HasErrors() {
		return nil
	}
	e := &Error{}
	seen := map[string]bool{}
	for _, d := range p.diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		line := describe(d)
		if !seen[line] {
			seen[line] = true
			e.Faults = append(e.Faults, line)
		}
	}
	return e
}

// maxFaults bounds what an [Error] prints.
const maxFaults = 20

// Error is what is wrong with a job file.
type Error struct {
	// Faults has a line for each, beginning with "FILE:LINE,COLUMN: ".
	Faults []string
}

// Error returns the faults, a line each.
func (e *Error) Error() string {
	if n := len(e.Faults) - maxFaults; n > 0 {
		return strings.Join(e.Faults[:maxFaults], "\n") + fmt.Sprintf("\n(and %d more)", n)
	}
	return strings.Join(e.Faults, "\n")
}

// describe renders a diagnostic on one line.
func describe(d *hcl.Diagnostic) string {
	text := d.Summary
	if d.Detail != "" {
		text += "; " + d.Detail
	}
	text = strings.Join(strings.Fields(text), " ")
	if d.Subject == nil {
		return text
	}
	return fmt.Sprintf("%s:%d,%d: %s", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column, text)
}
