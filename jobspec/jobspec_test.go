package jobspec

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/configschema"
)

// parse reads a file of that content.
func parse(content string) (*nomad.Job, error) {
	return Parse(Options{Path: "job.hcl", Content: []byte(content)})
}

// inJob makes a job file of what is in the job block.
func inJob(content string) string { return "job \"j\" {\n" + content + "\n}\n" }

// inTask makes a job file of what is in the block of its one task; it begins on line 4.
func inTask(content string) string {
	return inJob("group \"g\" {\ntask \"t\" {\n" + content + "\n}\n}")
}

// onlyTask returns the task of a file made by [inTask].
func onlyTask(t *testing.T, content string) *nomad.Task {
	t.Helper()
	job, err := parse(content)
	require.NoError(t, err)
	require.Len(t, job.TaskGroups, 1)
	require.Len(t, job.TaskGroups[0].Tasks, 1)
	return job.TaskGroups[0].Tasks[0]
}

// configOf returns the task's config as JSON.
func configOf(t *testing.T, content string) string {
	t.Helper()
	text, err := json.Marshal(onlyTask(t, content).Config)
	require.NoError(t, err)
	return string(text)
}

func TestEveryFaultIsOneLineWithItsPlace(t *testing.T) {
	cases := map[string]struct {
		content string
		want    string
	}{
		"empty":             {"", "job.hcl:1,1: Missing job block; a job file has exactly one."},
		"no job":            {"variable \"a\" {\n default = 1\n}\n", "job.hcl:1,1: Missing job block; a job file has exactly one."},
		"two jobs":          {"job \"a\" {}\njob \"b\" {}\n", "job.hcl:2,1: Duplicate job block; a file has one, the first is at job.hcl:1,1-4."},
		"a job of no name":  {"job {}\n", `job.hcl:1,1: A job block has one label, the job's ID: job "example" { … }.`},
		"a job of two":      {"job \"a\" \"b\" {}\n", `job.hcl:1,1: A job block has one label, the job's ID: job "example" { … }.`},
		"misspelt at top":   {"jop \"a\" {}\njob \"b\" {}\n", `job.hcl:1,1: Unsupported block type; blocks of type "jop" are not expected here; did you mean "job"?`},
		"argument at top":   {"count = 1\njob \"a\" {}\n", `job.hcl:1,1: Unsupported argument; an argument named "count" is not expected here.`},
		"syntax: brace":     {"job \"a\" {\n", `job.hcl:1,9: Unclosed configuration block; There is no closing brace for this block before the end of the file. This may be caused by incorrect brace nesting elsewhere in this file.`},
		"syntax: value":     {inTask("driver ="), `job.hcl:4,9: Invalid expression; Expected the start of an expression, but found an invalid expression token.`},
		"syntax: quote":     {inTask("driver = \"wasi"), `job.hcl:4,15: Invalid multi-line string; Quoted strings may not be split over multiple lines. To produce a multi-line string, either use the \n escape to represent a newline character or use the "heredoc" multi-line template syntax.`},
		"syntax: colon":     {inTask("driver: \"wasi\""), `job.hcl:4,1: Argument or block definition required; An argument or block definition is required here. To set an argument, use the equals sign "=" to introduce the argument value.`},
		"syntax: twice":     {inTask("driver = \"a\"\ndriver = \"b\""), `job.hcl:5,1: Attribute redefined; The argument "driver" was already set at job.hcl:4,1-7. Each argument may be set only once.`},
		"misspelt argument": {inTask("drivr = \"wasi\""), `job.hcl:4,1: Unsupported argument; an argument named "drivr" is not expected here; did you mean "driver"?`},
		"misspelt block":    {inTask("resource {}"), `job.hcl:4,1: Unsupported block type; blocks of type "resource" are not expected here; did you mean "resources"?`},
		"unlike anything":   {inTask("zzzzzz = 1"), `job.hcl:4,1: Unsupported argument; an argument named "zzzzzz" is not expected here.`},
		"mistyped":          {inJob("priority = \"high\""), `job.hcl:2,12: Unsuitable value; a number is required.`},
		"not whole":         {inJob("priority = 1.5"), `job.hcl:2,12: Unsuitable value; value must be a whole number, between -9223372036854775808 and 9223372036854775807.`},
		"mistyped block":    {inTask("config = \"a\""), `job.hcl:4,10: Unsuitable value type; a map is required: { name = value }.`},
		"mistyped env":      {inTask("env {\nA = [1]\n}"), `job.hcl:5,5: Unsuitable value; string required, but have tuple.`},
		"block in env":      {inTask("env {\nA {}\n}"), `job.hcl:5,1: Unsupported block type; env holds names and values, no blocks.`},
		"infinite":          {inTask("config {\na = 1e999\n}"), `job.hcl:5,5: Unsuitable value; the number is too large.`},
		"unknown function":  {inTask("driver = uper(\"a\")"), `job.hcl:4,10: Call to unknown function; There is no function named "uper". Did you mean "upper"?`},
		"wrong argument":    {inTask("driver = upper([])"), `job.hcl:4,16: Invalid function argument; Invalid value for "str" parameter: string required, but have tuple.`},
		"unknown variable":  {inTask("driver = var.a"), `job.hcl:4,10: Undeclared variable "a".`},
		"unknown local":     {inTask("driver = local.a"), `job.hcl:4,10: Undeclared local value "a".`},

		"no label":         {inJob("group {}"), `job.hcl:2,1: Missing label; a group block has a name before its brace: group "example" { … }.`},
		"labels too many":  {inJob("group \"a\" \"b\" {}"), `job.hcl:2,1: Extraneous label; a group block has one name.`},
		"label on none":    {inTask("resources \"a\" {}"), `job.hcl:4,1: Extraneous label; a resources block has no name.`},
		"label on config":  {inTask("config \"a\" {}"), `job.hcl:4,1: Extraneous label; a config block has no name.`},
		"label on vault":   {inJob("vault \"a\" {}"), `job.hcl:2,1: Extraneous label; a vault block has no name.`},
		"volume, no label": {inJob("group \"g\" {\nvolume {}\n}"), `job.hcl:3,1: Missing label; a volume block has a name before its brace: volume "example" { … }.`},
		"task, no label":   {inJob("task {}"), `job.hcl:2,1: Missing label; a task block has a name before its brace: task "example" { … }.`},

		"two groups":        {inJob("group \"g\" {}\ngroup \"g\" {}"), `job.hcl:3,1: Duplicate group "g"; the first is at job.hcl:2,1-6.`},
		"two tasks":         {inJob("group \"g\" {\ntask \"t\" {}\ntask \"t\" {}\n}"), `job.hcl:4,1: Duplicate task "t"; the first is at job.hcl:3,1-5.`},
		"two loose tasks":   {inJob("task \"t\" {}\ntask \"t\" {}"), `job.hcl:3,1: Duplicate task "t"; the first is at job.hcl:2,1-5.`},
		"group and task":    {inJob("task \"t\" {}\ngroup \"t\" {}"), `job.hcl:3,1: Duplicate group "t"; the first is at job.hcl:2,1-5.`},
		"two resources":     {inTask("resources {}\nresources {}"), `job.hcl:5,1: Duplicate resources block; only one is allowed, the first is at job.hcl:4,1-10.`},
		"two configs":       {inTask("config {}\nconfig {}"), `job.hcl:5,1: Duplicate config block; only one is allowed, the first is at job.hcl:4,1-7.`},
		"two envs":          {inTask("env {}\nenv {}"), `job.hcl:5,1: Duplicate env block; only one is allowed, the first is at job.hcl:4,1-4.`},
		"env in both forms": {inTask("env = {}\nenv {}"), `job.hcl:5,1: Duplicate env block; only one is allowed, the first is at job.hcl:4,1-4.`},
		"two vaults":        {inJob("vault {}\nvault {}"), `job.hcl:3,1: Duplicate vault block; only one is allowed.`},
		"two volumes":       {inJob("group \"g\" {\nvolume \"v\" {}\nvolume \"v\" {}\n}"), `job.hcl:4,1: Duplicate volume block; there is one named "v" already.`},
		"config, both":      {inTask("config {\na = 1\na {}\n}"), `job.hcl:6,1: Duplicate "a"; it is an argument already, at job.hcl:5,1-2.`},

		"group scaling without max": {inJob("group \"g\" {\nscaling {}\n}"), `job.hcl:3,1: Missing argument; a scaling block has a "max".`},
		"task scaling without max":  {inTask("scaling \"cpu\" {}"), `job.hcl:4,1: Missing argument; a scaling block has a "max".`},
		"task scaling of no name":   {inTask("scaling {\nmax = 1\n}"), `job.hcl:4,1: A task's scaling block is named "cpu" or "mem".`},
		"task scaling misnamed":     {inTask("scaling \"disk\" {\nmax = 1\n}"), `job.hcl:4,1: A task's scaling block is named "cpu" or "mem".`},
		"task scaling twice":        {inTask("scaling \"cpu\" {\nmax = 1\n}\nscaling \"cpu\" {\nmax = 2\n}"), `job.hcl:7,1: Duplicate scaling "cpu" block.`},
		"group scaling named":       {inJob("group \"g\" {\nscaling \"cpu\" {\nmax = 1\n}\n}"), `job.hcl:3,1: Extraneous label; a group's scaling block has no name.`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := parse(c.content)
			require.EqualError(t, err, c.want)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Len(t, e.Faults, 1)
		})
	}
}

