package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/jobspec"
)

// wants checks that a command ended with a code and one line on standard error, of
// which a pattern is known.
func wants(t *testing.T, r result, code int, pattern string) {
	t.Helper()
	assert.Equal(t, code, r.code)
	require.Regexp(t, `^Error: `+pattern+`\n$`, r.stderr)
	assert.Equal(t, 1, strings.Count(r.stderr, "\n"), "one line: %s", r.stderr)
}

// group is a job file's text with one group of that text.
func group(text string) string {
	return "job \"bad\" {\n  group \"g\" {\n" + text + "\n  }\n}\n"
}

// task is a job file's text with one task of that driver and configuration.
func task(driver, config string) string {
	return group(fmt.Sprintf("    task \"t\" {\n      driver = %q\n      config {\n%s\n      }\n    }", driver, config))
}

// wantsFault checks that a command ended with exit code 1 and one fault on standard error: a
// line of which a pattern is known, and what of the file that is about.
func wantsFault(t *testing.T, r result, file, pattern, excerpt string) {
	t.Helper()
	line, rest, _ := strings.Cut(r.stderr, "\n")
	wants(t, result{r.code, r.stdout, line + "\n"}, 1, strings.ReplaceAll(pattern, "FILE", regexp.QuoteMeta(file)))
	assert.Equal(t, excerpt, strings.TrimSuffix(rest, "\n"))
}

func TestJobFilesThatAreWrong(t *testing.T) {
	n := newSite(t).start(t)
	mock := "    task \"t\" {\n      driver = \"mock_driver\"\n    }"
	for name, c := range map[string]struct{ text, want, excerpt string }{
		"syntax error": {group("    count = = 2"), `FILE:3,13: Invalid expression; .*`, `
  3 |     count = = 2
    |             ^`},
		"unclosed block": {"job \"bad\" {\n  group \"g\" {\n", `FILE:2,13: Unclosed configuration block; .*`, `
  2 |   group "g" {
    |             ^`},
		"nothing": {"", `FILE:1,1: Missing job block; a job file has exactly one\.`, ``},
		"unknown field": {group("\tcuont = 2 # \x1b[31m\n" + mock), `FILE:3,2: Unsupported argument; .*"cuont".*did you mean "count"\?`, `
  3 |     cuont = 2 # \u001b[31m
    |     ^^^^^`},
		"unknown block": {"job \"bad\" {\n  gruop \"g\" {\n  }\n}\n", `FILE:2,3: Unsupported block type; .*"gruop".*did you mean "group"\?`, `
  2 |   gruop "g" {
    |   ^^^^^`},
		"type error": {group("    count = \"many\"\n" + mock), `FILE:3,13: Unsuitable value; a number is required\.`, `
  3 |     count = "many"
    |             ^^^^^^`},
		"duplicate tasks": {group(mock + "\n" + mock), `FILE:6,5: Duplicate task "t"; the first is at FILE:3,5-9\.`, `
  6 |     task "t" {
    |     ^^^^`},
		"undeclared variable": {task("${var.who}", ""), `FILE:4,19: Undeclared variable "who"\.`, `
  4 |       driver = "${var.who}"
    |                   ^^^^^^^`},
		"unset variable": {"variable \"who\" { type = string }\n" + task("${var.who}", ""), `FILE:1,1: Unset variable "who"; .*-var.*`, `
  1 | variable "who" { type = string }
    | ^^^^^^^^^^^^^^`},
		"a volume": {group("    volume \"d\" {\n      type = \"host\"\n    }\n" + mock), `FILE:3,5: group "g": volume "d": source: volume has an empty source`, `
  3 |     volume "d" {
    |     ^^^^^^^^^^`},
		"negative count": {group("    count = -3\n" + mock), `FILE:3,5: group "g": count: .*can't be negative: it is -3`, `
  3 |     count = -3
    |     ^^^^^^^^^^`},
		"no group": {"job \"bad\" {\n}\n", `FILE:1,1: Missing job task groups`, `
  1 | job "bad" {
    | ^^^^^^^^^`},
		"no task": {group(""), `FILE:2,3: group "g": Missing tasks for group`, `
  2 |   group "g" {
    |   ^^^^^^^^^`},
		"no driver": {group("    task \"t\" {\n    }"), `FILE:3,5: group "g": task "t": driver: Missing task driver`, `
  3 |     task "t" {
    |     ^^^^^^^^`},
		"a long line": {group("    meta = { a = \"" + strings.Repeat("a", 99) + "\", b = c() }"), `FILE:3,\d+: Call to unknown function; There is no function named "c".*`, `
  3 | …` + strings.Repeat("a", 53) + `", b = c() }
    | ` + strings.Repeat(" ", 61) + `^`},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, filepath.Join(t.TempDir(), "bad.nomad.hcl"), c.text)
			for command, code := range map[string]int{"run": 1, "plan": 255, "validate": 1} {
				r := n.run(t, "job", command, file)
				assert.Equal(t, code, r.code)
				r.code = 1
				wantsFault(t, r, file, c.want, strings.TrimPrefix(c.excerpt, "\n"))
				assert.Empty(t, r.stdout)
			}
		})
	}
	assert.Equal(t, "No running jobs\n", n.out(t, "job", "status"), "none of them was registered")
}

