package testfile

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/conform"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// opened is a plugin of the repository.
func opened(t *testing.T, dir string) *Plugin {
	t.Helper()
	p, err := Open(guestbuild.Plugin(t, dir))
	require.NoError(t, err)
	return p
}

// a file is parsed as one in this folder, called a.test.hcl.
func a(t *testing.T, content string) *File {
	t.Helper()
	f, err := parse("a.test.hcl", []byte(content))
	require.NoError(t, err)
	return f
}

func TestTheMockDriversTestsPass(t *testing.T) {
	f, err := Read("../../guest-examples/drivers/mock/mock.test.hcl")
	require.NoError(t, err)
	for _, r := range Run(t.Context(), opened(t, "guest-examples/drivers/mock"), f, Options{}) {
		assert.Equal(t, conform.OK, r.Status, "%s:%d: %s: %s", r.File, r.Line, r.Name, r.Why)
	}
}

func TestWhatIsNotAsExpectedIsSaidWithItsPlace(t *testing.T) {
	mock := opened(t, "guest-examples/drivers/mock")
	const start = "start {\nconfig {\nrun_for = \"1h\"\n}\n}"
	for _, c := range []struct{ steps, want string }{
		{"start {\nconfig {\nrun_fro = \"1h\"\n}\n}", `4,1: start: config.run_fro: unknown field, did you mean "run_for"?`},
		{"start {\nconfig {\nrun_for = \"an hour\"\n}\n}", `4,1: start: config.run_for: `},
		{start + "\nwait {\nwithin = \"1m\"\n}", `7,1: wait: the task still runs after 1m0s`},
		{start + "\nstart { }", `7,1: there is a task "task" already: give this one another label, or destroy that one first`},
		{"stop { }", `2,1: no step before this one starts a task "task"`},
		{start + "\ninspect {\nexpect {\nstatus = { state = \"TASK_STATE_EXITED\" }\n}\n}", `9,1: inspect: status.state: got "TASK_STATE_RUNNING", want "TASK_STATE_EXITED"`},
		{start + "\ninspect {\nexpect {\nerror = \"gone\"\n}\n}", `7,1: inspect: it was done, and is expected to fail`},
		{start + "\nexpect {\nstdout = \"x\"\n}", `8,1: expect: stdout: got "", want "x"`},
		{start + "\nexpect {\nevents = [{ message = contains(\"x\") }]\n}", `8,1: expect: events: got [], want [{message = contains("x")}]`},
		{start + "\nexpect {\nlogs = contains({ level = \"error\" })\n}", `8,1: expect: logs: got [{fields = {`},
		{"start {\nconfig {\nstart_fault = \"trap\"\n}\n}", `2,1: start: driver_start_task: fault: `},
		{"upgrade {\nfile = \"gone.wasm\"\n}", `2,1: upgrade: open `},
		{start + "\ndestroy { }", `7,1: destroy: the task still runs`},
	} {
		results := Run(t.Context(), mock, a(t, "test \"x\" {\n"+c.steps+"\n}"), Options{})
		require.Len(t, results, 1)
		r := results[0]
		assert.Equal(t, conform.Fail, r.Status, c.steps)
		line, rest, _ := strings.Cut(c.want, ",")
		_, why, _ := strings.Cut(rest, " ")
		assert.Equal(t, line, regexp.MustCompile(`^\d+`).FindString(line))
		assert.Contains(t, r.Why, why, c.steps)
		assert.Equal(t, line, itoa(r.Line), "%s: %s", c.steps, r.Why)
	}
}

func itoa(n int) string { return written(int64(n)) }

func TestAFaultsLastLinesAreInTheResult(t *testing.T) {
	f := a(t, `test "x" {
  start {
    config {
      start_fault = "trap"
    }
  }
}`)
	results := Run(t.Context(), opened(t, "guest-examples/drivers/mock"), f, Options{})
	assert.Contains(t, results[0].Log, "info: panic: the fault is trap")
	assert.LessOrEqual(t, len(results[0].Log), maxLog)
}

