package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// maxVarInput bounds a file of a variable, and what is piped in: a variable has 64 KiB at most,
// and JSON may take six bytes for one.
const maxVarInput = 1 << 20

type varPutCommand struct{ meta }

// Synopsis implements [subcommand].
func (*varPutCommand) Synopsis() string { return "Make a variable, or change one" }

// Help implements [subcommand].
func (*varPutCommand) Help() string {
	return `Usage: wasmnode var put [options] PATH|@FILE|- [@FILE|-] [KEY=VALUE...]

  Makes a variable at a path, or takes the place of the one that is there: of what it
  had, only what is given again stays. It can come from a file ("var init" writes an
  example), from standard input, from KEY=VALUE, or from a file with some of its items
  replaced. A VALUE of @FILE is what is in the file, - is standard input, \@ begins
  one with an @; an empty one leaves the item out.

  A variable that was changed by somebody else meanwhile stays as it is: one that is
  there is changed only with the index that it has, from its file or -check-index, or
  with -force.

Options:

  -check-index=N   The index that the variable has to have; 0: it must not be there.
  -force           Change it whatever its index.
  -in=FORM         hcl or json: the form of what is read from standard input.
  -out=FORM        go-template, hcl, json, none or table. Without it, none for a
                   terminal and json for anything else.
  -template=TEXT   The template of -out=go-template.` + commonOptions
}

// Run implements [subcommand].
func (c *varPutCommand) Run(args []string) int {
	f := c.flags("var put")
	out := c.varForm(f, "none", "go-template", "hcl", "json", "none", "table")
	checkIndex, force, in := f.String("check-index", "", ""), f.Bool("force", false, ""), f.String("in", "json", "")
	if !c.parse(f, args, 1, 1000, c.Help()) {
		return 1
	}
	if err := out.check(f); err != nil {
		return c.fail(f, err)
	}
	v, err := c.readVariable(f, *in)
	if err != nil {
		return c.fail(f, err)
	}
	if *checkIndex != "" {
		if v.ModifyIndex, err = strconv.ParseUint(*checkIndex, 10, 64); err != nil {
			return c.fail(f, fmt.Errorf("-check-index %q is not an index", *checkIndex))
		}
	}
	client, err := c.client(f)
	if err != nil {
		return c.fail(f, err)
	}
	put := client.Variables().CheckedUpdate
	if *force {
		put = client.Variables().Update
	}
	made, _, err := put(v, nil)
	if err != nil {
		return c.failChecked(f, client, v.Path, err)
	}
	if out.form == "none" {
		c.ui.Output(fmt.Sprintf("Created variable %q with modify index %d", made.Path, made.ModifyIndex))
		return 0
	}
	return c.printVariable(f, out, made)
}

// readVariable is the variable that the arguments describe.
func (c *varPutCommand) readVariable(f *flags, in string) (*nomad.Variable, error) {
	if in != "hcl" && in != "json" {
		return nil, errors.New(`Invalid value for "-in"; valid values are [hcl, json]`) //nolint:staticcheck // as in Nomad
	}
	if f.namespace == "*" {
		return nil, errAllNamespaces
	}
	input := &varInput{stdin: os.Stdin, form: in}
	rest, path := f.Args(), ""
	if !isReference(rest[0]) {
		path, rest = strings.Trim(strings.TrimSpace(rest[0]), "/"), rest[1:]
	}
	v := &nomad.Variable{}
	switch {
	case len(rest) == 0:
		return nil, errors.New("Must supply data") //nolint:staticcheck // as in Nomad
	case isReference(rest[0]):
		var err error
		if v, err = input.variable(rest[0]); err != nil {
			return nil, err
		}
		rest = rest[1:]
	}
	if v.Items == nil {
		v.Items = nomad.VariableItems{}
	}
	// What goes elsewhere than its file says is another variable, and has no index yet.
	if path != "" && path != v.Path || f.namespace != "" && f.namespace != v.Namespace {
		v.ModifyIndex = 0
	}
	v.Path, v.Namespace = cmp.Or(path, v.Path), cmp.Or(f.namespace, v.Namespace)
	return v, c.setItems(v.Items, input, rest)
}

// setItems adds items of the form KEY=VALUE, and takes out those that have no value.
func (c *varPutCommand) setItems(items nomad.VariableItems, input *varInput, pairs []string) error {
	given := map[string]bool{}
	for _, pair := range pairs {
		key, value, is := strings.Cut(pair, "=")
		if !is {
			return fmt.Errorf("%q is not of the form KEY=VALUE", pair)
		}
		if given[key] {
			return fmt.Errorf("%q is given twice", key)
		}
		given[key] = true
		value, err := input.value(value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if value == "" {
			delete(items, key)
			continue
		}
		items[key] = value
		if odd := oddInKey.FindAllString(key, -1); len(odd) > 0 {
			slices.Sort(odd)
			c.ui.Warn(fmt.Sprintf("%q contains characters %q that require the 'index' function for direct access in templates", key, slices.Compact(odd)))
		}
	}
	return nil
}

// oddInKey are the characters by which a template cannot name an item as a field.
var oddInKey = regexp.MustCompile(`[^_\pN\pL]`)

// isReference reports whether an argument names where something is read from.
func isReference(arg string) bool { return arg == "-" || strings.HasPrefix(arg, "@") }

// varInput is where variables and their values are read from.
type varInput struct {
	stdin io.Reader
	form  string // of a variable from there
	used  bool
}

// variable reads a whole variable from @FILE, or - for standard input.
func (i *varInput) variable(source string) (*nomad.Variable, error) {
	path, form := "-", i.form
	if source != "-" {
		path = source[1:]
		switch filepath.Ext(path) {
		case ".json":
			form = "json"
		case ".hcl":
			form = "hcl"
		default:
			return nil, fmt.Errorf("Unable to determine format of %s: its name ends in .hcl or .json", path) //nolint:staticcheck // as in Nomad
		}
	}
	content, err := i.read(path)
	if err != nil {
		return nil, err
	}
	return decodeVariable(path, content, form)
}

// value is a value as it was given, or what is in a file or piped in.
func (i *varInput) value(text string) (string, error) {
	switch {
	case text == "-":
		content, err := i.read("-")
		return string(content), err
	case strings.HasPrefix(text, "@"):
		content, err := i.read(text[1:])
		return string(content), err
	}
	if strings.HasPrefix(text, `\@`) {
		return text[1:], nil
	}
	return text, nil
}

// read reads a file, or "-": standard input, which can be read once.
func (i *varInput) read(path string) (content []byte, err error) {
	from := i.stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		from = file
	} else if i.used {
		return nil, errors.New("standard input was read already")
	} else {
		i.used = true
	}
	content, err = io.ReadAll(io.LimitReader(from, maxVarInput+1))
	if err == nil && len(content) > maxVarInput {
		err = fmt.Errorf("%s has more than %d bytes", path, maxVarInput)
	}
	return content, err
}
