package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclwrite"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/zclconf/go-cty/cty"
)

// errAllNamespaces is of a command that is about one variable.
var errAllNamespaces = errors.New(`The wildcard namespace ("*") is not valid for this command.`) //nolint:staticcheck // as in Nomad

// varForm is the form in which the commands of variables print.
type varForm struct {
	form, template string
	forms          []string
}

// varForm adds the flags of the form. A terminal has another one by default than a program.
func (m meta) varForm(f *flags, terminal string, forms ...string) *varForm {
	out := &varForm{forms: forms}
	form := "json"
	if isTerminal(os.Stdout) {
		form = terminal
	}
	f.StringVar(&out.form, "out", form, "")
	f.StringVar(&out.template, "template", "", "")
	return out
}

// check says what is wrong with the flags. The options of other commands are other words for it.
func (o *varForm) check(f *flags) error {
	given := false
	f.Visit(func(x *flag.Flag) { given = given || x.Name == "out" })
	if *f.json && !given {
		o.form = "json"
	}
	switch {
	case !slices.Contains(o.forms, o.form):
		return fmt.Errorf(`Invalid value for "-out"; valid values are [%s]`, strings.Join(o.forms, ", ")) //nolint:staticcheck // as in Nomad
	case o.form == "go-template" && o.template == "":
		return errors.New("A template must be supplied using '-template' when using go-template formatting") //nolint:staticcheck // as in Nomad
	case o.form != "go-template" && o.template != "":
		return errors.New("The '-template' flag is only valid when using 'go-template' formatting") //nolint:staticcheck // as in Nomad
	}
	return nil
}

// printTemplate prints with the template of -template.
func (m meta) printTemplate(f *flags, o *varForm, v any) int {
	t, err := template.New("-template").Parse(o.template)
	if err != nil {
		return m.fail(f, err)
	}
	var b strings.Builder
	if err := t.Execute(&b, v); err != nil {
		return m.fail(f, err)
	}
	m.ui.Output(b.String())
	return 0
}

// printVariable prints a variable with its items.
func (m meta) printVariable(f *flags, o *varForm, v *nomad.Variable) int {
	switch {
	case m.templated():
		return m.printJSON(v)
	case o.form == "json":
		m.ui.Output(v.AsPrettyJSON())
	case o.form == "hcl":
		m.ui.Output(variableAsHCL(v))
	case o.form == "go-template":
		return m.printTemplate(f, o, v)
	case o.form == "table":
		m.variableTable(v)
	}
	return 0
}

func (m meta) variableTable(v *nomad.Variable) {
	pairs := [][2]string{{"Namespace", v.Namespace}, {"Path", v.Path}, {"Create Time", stamp(v.CreateTime)}}
	if v.CreateTime != v.ModifyTime {
		pairs = append(pairs, [2]string{"Modify Time", stamp(v.ModifyTime)})
	}
	m.pairs(append(pairs, [2]string{"Check Index", fmt.Sprint(v.ModifyIndex)}))
	m.ui.Output("\nItems")
	var items [][2]string
	for _, key := range slices.Sorted(maps.Keys(v.Items)) {
		items = append(items, [2]string{key, v.Items[key]})
	}
	m.pairs(items)
}

// variableAsHCL is a variable as [decodeVariable] reads it.
func variableAsHCL(v *nomad.Variable) string {
	items := map[string]cty.Value{}
	for key, value := range v.Items {
		items[key] = cty.StringVal(value)
	}
	file := hclwrite.NewEmptyFile()
	body := file.Body()
	body.SetAttributeValue("namespace", cty.StringVal(v.Namespace))
	body.SetAttributeValue("path", cty.StringVal(v.Path))
	body.SetAttributeValue("create_index", cty.NumberUIntVal(v.CreateIndex))
	body.SetAttributeValue("modify_index", cty.NumberUIntVal(v.ModifyIndex))
	body.SetAttributeValue("create_time", cty.NumberIntVal(v.CreateTime))
	body.SetAttributeValue("modify_time", cty.NumberIntVal(v.ModifyTime))
	body.AppendNewline()
	body.SetAttributeValue("items", cty.ObjectVal(items))
	return string(hclwrite.Format(file.Bytes()))
}

// varFile is a file of a variable, but for its items.
type varFile struct {
	Namespace   string   `hcl:"namespace,optional"`
	Path        string   `hcl:"path,optional"`
	CreateIndex uint64   `hcl:"create_index,optional"`
	ModifyIndex uint64   `hcl:"modify_index,optional"`
	CreateTime  int64    `hcl:"create_time,optional"`
	ModifyTime  int64    `hcl:"modify_time,optional"`
	Rest        hcl.Body `hcl:",remain"`
}

// decodeVariable reads a variable in a form.
func decodeVariable(path string, content []byte, form string) (*nomad.Variable, error) {
	if form == "json" {
		v := new(nomad.Variable)
		if err := json.Unmarshal(content, v); err != nil {
			return nil, jsonError(path, content, err)
		}
		return v, nil
	}
	parsed, diags := hclparse.NewParser().ParseHCL(content, path)
	var file varFile
	if !diags.HasErrors() {
		diags = gohcl.DecodeBody(parsed.Body, nil, &file)
	}
	if diags.HasErrors() {
		return nil, diags
	}
	items, diags := textsOf(file.Rest, "items", hasBlock(parsed.Body, "items"))
	if diags.HasErrors() {
		return nil, diags
	}
	return &nomad.Variable{Namespace: file.Namespace, Path: file.Path, ModifyIndex: file.ModifyIndex, Items: items}, nil
}