func TestWithRealProcessesWhatIsExpectedMayBeToCome(t *testing.T) {
	f := a(t, `test "x" {
  real_processes = true
  start {
    env = { WHO = "world" }
    config {
      command = "/bin/sh"
      args    = ["-c", "read line < $NOMAD_TASK_NAME; echo $WHO $line; exec sleep 3600"]
    }
  }
  start "other" {
    config {
      command = "/bin/sh"
      args    = ["-c", "sleep 0.2; echo late >&2; exec sleep 3600"]
    }
  }
  expect {
    stderr = contains("late\n")
  }
  signal "other" {
    signal = "SIGKILL"
  }
  wait "other" {
    expect {
      result = { signal = 9 }
    }
  }
  expect {
    processes = contains({ env = { WHO = "world" } })
    signals   = ["SIGKILL"]
  }
  call "driver_task_stats" {
    expect {
      code = "UNIMPLEMENTED"
    }
  }
  destroy "other" {}
}`)
	results := Run(t.Context(), opened(t, "guest-examples/drivers/raw_exec"), f, Options{})
	assert.Empty(t, results[0].Why)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Empty(t, Run(ctx, opened(t, "guest-examples/drivers/raw_exec"), f, Options{}), "none is begun after the end")
}

func TestOnlyTheTestsThatAreAskedForRun(t *testing.T) {
	f := a(t, `test "one" {
  advance { by = "1s" }
}
test "two" {
  advance { by = "1s" }
}`)
	results := Run(t.Context(), opened(t, "guest-examples/drivers/mock"), f, Options{Only: regexp.MustCompile("^tw")})
	require.Len(t, results, 1)
	assert.Equal(t, "two", results[0].Name)
}

func TestAFileThatIsWrongSaysWhereAndWhatThereIs(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{``, `a.test.hcl: there is no test block in it`},
		{`test "x" {`, `a.test.hcl:1,10: .*`},
		{`x = 1`, `a.test.hcl:1,1: "x" stands outside of a test block`},
		{`tests "x" { }`, `a.test.hcl:1,1: there is no block "tests" here: a test file has test blocks`},
		{`test { }`, `a.test.hcl:1,1: a test has one label, what it shows: .*`},
		{`test "x" { }`, `a.test.hcl:1,1: the test has no step: start { }, for one`},
		{"test \"x\" {\nstart { }\n}\ntest \"x\" {\nstart { }\n}", `a.test.hcl:4,1: there is a test "x" already, in line 1`},
		{"test \"x\" {\nreal_process = true\nstart { }\n}", `a.test.hcl:2,1: there is no attribute "real_process" of a test; did you mean "real_processes"\?`},
		{"test \"x\" {\nreal_processes = \"yes\"\nstart { }\n}", `a.test.hcl:2,1: real_processes is true or false`},
	} {
		_, err := parse("a.test.hcl", []byte(c.content))
		require.Error(t, err, c.content)
		assert.Regexp(t, "^"+c.want+"$", err.Error(), c.content)
	}
	for _, c := range []struct{ step, want string }{
		{`sttart { }`, `2,1: there is no step "sttart"; did you mean "start"\?`},
		{`start "a" "b" { }`, `2,1: start has at most one label`},
		{`restart_agent "a" { }`, `2,1: restart_agent has no label`},
		{`start { envs = {} }`, `2,9: there is no envs; did you mean "env"\?`},
		{`start { env = 3 }`, `2,9: unexpected token 3`},
		{`start { directories = {} }`, `2,9: directories of a task is the node's to say`},
		{`start { resources = { cpu = 1 } }`, `2,9: there is no resources.cpu; .*cpu_mhz.*`},
		{"start {\nconfig {\na = b\n}\n}", `4,5: Variables not allowed; .*`},
		{"start {\nconfig { }\nconfig { }\n}", `4,1: start has no such block, or has one already`},
		{"start {\nexpect { }\n}", `3,1: nothing is expected here`},
		{"start {\nexpect {\nhandel = {}\n}\n}", `4,1: there is no handel; did you mean "handle"\?`},
		{"start {\nexpect {\nhandle = { versionn = 1 }\n}\n}", `4,1: there is no handle.versionn; did you mean "version"\?`},
		{"start {\nexpect {\ncode = \"NOT\"\n}\n}", `4,1: there is no code "NOT"; it can be: .*NOT_FOUND.*`},
		{"inspect {\nexpect {\nstatus = { state = \"running\" }\n}\n}", `4,1: there is no status.state "running"; .*TASK_STATE_RUNNING.*`},
		{"stop {\nexpect {\nresult = {}\n}\n}", `4,1: stop answers nothing: it can be expected to fail, with error or code`},
		{`signal { }`, `2,1: signal needs the attribute signal`},
		{`wait { within = "soon" }`, `2,8: within is a time such as "10s"`},
		{`wait { until = "1s" }`, `2,8: there is no attribute "until" of wait; it can be: within`},
		{`exec { command = "true" }`, `2,8: command is a list of texts`},
		{`call { }`, `2,1: call needs a label: call "driver_fingerprint" { }`},
		{`call "fingerprint" { }`, `2,6: there is no operation "fingerprint": its name begins with driver_ or device_`},
		{`call "driver_fingerprint" { request = { a = 1 } }`, `2,29: there is no a; .*`},
		{`refuse "files" { }`, `(.*\n)+a.test.hcl:2,8: "files" cannot be refused: it is "process" or "wasm".*`},
		{`helper "tool" { }`, `2,8: a helper is called by its absolute path, not "tool"`},
		{`helper "/tool" { exit = 1 }`, `2,18: there is no exit; .*`},
		{"end {\nexpect {\ncode = \"NOT_FOUND\"\n}\n}", `3,1: end has no such block, or has one already`},
		{`expect { }`, `2,1: nothing is expected here`},
		{`expect { stdot = "" }`, `2,10: there is no "stdot" of a node; did you mean "stdout"\?`},
		{`expect { events = [{ mesage = "" }] }`, `2,10: there is no events.mesage; did you mean "message"\?`},
		{`expect { stdout = matches("(") }`, `2,28: Invalid function argument; .*`},
	} {
		_, err := parse("a.test.hcl", []byte("test \"x\" {\n"+c.step+"\n}"))
		require.Error(t, err, c.step)
		assert.Regexp(t, "^a.test.hcl:"+c.want, err.Error(), c.step)
	}
}