func TestEveryFaultOfAJobIsALine(t *testing.T) {
	n := newSite(t).start(t)
	file := write(t, filepath.Join(t.TempDir(), "bad.nomad.hcl"),
		group("    task \"t\" {\n      driver = \"mock_driver\"\n      resources {\n        cpu = -5\n        memory = 1\n      }\n    }"))
	for _, command := range []string{"run", "validate"} {
		r := n.run(t, "job", command, file)
		assert.Equal(t, result{1, "", fmt.Sprintf(`Error: %[1]s:6,9: group "g": task "t": resources: cpu: minimum CPU value is 1; got -5
  6 |         cpu = -5
    |         ^^^^^^^^
Error: %[1]s:7,9: group "g": task "t": resources: memory: minimum MemoryMB value is 10; got 1
  7 |         memory = 1
    |         ^^^^^^^^^^
`, file)}, r)
	}
}

func TestFaultsAreCutShort(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "bad.nomad.hcl"), "job \"bad\" {\n"+strings.Repeat("grup {}\n", jobspec.MaxFaults+2)+"}\n")
	r := command(t, "", "job", "run", file)
	assert.Equal(t, 3*jobspec.MaxFaults+1, strings.Count(r.stderr, "\n"))
	assert.True(t, strings.HasSuffix(r.stderr, "\n(and 2 more)\n"), r.stderr)
}

func TestJobsInJSONThatAreWrong(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want, excerpt string }{
		"not JSON":  {"{\n  job\n}\n", `FILE:2,3: invalid character 'j' .*`, "  2 |   job\n    |   ^"},
		"mistyped":  {"{\"Job\": {\n  \"ID\": 5\n}}\n", `FILE:2,9: Job.ID cannot be a number`, "  2 |   \"ID\": 5\n    |         ^"},
		"no job":    {"{}", `FILE: no job: the file has the form \{"Job": \{ … \}\}`, ""},
		"truncated": {`{"Job": {`, `FILE:1,9: unexpected end of JSON input`, "  1 | {\"Job\": {\n    |         ^"},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, filepath.Join(dir, "bad.json"), c.text)
			wantsFault(t, command(t, "", "job", "run", file), file, c.want, c.excerpt)
		})
	}
}

