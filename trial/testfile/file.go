package testfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// Suffix is what the names of test files end with.
const Suffix = ".test.hcl"

// File is a file of tests.
type File struct {
	Path  string
	Tests []*Test
}

// Test is one test: a node around the plugin, and what happens there in order.
type Test struct {
	Name string
	// RealProcesses has what the driver starts without isolation run on this machine, in real time.
	// Without it nothing runs, and time passes only as the test says.
	RealProcesses bool
	// ReadOnly are directories that the plugin may read, absolute.
	ReadOnly []string

	at    hcl.Range
	steps []*step
}

// step is one thing that happens in a test.
type step struct {
	kind  string
	label string
	at    hcl.Range
	attrs map[string]attr
	// config is what is in the step's config block; nil: it has none.
	config *hclsyntax.Body
	// expect is what is expected of the step; nil: that it does not fail.
	expect []attr
	// answers is the message that it answers; empty: none.
	answers string
}

// attr is an attribute as it is written.
type attr struct {
	name  string
	at    hcl.Range
	value any
}

// Find returns the test files in a folder, or the one file that path is, by name. A folder may have none.
func Find(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), Suffix) && !e.IsDir() {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, nil
}

// Read reads a test file. The error has a line for each fault, which begins with its place.
func Read(path string) (*File, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.Size() > hclvalue.MaxBytes {
		return nil, fmt.Errorf("%s: a test file has at most %d bytes", path, hclvalue.MaxBytes)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parse(path, content)
}

// parse reads the content of a test file.
func parse(path string, content []byte) (*File, error) {
	body, diags := hclvalue.ParseFile(path, content)
	if diags.HasErrors() {
		return nil, faults(diags)
	}
	r := &reader{dir: filepath.Dir(path)}
	f := &File{Path: path}
	for _, a := range body.Attributes {
		r.fault(a.NameRange, "%q stands outside of a test block", a.Name)
	}
	names := map[string]hcl.Range{}
	for _, b := range body.Blocks {
		switch {
		case b.Type != "test":
			r.fault(b.TypeRange, "there is no block %q here: a test file has test blocks", b.Type)
			continue
		case len(b.Labels) != 1 || strings.TrimSpace(b.Labels[0]) == "":
			r.fault(b.DefRange(), `a test has one label, what it shows: test "a task ends" { }`)
			continue
		}
		if before, is := names[b.Labels[0]]; is {
			r.fault(b.DefRange(), "there is a test %q already, in line %d", b.Labels[0], before.Start.Line)
		}
		names[b.Labels[0]] = b.DefRange()
		f.Tests = append(f.Tests, r.test(b))
	}
	if len(f.Tests) == 0 && !r.diags.HasErrors() {
		return nil, fmt.Errorf("%s: there is no test block in it", path)
	}
	if r.diags.HasErrors() {
		return nil, faults(r.diags)
	}
	return f, nil
}

// faults are all errors among diagnostics, a line each.
func faults(diags hcl.Diagnostics) error {
	return errors.New(strings.Join(hclvalue.Lines(diags), "\n"))
}

// reader reads the blocks of a file, and notes what is wrong with them.
type reader struct {
	dir   string // the file's
	diags hcl.Diagnostics
}

func (r *reader) fault(at hcl.Range, format string, args ...any) {
	r.diags = append(r.diags, hclvalue.Errorf(at, format, args...)...)
}

// test reads a test block.
func (r *reader) test(b *hclsyntax.Block) *Test {
	t := &Test{Name: b.Labels[0], at: b.DefRange()}
	for _, a := range r.attributes(b.Body) {
		switch a.name {
		case "real_processes":
			t.RealProcesses, _ = typed[bool](r, a, "true or false")
		case "read_only":
			for _, dir := range r.texts(a) {
				t.ReadOnly = append(t.ReadOnly, r.path(dir))
			}
		default:
			r.fault(a.at, "%v", unknown(fmt.Sprintf("attribute %q of a test", a.name), a.name, map[string]bool{"real_processes": true, "read_only": true}))
		}
	}
	if len(b.Body.Blocks) == 0 {
		r.fault(b.DefRange(), "the test has no step: start { }, for one")
	}
	for _, inner := range b.Body.Blocks {
		if s := r.step(inner); s != nil {
			t.steps = append(t.steps, s)
		}
	}
	return t
}

// path is a path that is written relative to the file's folder.
func (r *reader) path(p string) string {
	if !filepath.IsAbs(p) {
		p = filepath.Join(r.dir, p)
	}
	if absolute, err := filepath.Abs(p); err == nil {
		return absolute
	}
	return p
}

// step reads a step; nil: there is none of that name.
func (r *reader) step(b *hclsyntax.Block) *step {
	k, known := kinds[b.Type]
	if !known {
		r.fault(b.TypeRange, "%v", unknown(fmt.Sprintf("step %q", b.Type), b.Type, kinds))
		return nil
	}
	s := &step{kind: b.Type, at: b.DefRange(), attrs: map[string]attr{}, answers: k.answers}
	r.label(s, k, b)
	if s.kind == "call" && fieldsOf(messageOf(s.label, "Response")) != nil {
		s.answers = messageOf(s.label, "Response")
	}
	if s.kind == "expect" {
		s.expect = r.expected(s, b.Body)
		return s
	}
	for _, a := range r.attributes(b.Body) {
		r.checkAttr(s, k, a)
		if file, is := a.value.(string); is && s.kind == "upgrade" && a.name == "file" {
			a.value = r.path(file)
		}
		s.attrs[a.name] = a
	}
	for _, name := range k.needs {
		if _, has := s.attrs[name]; !has {
			r.fault(b.DefRange(), "%s needs the attribute %s", b.Type, name)
		}
	}
	for _, inner := range b.Body.Blocks {
		switch {
		case inner.Type == "config" && k.config && s.config == nil && len(inner.Labels) == 0:
			s.config = inner.Body
			_, diags := hclvalue.Body(inner.Body, nil)
			r.diags = append(r.diags, diags...)
		case inner.Type == "expect" && !k.silent && s.expect == nil && len(inner.Labels) == 0:
			s.expect = r.expected(s, inner.Body)
			if s.expect == nil {
				r.fault(inner.DefRange(), "nothing is expected here")
			}
		case inner.Type == "config" && k.config || inner.Type == "expect":
			r.fault(inner.DefRange(), "%s has no such block, or has one already", b.Type)
		default:
			r.fault(inner.TypeRange, "%s has no block %q", b.Type, inner.Type)
		}
	}
	return s
}

// label reads a step's label.
func (r *reader) label(s *step, k kind, b *hclsyntax.Block) {
	switch {
	case len(b.Labels) > 1:
		r.fault(b.DefRange(), "%s has at most one label", b.Type)
	case len(b.Labels) == 1 && k.label == nolabel:
		r.fault(b.DefRange(), "%s has no label", b.Type)
	case len(b.Labels) == 1:
		s.label = b.Labels[0]
		if k.checkLabel == nil {
			break
		}
		if err := k.checkLabel(s.label); err != nil {
			r.fault(b.LabelRanges[0], "%v", err)
		}
	case k.label == taskLabel:
		s.label = "task"
	case k.label == needed:
		r.fault(b.DefRange(), "%s needs a label: %s", b.Type, k.example)
	}
}

// attributes are those of a body in the order of the file, evaluated.
func (r *reader) attributes(b *hclsyntax.Body) []attr {
	var out []attr
	for _, a := range b.Attributes {
		v, diags := a.Expr.Value(&hcl.EvalContext{Functions: functions})
		r.diags = append(r.diags, diags...)
		plain, err := hclvalue.Plain(v)
		if err != nil {
			r.fault(a.Expr.Range(), "unsuitable value for %q; %v", a.Name, err)
		}
		out = append(out, attr{a.Name, a.SrcRange, plain})
	}
	slices.SortFunc(out, func(a, b attr) int { return a.at.Start.Byte - b.at.Start.Byte })
	return out
}

// checkAttr checks an attribute of a step.
func (r *reader) checkAttr(s *step, k kind, a attr) {
	of, known := k.attrs[a.name]
	switch {
	case !known && k.message == "":
		r.fault(a.at, "%v", unknown(fmt.Sprintf("attribute %q of %s", a.name, s.kind), a.name, k.attrs))
	case !known && slices.Contains(k.own, a.name):
		r.fault(a.at, "%s of a task is the node's to say", a.name)
	case !known:
		if _, err := encode(k.message, map[string]any{a.name: a.value}); err != nil {
			r.fault(a.at, "%v", err)
		}
	case s.kind == "call" && a.name == "request":
		if fields, is := typed[map[string]any](r, a, "an object"); is {
			if _, err := encode(messageOf(s.label, "Request"), fields); err != nil {
				r.fault(a.at, "%v", err)
			}
		}
	default:
		of(r, a)
	}
}

// expected reads what is expected of a step.
func (r *reader) expected(s *step, b *hclsyntax.Body) []attr {
	for _, inner := range b.Blocks {
		r.fault(inner.TypeRange, "expect has no blocks: write %s = { … }", inner.Type)
	}
	expected := r.attributes(b)
	for _, a := range expected {
		if err := r.checkExpected(s, a); err != nil {
			r.fault(a.at, "%v", err)
		}
	}
	if s.kind == "expect" && len(expected) == 0 {
		r.fault(s.at, "nothing is expected here")
	}
	return expected
}

func (r *reader) checkExpected(s *step, a attr) error {
	switch {
	case s.kind == "expect":
		fact, known := facts[a.name]
		if !known {
			return unknown(fmt.Sprintf("%q of a node", a.name), a.name, facts)
		}
		if fact.message != "" {
			elements, is := matched(a.value).([]any)
			if !is {
				elements = []any{matched(a.value)}
			}
			for _, e := range elements {
				if err := checkNames(matched(e), fieldsOf(fact.message), a.name+"."); err != nil {
					return err
				}
			}
		}
		return nil
	case a.name == "code":
		if text, is := a.value.(string); is && text != "" && codes[text] == 0 {
			return unknown(fmt.Sprintf("code %q", text), text, codes)
		}
		return nil
	case a.name == "error":
		return nil
	case s.answers == "":
		return fmt.Errorf("%s answers nothing: it can be expected to fail, with error or code", s.kind)
	}
	return checkNames(map[string]any{a.name: a.value}, fieldsOf(s.answers), "")
}

// typed is an attribute's value, if it is of that type.
func typed[V any](r *reader, a attr, what string) (V, bool) {
	v, is := a.value.(V)
	if !is {
		r.fault(a.at, "%s is %s", a.name, what)
	}
	return v, is
}

// texts is an attribute's value as a list of texts.
func (r *reader) texts(a attr) (out []string) {
	list, is := typed[[]any](r, a, "a list of texts")
	for _, e := range list {
		text, isText := e.(string)
		if is && !isText {
			r.fault(a.at, "%s is a list of texts", a.name)
			return nil
		}
		out = append(out, text)
	}
	return out
}

// duration is an attribute's value as a time.
func (r *reader) duration(a attr) time.Duration {
	text, is := typed[string](r, a, `a time such as "10s"`)
	if !is {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		r.fault(a.at, `%s is a time such as "10s"`, a.name)
	}
	return d
}
