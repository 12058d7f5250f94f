package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// faultsDriver is a driver whose tasks say how it goes wrong.
func faultsDriver(t *testing.T) []byte {
	t.Helper()
	return guestbuild.Plugin(t, "host/testdata/faults/go")
}

// TestWhatTheAuthorOfABrokenDriverSees has ten drivers that are broken, each in a way of its
// own, and what is on the author's screen.
func TestWhatTheAuthorOfABrokenDriverSees(t *testing.T) {
	w := newWorkshop(t, "raw_exec")
	good := guestbuild.CPlugin(t, "guest-examples/drivers/c-minimal")
	for name, wasm := range map[string][]byte{
		"faults":  faultsDriver(t),
		"garbage": guestbuild.CPlugin(t, "host/testdata/faults/garbage"),
		"schema":  renamed(t, good, `"required":["module"]`, `"required":"module!!"`),
		"version": renamed(t, good, "wasmnode:abi/v1", "wasmnode:abi/v2"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, name+".wasm"), wasm, 0o600))
	}
	how := func(how string) string { return fmt.Sprintf(`{"task": {"driver_config": {"how": %q}}}`, how) }
	var screens strings.Builder
	for _, c := range []struct{ title, file, input, timeout string }{
		{"panic", "faults", how("panic"), "1m"},
		{"loop", "faults", how("loop"), "300ms"},
		{"garbage", "garbage", `{}`, "1m"},
		{"missing grant", "raw_exec", `{"task": {"driver_config": {"command": "/bin/true"}}}`, "1m"},
		{"leak", "faults", how("leak"), "1m"},
		{"bad schema", "schema", `{}`, "1m"},
		{"lost event", "faults", how("lost event"), "1m"},
		{"slow", "faults", how("slow"), "300ms"},
		{"wrong version", "version", `{}`, "1m"},
	} {
		args := []string{"plugin", "call", "-timeout", c.timeout, "-input", "-", c.file + ".wasm", "start_task"}
		r := w.run(t, c.input, args...)
		fmt.Fprintf(&screens, "# %s\n$ echo '%s' | wasmnode %s\n%s%s\n", c.title, c.input, strings.Join(args, " "), r.stderr, r.stdout)
	}
	r := w.run(t, "", "plugin", "conform", "-task", `how = "wrong handle"`, "faults.wasm")
	fmt.Fprintf(&screens, "# wrong handle\n$ wasmnode plugin conform -task 'how = \"wrong handle\"' faults.wasm | grep FAIL\n%s\n", strings.Join(failures.FindAllString(r.stdout, -1), "\n"))
	golden(t, "broken-drivers.golden", withoutMeasures(screens.String()))
}

var (
	failures = regexp.MustCompile(`(?m)^FAIL .*`)
	// The names that a Go plugin keeps depend on how it is built, and how deep its runtime is on
	// its version.
	measure   = regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s|m0s)\b`)
	fuel      = regexp.MustCompile(`given \d+ times`)
	memory    = regexp.MustCompile(`\d+(\.\d+)? [KM]iB`)
	frames    = regexp.MustCompile(`(?m)(^  (\$\d+|…)\n)+`)
	goRuntime = regexp.MustCompile(`(?m)^  (\t.*|runtime\..*|goroutine .*|github.com/.*|main\.\(.*)\n`)
	values    = regexp.MustCompile(`(?m)\b\d+(-byte| in use)|^(  main\.\S+)\(.*\)$`)
	stamped   = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\S+`)
	deeper    = regexp.MustCompile(`(  main\.deep\n)+`)
	// A column is as wide as what is measured.
	spaces = regexp.MustCompile(`  +(<time>|Answer)|(<time>)  +`)
)

// withoutMeasures takes out of a text what differs from run to run, or from one compiler to another.
func withoutMeasures(s string) string {
	s = fuel.ReplaceAllString(measure.ReplaceAllString(s, "<time>"), "given <n> times")
	s = goRuntime.ReplaceAllString(memory.ReplaceAllString(s, "<memory>"), "")
	s = deeper.ReplaceAllString(values.ReplaceAllString(s, "$1$2"), "  main.deep\n")
	s = stamped.ReplaceAllString(frames.ReplaceAllString(s, "  $$N\n"), "<now>")
	return spaces.ReplaceAllString(s, "$2  $1")
}

// follow runs a command that does not end by itself until the test does.
func (n *node) follow(t *testing.T, args ...string) *transcript {
	t.Helper()
	out := &transcript{grown: wake.New()}
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR=http://"+n.address, "TZ=UTC")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.NoError(t, cmd.Wait(), "an interrupt is no failure: %s", out)
	})
	return out
}

func TestAFaultSaysWhyWhereThePersonLooks(t *testing.T) {
	s := newSite(t)
	s.drop(t, "faults.wasm", faultsDriver(t))
	n := s.start(t)
	n.awaitPlugin(t, "faults_go", catalog.StateHealthy)
	wants(t, n.run(t, "plugin", "logs", "none"), 1, `no plugin "none" has been loaded since the agent was started`)
	wants(t, n.run(t, "plugin", "trace", "none"), 1, `no plugin "none" has been loaded since the agent was started`)
	trace := n.follow(t, "plugin", "trace", "faults_go")
	trace.await(t, regexp.MustCompile(`Calls of plugin "faults_go" from now on`), n.exited)
	logs := n.follow(t, "plugin", "logs", "-f", "faults_go")

	r := n.run(t, "job", "run", writeJob(t, "broken", "batch", "faults_go", `how = "nil"`))
	assert.NotZero(t, r.code)
	const why = "trapped in driver_start_task: wasm error: unreachable: panic: runtime error: invalid memory address or nil pointer dereference"
	assert.Contains(t, r.stderr, why)
	alloc := n.await(t, "broken", "failed")
	status := n.out(t, "alloc", "status", alloc.ID)
	assert.Contains(t, status, why)
	assert.Contains(t, status, "(see wasmnode plugin logs faults_go)")
	_, fault, _ := strings.Cut(status, "Plugin Fault:\n")
	assert.Regexp(t, `(?s)Plugin += faults_go\nOperation += driver_start_task\nPanic += panic: runtime error: invalid memory address or nil pointer dereference\nStack, .*`+
		`Last lines of the call:\n  starting a task\n  panic: runtime error: invalid memory address or nil pointer dereference\n.*main\.faults\.StartTask`, fault)
	assert.Contains(t, n.log.String(), "the plugin failed in a call: alloc_id="+alloc.ID)

	text := n.out(t, "plugin", "logs", "faults_go")
	assert.Contains(t, text, "[WARN] starting a task: alloc="+alloc.ID[:8]+" task=task\n")
	assert.Contains(t, text, "[WARN] the plugin failed in a call: alloc="+alloc.ID[:8])
	assert.Equal(t, 1, strings.Count(n.out(t, "plugin", "logs", "-n", "1", "faults_go"), "\n"))
	assert.Contains(t, n.out(t, "plugin", "logs", "-json", "faults_go"), `"AllocID":"`+alloc.ID+`","Task":"task","Message":"starting a task"`)
	logs.await(t, regexp.MustCompile(`starting a task: alloc=`+alloc.ID[:8]), n.exited)
	trace.await(t, regexp.MustCompile(`driver_start_task alloc=`+alloc.ID[:8]+` task=task: plugin faults_go trapped .* in the plugin`), n.exited)
}