// TestTasksThatNoDriverTakes are jobs of which only a driver can say what is wrong.
func TestTasksThatNoDriverTakes(t *testing.T) {
	s := newSite(t, "wasi")
	n := s.start(t)
	for name, c := range map[string]struct {
		text string
		code int
		want string
	}{
		"unknown driver": {task("nope", ""), 2, `job "bad" is registered, but not all of it could be placed: group "g": task "t" needs driver "nope", which no healthy plugin provides \(see wasmnode plugin status\)`},
		"unknown field":  {task("wasi", "module = \"a.wasm\"\nmodlue = \"a.wasm\""), 1, `.*config\.modlue: unknown field, did you mean "module"\? .*`},
		"missing field":  {task("wasi", "args = []"), 1, `.*config\.module: missing .*`},
		"mistyped field": {task("wasi", "module = [\"a.wasm\"]"), 1, `.*config\.module: a list, want a string .*`},
		"missing module": {task("wasi", "module = \"local/none.wasm\""), 1, `.*local/none\.wasm.* .*`},
		"not granted":    {task("wasi", "module = \"/etc/passwd\""), 1, `.*/etc/passwd.*grant.*`},
	} {
		t.Run(name, func(t *testing.T) {
			r := n.runJob(t, write(t, filepath.Join(t.TempDir(), "bad.nomad.hcl"), c.text))
			wants(t, r, c.code, c.want)
			if c.code == 1 {
				assert.Regexp(t, `^Error: allocation "[0-9a-f]{8}" is failed: task "t": .* \(see wasmnode alloc status [0-9a-f]{8}\)\n$`, r.stderr)
			}
			n.out(t, "job", "stop", "-purge", "bad")
		})
	}
	file := write(t, filepath.Join(t.TempDir(), "bad.nomad.hcl"), task("wasi", "modlue = \"a.wasm\"\nargs = [[], \"${meta.arg}\"]\nenv = 1"))
	assert.Equal(t, result{1, "", fmt.Sprintf(`Error: %[1]s:5,7: group "g": task "t": config.module: missing
  5 |       config {
    |       ^^^^^^
Error: %[1]s:6,1: group "g": task "t": config.modlue: unknown field, did you mean "module"?
  6 | modlue = "a.wasm"
    | ^^^^^^^^^^^^^^^^^
Error: %[1]s:8,1: group "g": task "t": config.env: unknown field
  8 | env = 1
    | ^^^^^^^
`, file)}, n.run(t, "job", "validate", file))
	warning := `\* ` + regexp.QuoteMeta(file) + `:6,1: group "g": task "t": config\.modlue: unknown field, did you mean "module"\? \(the task cannot start with this\)\n`
	assert.Regexp(t, warning, n.run(t, "job", "plan", file).stderr)
	assert.Regexp(t, warning, n.run(t, "job", "run", "-detach", file).stderr)
	n.out(t, "job", "stop", "-purge", "bad")
	documented(t, n, "wasi", filepath.Join(s.plugins, "wasi.wasm"))
	good := writeJob(t, "good", "batch", "wasi", fmt.Sprintf("module = %q", s.program(t, "exit")))
	n.out(t, "job", "run", good)
	n.await(t, "good", "complete")
}

