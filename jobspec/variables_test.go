package jobspec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// show is the end of a job file that shows what a variable came to, as JSON.
const show = `
job "j" {
  group "g" {
    task "t" {
      config {
        got = jsonencode(var.a)
      }
    }
  }
}
`

func TestVariables(t *testing.T) {
	cases := map[string]struct {
		declared string
		vars     map[string]string
		file     string // a variable file's content
		later    string // that of a second one
		env      []string
		want     string // as JSON
		err      string
	}{
		"default":                    {declared: "variable \"a\" {\n default = 2\n}", want: `2`},
		"default, converted":         {declared: "variable \"a\" {\n type = string\n default = 2\n}", want: `"2"`},
		"default, computed":          {declared: "variable \"a\" {\n default = upper(\"x\")\n}", want: `"X"`},
		"default, null":              {declared: "variable \"a\" {\n type = string\n default = null\n}", want: `null`},
		"default, a list":            {declared: "variable \"a\" {\n type = list(string)\n default = [\"x\", 1]\n}", want: `["x","1"]`},
		"default, of another type":   {declared: "variable \"a\" {\n type = number\n default = \"x\"\n}", err: `job.hcl:3,12: Invalid default value for variable "a"; a number is required.`},
		"default, a bad one unused":  {declared: "variable \"a\" {\n type = number\n default = \"x\"\n}", vars: map[string]string{"a": "1"}, err: `job.hcl:3,12: Invalid default value for variable "a"; a number is required.`},
		"default, from a variable":   {declared: "variable \"a\" {\n default = var.b\n}", err: `job.hcl:2,12: Variables not allowed; Variables may not be used here.`},
		"default, from the node":     {declared: "variable \"a\" {\n default = \"${attr.x}\"\n}", err: `job.hcl:2,15: Variables not allowed; Variables may not be used here.`},
		"description and sensitive":  {declared: "variable \"a\" {\n default = 1\n description = \"d\"\n sensitive = true\n}", want: `1`},
		"shorthand":                  {declared: "variables {\n a = 2\n b = 3\n}", want: `2`},
		"shorthand, given":           {declared: "variables {\n a = 2\n}", vars: map[string]string{"a": "4"}, want: `4`},
		"shorthand, a block":         {declared: "variables {\n a {}\n}", err: `job.hcl:2,2: A variables block has lines of the form name = default, no blocks.`},
		"shorthand, named":           {declared: "variables \"a\" {\n}", err: `job.hcl:1,1: Extraneous label; a variables block has no name.`},
		"no name":                    {declared: "variable {\n}", err: `job.hcl:1,1: A variable block has one label, the variable's name.`},
		"declared twice":             {declared: "variable \"a\" {\n default = 1\n}\nvariables {\n a = 1\n}", err: `job.hcl:5,2: Duplicate variable; "a" is declared at job.hcl:1,1-13 already.`},
		"unknown argument":           {declared: "variable \"a\" {\n defualt = 1\n}", err: "job.hcl:1,1: Unset variable \"a\"; a variable must be set (-var, -var-file or NOMAD_VAR_a) or have a default.\njob.hcl:2,2: Unsupported argument; a variable has no \"defualt\"; did you mean \"default\"?"},
		"unknown block":              {declared: "variable \"a\" {\n default = 1\n check {}\n}", err: `job.hcl:3,2: Unsupported block type; a variable has blocks of type "validation" only.`},
		"unknown type":               {declared: "variable \"a\" {\n type = text\n default = 1\n}", err: `job.hcl:2,9: Invalid type specification; The keyword "text" is not a valid type specification.`},
		"unset":                      {declared: "variable \"a\" {\n}", err: `job.hcl:1,1: Unset variable "a"; a variable must be set (-var, -var-file or NOMAD_VAR_a) or have a default.`},
		"undeclared":                 {declared: "variable \"an\" {\n default = 1\n}", err: `job.hcl:8,26: Undeclared variable "a".`},
		"-var":                       {declared: "variable \"a\" {\n}", vars: map[string]string{"a": "x y"}, want: `"x y"`},
		"-var, a number":             {declared: "variable \"a\" {\n type = number\n}", vars: map[string]string{"a": " 3 "}, want: `3`},
		"-var, as the default":       {declared: "variable \"a\" {\n default = 1\n}", vars: map[string]string{"a": "3"}, want: `3`},
		"-var, no number":            {declared: "variable \"a\" {\n type = number\n}", vars: map[string]string{"a": "x"}, err: `job.hcl:1,1: Invalid value for variable "a"; a number is required (set by -var a).`},
		"-var, a bool":               {declared: "variable \"a\" {\n type = bool\n}", vars: map[string]string{"a": "true"}, want: `true`},
		"-var, a list":               {declared: "variable \"a\" {\n type = list(number)\n}", vars: map[string]string{"a": "[1, 2]"}, want: `[1,2]`},
		"-var, an object":            {declared: "variable \"a\" {\n type = object({ b = string })\n}", vars: map[string]string{"a": "{ b = 1 }"}, want: `{"b":"1"}`},
		"-var, half an object":       {declared: "variable \"a\" {\n type = object({ b = string })\n}", vars: map[string]string{"a": "{}"}, err: `job.hcl:1,1: Invalid value for variable "a"; attribute "b" is required (set by -var a).`},
		"-var, a bad expression":     {declared: "variable \"a\" {\n type = list(number)\n}", vars: map[string]string{"a": "[1"}, err: `-var a:1,1: Unterminated tuple constructor expression; There is no corresponding closing bracket before the end of the file. This may be caused by incorrect bracket nesting elsewhere in this file.`},
		"-var, a reference":          {declared: "variable \"a\" {\n type = list(string)\n}", vars: map[string]string{"a": "[b]"}, err: `-var a:1,2: Variables not allowed; Variables may not be used here.`},
		"-var, undeclared":           {declared: "variables {\n a = 1\n count = 1\n}", vars: map[string]string{"cuont": "1", "zzz": "1"}, err: "Undeclared variable; -var sets \"cuont\", which the job file does not declare; did you mean \"count\"?\nUndeclared variable; -var sets \"zzz\", which the job file does not declare."},
		"file":                       {declared: "variable \"a\" {\n}", file: "a = [1]", want: `[1]`},
		"file, a later one":          {declared: "variable \"a\" {\n}", file: "a = 1", later: "a = 2", want: `2`},
		"file, below -var":           {declared: "variable \"a\" {\n}", file: "a = 1", vars: map[string]string{"a": "2"}, want: `"2"`},
		"file, a bad one":            {declared: "variable \"a\" {\n}", file: "a = ", err: "vars.hcl:1,5: Missing expression; Expected the start of an expression, but found the end of the file.\njob.hcl:1,1: Unset variable \"a\"; a variable must be set (-var, -var-file or NOMAD_VAR_a) or have a default."},
		"file, a block":              {declared: "variables {\n a = 1\n}", file: "a {}", err: `vars.hcl:1,1: A variable file has lines of the form name = value, no blocks.`},
		"file, undeclared":           {declared: "variables {\n count = 1\n}", file: "cuont = 1", err: `vars.hcl:1,1: Undeclared variable; a variable file sets "cuont", which the job file does not declare; did you mean "count"?`},
		"file, of another type":      {declared: "variable \"a\" {\n type = number\n}", file: "a = []", err: `job.hcl:1,1: Invalid value for variable "a"; number required, but have tuple (set by vars.hcl).`},
		"environment":                {declared: "variable \"a\" {\n}", env: []string{"HOME=/", "NOMAD_VAR_a=x=y", "NOMAD_VAR_b=undeclared"}, want: `"x=y"`},
		"environment, below a file":  {declared: "variable \"a\" {\n}", env: []string{"NOMAD_VAR_a=x"}, file: "a = 1", want: `1`},
		"environment, over default":  {declared: "variable \"a\" {\n default = 1\n}", env: []string{"NOMAD_VAR_a=2"}, want: `2`},
		"validation, met":            {declared: "variable \"a\" {\n default = 1\n validation {\n condition = var.a > 0\n error_message = \"no\"\n}\n}", want: `1`},
		"validation, not met":        {declared: "variable \"a\" {\n default = 0\n validation {\n condition = var.a > 0\n error_message = \"a is ${var.a}, which is not positive.\"\n}\n}", err: `job.hcl:1,1: Invalid value for variable "a"; a is 0, which is not positive.`},
		"validation, second not met": {declared: "variable \"a\" {\n default = 1\n validation {\n condition = true\n error_message = \"1\"\n}\nvalidation {\n condition = false\n error_message = \"2.\"\n}\n}", err: `job.hcl:1,1: Invalid value for variable "a"; 2.`},
		"validation, no condition":   {declared: "variable \"a\" {\n default = 0\n validation {}\n}", err: `job.hcl:3,2: A validation block has a condition and an error_message.`},
		"validation, a number":       {declared: "variable \"a\" {\n default = 0\n validation {\n condition = 1\n error_message = \"no\"\n}\n}", err: `job.hcl:4,2: A condition has to be true or false.`},
		"validation, of another":     {declared: "variable \"a\" {\n default = 0\n validation {\n condition = var.b\n error_message = \"no\"\n}\n}", err: `job.hcl:4,14: Undeclared variable "b".`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := Options{Path: "job.hcl", Content: []byte(c.declared + show), Vars: c.vars, Env: c.env}
			for _, content := range []string{c.file, c.later} {
				if content != "" {
					o.VarFiles = append(o.VarFiles, File{"vars.hcl", []byte(content)})
				}
			}
			job, err := Parse(o)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.JSONEq(t, c.want, job.TaskGroups[0].Tasks[0].Config["got"].(string))
		})
	}
}