func TestAFileHasABound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.test.hcl")
	text := "test \"x\" {\nstart { }\n}\n# "
	require.NoError(t, os.WriteFile(file, []byte(text+strings.Repeat("x", 1<<20-len(text))), 0o600))
	_, err := Read(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(text+strings.Repeat("x", 1<<20-len(text)+1)), 0o600))
	_, err = Read(file)
	require.EqualError(t, err, file+": a test file has at most 1048576 bytes")
}

func TestAWholeValueIsNotWhatAPartOfItIs(t *testing.T) {
	object := func(name string, v any) map[string]any { return map[string]any{name: v} }
	for _, c := range []struct {
		want, got any
		problem   string
	}{
		{"a", "a", ""},
		{"", nil, ""},
		{int64(0), nil, ""},
		{false, nil, ""},
		{[]any{}, nil, ""},
		{map[string]any{}, nil, ""},
		{int64(1), float64(1), ""},
		{int64(1), nil, "x: got nothing, want 1"},
		{"1", int64(1), `x: got 1, want "1"`},
		{object("a", "1"), map[string]any{"a": "1", "b": "2"}, ""},
		{object("a", "1"), map[string]any{"b": "2"}, `x.a: got nothing, want "1"`},
		{object("a", "1"), "1", `x: got "1", want {a = "1"}`},
		{[]any{"a"}, []any{"a", "b"}, `x: got ["a", "b"], want ["a"]`},
		{[]any{"a", "b"}, []any{"a", "c"}, `x[1]: got "c", want "b"`},
		{object(containsKey, "b"), "abc", ""},
		{object(containsKey, "d"), "abc", `x: got "abc", want contains("d")`},
		{object(containsKey, "b"), []any{"a", "b"}, ""},
		{object(containsKey, object("a", int64(1))), []any{object("a", int64(2))}, `x: got [{a = 2}], want contains({a = 1})`},
		{object(matchesKey, "^a.c$"), "abc", ""},
		{object(matchesKey, "^b"), "abc", `x: got "abc", want matches("^b")`},
		{object(matchesKey, ""), nil, `x: got nothing, want matches("")`},
	} {
		assert.Equal(t, c.problem, compare("x", c.want, c.got))
	}
	assert.Len(t, compare("x", "", strings.Repeat("a", 1<<20)), len(`x: got , want ""`)+maxShown+len("… (1048578 bytes)"))
}