// TestAJobIsValidatedWithTheDriversInADirectory: no node is there.
func TestAJobIsValidatedWithTheDriversInADirectory(t *testing.T) {
	w := newWorkshop(t, "mock", "wasi")
	write(t, filepath.Join(w.dir, "broken.wasm"), "\x00asm")
	write(t, filepath.Join(w.dir, "notes.txt"), "no plugin")
	for name, c := range map[string]struct {
		text   string
		code   int
		stdout string
		stderr string
	}{
		"good":         {task("mock_driver", "run_for = \"1s\""), 0, "Job validation successful\n", ""},
		"a reference":  {task("mock_driver", "exit_code = \"${meta.code}\""), 0, "Job validation successful\n", ""},
		"wrong config": {task("mock_driver", "run_fro = \"1s\""), 1, "", "Error: FILE:6,1: group \"g\": task \"t\": config.run_fro: unknown field, did you mean \"run_for\"?\n  6 | run_fro = \"1s\"\n    | ^^^^^^^^^^^^^^\n"},
		"wrong shape":  {task("wasi", "module = \"a\"\nargs \"x\" {\n}"), 1, "", "Error: FILE:7,1: group \"g\": task \"t\": config.args: a block or a map, want a list of strings\n  7 | args \"x\" {\n    | ^^^^^^^^\n"},
		"wrong job":    {group("    count = -3\n    task \"t\" {\n      driver = \"mock_driver\"\n    }"), 1, "", "Error: FILE:3,5: group \"g\": count: Task group count can't be negative: it is -3\n  3 |     count = -3\n    |     ^^^^^^^^^^\n"},
		"no driver":    {task("nope", ""), 0, "Job validation successful\n", "Job Warnings:\n1 warning:\n\n* FILE:3,5: group \"g\": task \"t\": its config was not checked: no file in . is the driver \"nope\"\n"},
		"no plugin":    {task("broken", ""), 0, "Job validation successful\n", "Job Warnings:\n1 warning:\n\n* FILE:3,5: group \"g\": task \"t\": its config was not checked: broken.wasm: scan: offset 0"},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, filepath.Join(t.TempDir(), "bad.nomad.hcl"), c.text)
			r := w.run(t, "", "job", "validate", "-plugin-dir", ".", file)
			assert.Equal(t, c.code, r.code, r.stderr)
			assert.Equal(t, c.stdout, r.stdout)
			want := strings.ReplaceAll(c.stderr, "FILE", file)
			assert.Equal(t, want, r.stderr[:min(len(want), len(r.stderr))])
			if strings.HasSuffix(want, "\n") {
				assert.Len(t, r.stderr, len(want))
			}

			r = w.run(t, "", "job", "plan", "-address", "127.0.0.1:1", "-plugin-dir", ".", file)
			assert.Equal(t, planFailed, r.code)
			assert.Equal(t, want, r.stderr[:min(len(want), len(r.stderr))])
			assert.Equal(t, c.code == 0, strings.Contains(r.stderr, "cannot reach the node"), "the node is asked only of what the drivers take")
		})
	}
	r := w.run(t, "", "job", "validate", "-plugin-dir", "none", write(t, filepath.Join(w.dir, "a.nomad.hcl"), task("nope", "")))
	assert.Equal(t, result{1, "", "Error: -plugin-dir: open none: no such file or directory\n"}, r)
}

// TestARunWaitsForPluginsThatStillLoad: right after a start, nothing is known to be missing.
func TestARunWaitsForPluginsThatStillLoad(t *testing.T) {
	s := newSite(t, "mock")
	require.NoError(t, os.Remove(filepath.Join(s.data, "cache"))) // compiling takes a second
	n := launchProcess(t, exec.Command(s.binary, "agent", "-http-addr", "127.0.0.1:0", "-config", s.config))
	n.address = n.log.await(t, answersLine, n.exited)[1]
	r := n.run(t, "job", "run", writeJob(t, "early", "batch", "mock_driver", `run_for = "1ms"`))
	require.Zero(t, r.code, r.stderr)
	require.Regexp(t, `Plugins still load, and may provide what is missing: mock\.wasm\n`, r.stdout)
	n.await(t, "early", "complete")
}