func TestLocals(t *testing.T) {
	cases := map[string]struct {
		declared string
		want     string // local.a, as JSON
		err      string
	}{
		"constant":            {declared: "locals {\n a = 1\n}", want: `1`},
		"in any order":        {declared: "locals {\n a = local.b + 1\n b = local.c + 1\n}\nlocals {\n c = 1\n}", want: `3`},
		"by index":            {declared: "locals {\n a = local[\"b\"]\n b = 1\n}", want: `1`},
		"from a variable":     {declared: "variables {\n v = \"x\"\n}\nlocals {\n a = \"${var.v}y\"\n}", want: `"xy"`},
		"what the node knows": {declared: "locals {\n a = \"${attr.x}-${NOMAD_ALLOC_ID}\"\n}", want: `"${attr.x}-${NOMAD_ALLOC_ID}"`},
		"from itself":         {declared: "locals {\n a = local.a\n}", err: `job.hcl:2,2: Local value "a" needs itself, or another that does.`},
		"in a circle":         {declared: "locals {\n a = local.b\n b = local.a\n c = 1\n}", err: "job.hcl:2,2: Local value \"a\" needs itself, or another that does.\njob.hcl:3,2: Local value \"b\" needs itself, or another that does."},
		"from all":            {declared: "locals {\n a = keys(local)\n}", err: `job.hcl:2,2: Local value "a" needs itself, or another that does.`},
		"twice":               {declared: "locals {\n a = 1\n}\nlocals {\n a = 2\n}", err: `job.hcl:5,2: Duplicate local value; "a" is set at job.hcl:2,2-3 already.`},
		"a block":             {declared: "locals {\n a {}\n}", err: `job.hcl:2,2: A locals block has lines of the form name = value, no blocks.`},
		"named":               {declared: "locals \"x\" {\n a = 1\n}", err: `job.hcl:1,1: Extraneous label; a locals block has no name.`},
		"undeclared":          {declared: "locals {\n a = local.bb\n bbb = 1\n}", err: `job.hcl:2,6: Undeclared local value "bb"; did you mean "bbb"?`},
		"misspelt":            {declared: "locals {\n a = local.coutn\n count = 1\n}", err: `job.hcl:2,6: Undeclared local value "coutn"; did you mean "count"?`},
		"from no variable":    {declared: "locals {\n a = var.x\n}", err: `job.hcl:2,6: Undeclared variable "x".`},
		"tried":               {declared: "locals {\n a = try(var.x, 1)\n}", want: `1`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			job, err := parse(c.declared + "\n" + inTask("config {\n got = jsonencode(local.a)\n}"))
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.JSONEq(t, c.want, job.TaskGroups[0].Tasks[0].Config["got"].(string))
		})
	}
}