func TestEveryFaultOfAJobFileIsReported(t *testing.T) {
	_, err := parse(inJob("priority = \"high\"\ngrup \"g\" {}\ngroup \"h\" {\ncount = true\n}"))
	require.EqualError(t, err, strings.Join([]string{
		`job.hcl:2,12: Unsuitable value; a number is required.`,
		`job.hcl:3,1: Unsupported block type; blocks of type "grup" are not expected here; did you mean "group"?`,
		`job.hcl:5,9: Unsuitable value; number required, but have bool.`,
	}, "\n"))
}

func TestManyFaultsAreCutShort(t *testing.T) {
	for _, n := range []int{MaxFaults, MaxFaults + 1} {
		_, err := parse(inJob(strings.Repeat("grup {}\n", n)))
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Len(t, e.Faults, n)
		lines := strings.Split(err.Error(), "\n")
		if n == MaxFaults {
			require.Len(t, lines, MaxFaults)
			continue
		}
		require.Equal(t, "(and 1 more)", lines[MaxFaults])
	}
}

func TestDurations(t *testing.T) {
	cases := map[string]struct {
		value string
		want  string // "": unset
		err   string
	}{
		"text":       {value: `"1h30m"`, want: "1h30m0s"},
		"number":     {value: `1500000000`, want: "1.5s"},
		"negative":   {value: `"-5s"`, want: "-5s"}, // whoever registers the job decides
		"null":       {value: `null`},
		"no unit":    {value: `"30"`, err: `job.hcl:4,16: Unsuitable duration value; a duration looks like "30s", "5m" or "1h30m".`},
		"a list":     {value: `[]`, err: `job.hcl:4,16: Unsuitable duration value; a duration looks like "30s", "5m" or "1h30m".`},
		"fraction":   {value: `1.5`, err: `job.hcl:4,16: Unsuitable duration value; a duration looks like "30s", "5m" or "1h30m".`},
		"too large":  {value: `1e30`, err: `job.hcl:4,16: Unsuitable duration value; a duration looks like "30s", "5m" or "1h30m".`},
		"unresolved": {value: `var.a`, err: `job.hcl:4,16: Undeclared variable "a".`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			content := inTask("kill_timeout = " + c.value)
			if c.err != "" {
				_, err := parse(content)
				require.EqualError(t, err, c.err)
				return
			}
			task := onlyTask(t, content)
			if c.want == "" {
				require.Nil(t, task.KillTimeout)
				return
			}
			require.Equal(t, c.want, task.KillTimeout.String())
		})
	}
}