func TestConfigurationsThatAreWrong(t *testing.T) {
	dir := t.TempDir()
	occupied := write(t, filepath.Join(dir, "occupied"), "")
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":               {"\ndata_dri = \"/tmp\"\n", `configuration: FILE:2,1: Unsupported argument; .*"data_dri".*Did you mean "data_dir"\?`},
		"unknown block":             {"plugins \"a\" {\n}\n", `configuration: FILE:1,1: Unsupported block type; .*"plugins".*Did you mean "plugin"\?`},
		"syntax error":              {"data_dir = \n", `configuration: FILE:1,12: Invalid expression; .*`},
		"wrong type":                {"data_dir = [\"a\"]\n", `configuration: FILE:1,12: .*string required.*`},
		"not a number":              {"ports { http = \"x\" }\n", `configuration: FILE:1,17: .*a number is required`},
		"not a duration":            {"client { max_kill_timeout = \"5x\" }\n", `configuration: FILE:1,29: .*a duration looks like "30s".*`},
		"not a level":               {"log_level = \"loud\"\n", `configuration: log_level: "loud" is not one of trace, debug, info, warn, error`},
		"relative path":             {"data_dir = \"data\"\nplugin_dir = \"/p\"\n", `configuration: data_dir: "data" is not an absolute path`},
		"two faults":                {"log_level = \"loud\"\nregion = \"a b\"\n", `configuration: region: "a b" .*; log_level: "loud" .*`},
		"digest":                    {"plugin \"a\" { sha256 = \"abc\" }\n", `configuration: plugin "a": sha256: "abc" is not a SHA-256 in lower-case hexadecimal`},
		"plugin twice":              {"plugin \"a\" {\n}\nplugin \"a\" {\n}\n", `configuration: FILE:3,1: Duplicate plugin "a"; it is configured at FILE:1 already\.`},
		"data_dir is a file":        {fmt.Sprintf("data_dir = %q\n", occupied), `data_dir: mkdir ` + occupied + `: not a directory: choose another with -data-dir`},
		"plugin_dir is a file":      {fmt.Sprintf("data_dir = %q\nplugin_dir = %q\n", filepath.Join(dir, "data"), occupied), `plugin directory ` + occupied + ` is not a directory: move it away, or choose another with -plugin-dir`},
		"plugin_dir cannot be made": {fmt.Sprintf("data_dir = %q\nplugin_dir = \"/proc/plugins\"\n", filepath.Join(dir, "data")), `plugin directory /proc/plugins does not exist: create it, or choose another with -plugin-dir`},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, filepath.Join(dir, "node.hcl"), c.text)
			r := command(t, "", "agent", "-config", file, "-http-addr", "127.0.0.1:0")
			wants(t, r, 1, strings.ReplaceAll(c.want, "FILE", regexp.QuoteMeta(file)))
			assert.Empty(t, r.stdout)
		})
	}
}

// TestAPluginDirectoryThatGoesAway is the one that cannot be read later: the node tells
// so and carries on, and takes it up again.
func TestAPluginDirectoryThatGoesAway(t *testing.T) {
	s := newSite(t, "mock")
	n := s.start(t)
	n.out(t, "job", "run", writeJob(t, "forever", "service", "mock_driver", `run_for = "1h"`))
	running := n.await(t, "forever", "running")
	away := s.plugins + ".away"
	require.NoError(t, os.Rename(s.plugins, away))
	n.log.await(t, regexp.MustCompile(`\[(WARN|ERROR)\].*`+regexp.QuoteMeta(s.plugins)), n.exited)
	assert.Regexp(t, `\n`+regexp.QuoteMeta(s.plugins)+`: .*no such file or directory`, n.out(t, "plugin", "status"))
	assert.Equal(t, taskEvents(running), taskEvents(n.await(t, "forever", "running")))
	require.NoError(t, os.Rename(away, s.plugins))
	s.drop(t, "wasi.wasm", driver(t, "wasi"))
	n.awaitPlugin(t, "wasi", "healthy")
	n.awaitPlugin(t, "mock_driver", "healthy")
	assert.NotContains(t, n.out(t, "plugin", "status"), "no such file")
}

func TestCommandLinesThatAreWrong(t *testing.T) {
	for line, c := range map[string]struct {
		code int
		want string
	}{
		"frob":                            {127, `unknown command "frob": wasmnode -h lists them`},
		"job frob":                        {127, `unknown command "job frob": wasmnode job -h lists them`},
		"job run":                         {1, `job run takes 1 argument, not 0 \(usage: wasmnode job run \[options\] FILE; see -h\)`},
		"job run a b":                     {1, `job run takes 1 argument, not 2 \(.*\)`},
		"job run -frob a":                 {1, `flag provided but not defined: -frob \(usage: wasmnode job run .*\)`},
		"job run --var":                   {1, `flag needs an argument: -var \(usage: .*\)`},
		"job run -var x a":                {1, `invalid value "x" for flag -var: "x" is not of the form NAME=VALUE \(usage: .*\)`},
		"job run /nonexistent.hcl":        {1, `open /nonexistent\.hcl: no such file or directory`},
		"job run /proc":                   {1, `read /proc: is a directory`},
		"job stop":                        {1, `job stop takes 1 argument, not 0 \(.*\)`},
		"job dispatch":                    {1, `job dispatch takes 1 to 2 arguments, not 0 \(.*\)`},
		"job dispatch -meta x j":          {1, `invalid value "x" for flag -meta: "x" is not of the form NAME=VALUE \(.*\)`},
		"job dispatch j /nonexistent":     {1, `open /nonexistent: no such file or directory`},
		"job periodic force":              {1, `job periodic force takes 1 argument, not 0 \(.*\)`},
		"alloc logs":                      {1, `alloc logs takes 1 to 2 arguments, not 0 \(.*\)`},
		"plugin inspect /dev/null":        {1, `/dev/null: scan: offset 0x0: truncated: .*`},
		"plugin status x":                 {1, `plugin status takes no arguments, not 1 \(.*\)`},
		"agent x":                         {1, `agent takes no arguments, not "x" \(.*\)`},
		"agent -frob":                     {1, `flag provided but not defined: -frob \(usage: wasmnode agent \[options\]; see -h\)`},
		"agent -config":                   {1, `flag needs an argument: -config \(.*\)`},
		"agent -config /none.hcl":         {1, `configuration: stat /none\.hcl: no such file or directory`},
		"agent -dev -http-addr x":         {1, `-http-addr "x": it has the form HOST:PORT, such as 127\.0\.0\.1:4646, or unix:///PATH`},
		"agent -dev -http-addr :99999":    {1, `-http-addr ":99999": "99999" is not a port`},
		"agent -dev -log-level loud":      {1, `configuration: log_level: "loud" is not one of .*`},
		"job status -address ftp://x":     {1, `-address "ftp://x" is not an address such as http://127\.0\.0\.1:4646`},
		"job status -address 127.0.0.1:1": {1, `cannot reach the node at 127\.0\.0\.1:1: .*connection refused \(is an agent running\? wasmnode agent -dev\)`},
	} {
		t.Run(line, func(t *testing.T) {
			r := command(t, "127.0.0.1:1", strings.Fields(line)...)
			wants(t, r, c.code, c.want)
			assert.Empty(t, r.stdout)
		})
	}
}

func TestAnIDThatMatchesNothingOrTooMuchIsRefused(t *testing.T) {
	n := newSite(t).start(t)
	for _, id := range []string{"web-1", "web-2"} {
		n.out(t, "job", "run", "-detach", writeJob(t, id, "service", "mock_driver", ""))
	}
	for line, want := range map[string]string{
		"job status nope":   `no job begins with "nope": wasmnode job status lists them`,
		"job stop nope":     `no job begins with "nope": wasmnode job status lists them`,
		"job inspect web":   `"web" is ambiguous: 2 jobs begin with it: web-1, web-2`,
		"job stop web":      `"web" is ambiguous: 2 jobs begin with it: web-1, web-2`,
		"job dispatch nope": `no parameterized job begins with "nope"`,
		"job dispatch web":  `no parameterized job begins with "web"`,
		"alloc status ffff": `no allocation begins with "ffff": wasmnode alloc status lists them`,
		"alloc logs zz":     `no allocation begins with "zz": wasmnode alloc status lists them`,
		"alloc stop nope":   `no allocation begins with "nope": wasmnode alloc status lists them`,
		"eval status nope":  `no evaluation begins with "nope"`,
		"node status nope":  `no node begins with "nope": wasmnode node status lists them`,
	} {
		t.Run(line, func(t *testing.T) {
			r := n.run(t, strings.Fields(line)...)
			wants(t, r, 1, want)
			assert.Empty(t, r.stdout)
		})
	}
}