// checkExample checks a config block with the schema of an example driver, where that is a file.
func checkExample(driver string, config map[string]any) ([]string, error) {
	text, err := os.ReadFile(filepath.Join("../guest-examples/drivers", driver, "task_schema.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	schema, err := configschema.Compile(string(text))
	if err != nil {
		return nil, err
	}
	if _, err := schema.Check("config", config); err != nil {
		return []string{err.Error()}, nil
	}
	return nil, nil
}

func TestExampleJobsParse(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*", "shop/*"} {
		found, err := filepath.Glob("../guest-examples/jobs/" + pattern + ".nomad.hcl")
		require.NoError(t, err)
		require.NotEmpty(t, found)
		files = append(files, found...)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			vars := map[string]string{}
			if strings.Contains(string(content), `variable "programs"`) {
				vars["programs"] = "/there"
			}
			job, err := Parse(Options{Path: path, Content: content, Vars: vars})
			require.NoError(t, err)
			require.Equal(t, strings.TrimSuffix(filepath.Base(path), ".nomad.hcl"), *job.ID)
			if len(vars) > 0 {
				require.Contains(t, job.TaskGroups[0].Tasks[0].Config["module"], "/there/")
			}
			faults, unchecked := DriverFaults(job, checkExample)
			require.Empty(t, append(faults, unchecked...))
		})
	}
}
