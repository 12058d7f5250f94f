package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/internal/toolchain"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
	"github.com/wasmnode/wasmnode/trial"
	"github.com/wasmnode/wasmnode/trial/testfile"
)

type pluginTestCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginTestCommand) Synopsis() string {
	return "Build the plugin in a folder, run its tests, and check it against the contract"
}

// Help implements [subcommand].
func (*pluginTestCommand) Help() string {
	return `Usage: wasmnode plugin test [options] DIR|FILE

  Does with a plugin's folder, as plugin new makes it, what its author wants to know before
  anything else: "make build" compiles it to plugins/NAME.wasm, "make test" runs its own tests,
  the tests in the files *.test.hcl are run with that file, and it is checked as plugin conform
  does, under the configuration in agent.hcl and with tasks whose config block is task.hcl,
  where there are these files. What fails ends it. No node is needed.

  Given a plugin's file, which ends with .wasm, it runs the tests that -tests names, and does no
  more.

  It prints what make does, a line for each test in a .test.hcl, and of the checks those that
  fail or were skipped. The exit code is 0 if all is well, else 1.

Options:

  -tests=PATH   The test file, or a folder with *.test.hcl. Without it, DIR.
  -run=REGEXP   Of the tests in test files, only those with such a name.
  -timeout=5s   How long each call of a check may take.
  -verbose      Print each check, and how long each test took.
  -json         Print JSON: which step failed, the tests and the checks. What make says goes to
                standard error.`
}

// tested is what became of a plugin's folder, or file.
type tested struct {
	Directory string
	File      string            // the plugin's, once it is built
	Failed    string            // the step: build, test, behavior or conform; empty: none
	Why       string            // in one line
	Tests     []testfile.Result // of the test files
	Conform   *conform.Report   // null: it did not come to that

	tests string         // a test file, or a folder with some
	only  *regexp.Regexp // nil: all tests
}

// Run implements [subcommand].
func (c *pluginTestCommand) Run(args []string) int {
	f := c.flags("plugin test")
	tests, run := f.String("tests", "", ""), f.String("run", "", "")
	timeout := f.Duration("timeout", 5*time.Second, "")
	if !c.parse(f, args, 1, 1, c.Help()) {
		return 1
	}
	shown := os.Stdout
	if *f.json {
		shown = os.Stderr
	}
	t := tested{Directory: f.Arg(0), tests: cmp.Or(*tests, f.Arg(0)), Tests: []testfile.Result{}}
	ctx, cancel := interruptible()
	defer cancel()
	steps := []testStep{
		{"build", func() error { return t.build(shown) }},
		{"test", func() error { return runMake(shown, t.Directory, "test") }},
		{"behavior", func() error { return t.behavior(ctx) }},
		{"conform", func() error { return t.conform(*timeout) }},
	}
	var err error
	if *run != "" {
		if t.only, err = regexp.Compile(*run); err != nil {
			return c.fail(f, fmt.Errorf("-run: %w", err))
		}
	}
	if strings.HasSuffix(f.Arg(0), ".wasm") {
		if *tests == "" {
			return c.fail(f, errors.New("which tests? Add -tests=PATH, a test file or a folder with *.test.hcl"))
		}
		t.Directory, t.File, steps = "", f.Arg(0), steps[2:3]
	}
	err = orInterrupted(ctx, t.run(steps))
	if *f.json {
		return max(c.printJSON(t), min(len(t.Failed), 1))
	}
	c.printTests(t.Tests, *f.verbose)
	if t.Conform != nil {
		c.printChecks(t.Conform, *f.verbose)
	}
	if err != nil {
		return c.fail(f, err)
	}
	return 0
}

// testStep is one thing that there is to do.
type testStep struct {
	name string
	do   func() error
}

// run takes the steps until one fails. The error is also in it.
func (t *tested) run(steps []testStep) error {
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Failed, t.Why = step.name, err.Error()
			return err
		}
	}
	return nil
}

// behavior runs the tests in test files with the plugin's file.
func (t *tested) behavior(ctx context.Context) error {
	paths, err := testfile.Find(t.tests)
	if err != nil {
		return err
	}
	switch {
	case len(paths) == 0 && t.tests != t.Directory:
		return fmt.Errorf("%s: there is no file *%s in it", t.tests, testfile.Suffix)
	case len(paths) == 0:
		return nil
	}
	var files []*testfile.File
	for _, path := range paths { // all are read before one is run
		file, err := testfile.Read(path)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	wasm, err := trial.ReadFile(t.File)
	if err != nil {
		return err
	}
	plugin, err := testfile.Open(wasm)
	if err != nil {
		return fmt.Errorf("%s: %w", t.File, err)
	}
	for _, file := range files {
		t.Tests = append(t.Tests, testfile.Run(ctx, plugin, file, testfile.Options{Only: t.only})...)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failedTests(t.Tests) > 0:
		return fmt.Errorf("%d of %d tests failed", failedTests(t.Tests), len(t.Tests))
	case t.only != nil && len(t.Tests) == 0:
		return fmt.Errorf("no test has a name that -run=%s matches", t.only)
	}
	return nil
}

// printTests prints a line a test, and of one that failed where and why, and what the plugin logged.
func (m meta) printTests(results []testfile.Result, times bool) {
	for _, r := range results {
		line := fmt.Sprintf("%-4s  %s", r.Status, harmless(r.Name))
		if times {
			line += fmt.Sprintf("  %v", r.Took.Round(time.Millisecond))
		}
		m.ui.Output(line)
		if r.Status != conform.Fail {
			continue
		}
		for _, why := range strings.Split(r.Why, "\n") {
			m.ui.Output(fmt.Sprintf("      %s:%d,%d: %s", r.File, r.Line, r.Column, harmless(why)))
		}
		for _, line := range r.Log {
			m.ui.Output("      log: " + harmless(line))
		}
	}
	if len(results) > 0 {
		m.ui.Output(fmt.Sprintf("\n%d tests: %d ok, %d failed", len(results), len(results)-failedTests(results), failedTests(results)))
	}
}

func failedTests(results []testfile.Result) (n int) {
	for _, r := range results {
		if r.Status == conform.Fail {
			n++
		}
	}
	return n
}

// build makes the plugin's file, and finds it.
func (t *tested) build(shown io.Writer) error {
	if _, err := os.Stat(filepath.Join(t.Directory, "Makefile")); err != nil {
		return fmt.Errorf("%w: wasmnode plugin new makes a folder with one", err)
	}
	if err := runMake(shown, t.Directory, "build"); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(t.Directory, "plugins", "*.wasm"))
	switch {
	case err != nil:
		return err
	case len(files) == 0:
		return fmt.Errorf("make build has left no .wasm file in %s", filepath.Join(t.Directory, "plugins"))
	case len(files) == 1:
		t.File = files[0]
		return nil
	}
	// Others lie beside it to be run with it: its own is called as the folder is.
	absolute, err := filepath.Abs(t.Directory)
	own := filepath.Join(t.Directory, "plugins", filepath.Base(absolute)+".wasm")
	if err != nil || !slices.Contains(files, own) {
		return fmt.Errorf("which of %s is to be tested? Let plugins/ have one, or call the folder as the plugin", strings.Join(files, ", "))
	}
	t.File = own
	return nil
}

// conform checks the plugin's file against the contract.
func (t *tested) conform(timeout time.Duration) error {
	set, options := new(trialSet), conform.Options{Timeout: timeout}
	set.config = new(string)
	if agent := filepath.Join(t.Directory, "agent.hcl"); exists(agent) {
		*set.config = agent
	}
	if file := filepath.Join(t.Directory, "task.hcl"); exists(file) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if options.TaskConfig, err = taskConfig(file, string(text)); err != nil {
			return err
		}
	}
	report, err := checkPlugin(set, t.File, options)
	if err != nil {
		return err
	}
	t.Conform = report
	if n := report.Count(conform.Fail); n > 0 {
		return fmt.Errorf("%d checks of the contract failed", n)
	}
	return nil
}

// exists reports whether there is such a file.
func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// ownProgram is the environment variable by which drivertest finds this program.
const ownProgram = "WASMNODE"

// runMake makes a target of a folder's Makefile. What make says is shown.
func runMake(shown io.Writer, dir, target string) error {
	tail := new(tail)
	make := exec.Command("make", "--no-print-directory", "-C", dir, target)
	if self, err := os.Executable(); err == nil && os.Getenv(ownProgram) == "" {
		make.Env = append(os.Environ(), ownProgram+"="+self)
	}
	make.Stdout, make.Stderr = io.MultiWriter(shown, tail), io.MultiWriter(os.Stderr, tail)
	err := make.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("there is no make here: apt install make")
	case err != nil && unreachable.Match(tail.bytes):
		return notDownloaded(target, dir, "go mod download all")
	case err != nil && npmUnreachable.Match(tail.bytes):
		return notDownloaded(target, dir, "npm ci --ignore-scripts")
	case err != nil:
		return fmt.Errorf("make %s failed in %s: see above. %s", target, dir, compilerAdvice(dir))
	}
	return nil
}

// sources are what plugin new calls the code, by its language.
var sources = map[string]string{"assemblyscript": "main.ts", "c": "main.c", "go": "main.go", "rust": "main.rs", "zig": "main.zig"}

// compilerAdvice is what to type where a build may have failed for want of a compiler.
func compilerAdvice(dir string) string {
	const advice = "If a compiler is missing or too old: wasmnode plugin doctor"
	for language, source := range sources {
		if !exists(filepath.Join(dir, source)) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), compilerAnswers)
		defer cancel()
		if f := toolchain.Check(ctx, toolchain.Here(), language); !f.OK {
			return f.Text + ": " + f.Next
		}
		return advice + " -lang " + language
	}
	return advice
}

// compilerAnswers bounds how long a compiler may take to tell its version.
const compilerAnswers = 30 * time.Second

// notDownloaded names the command that downloads what a target needs.
func notDownloaded(target, dir, command string) error {
	return fmt.Errorf("make %s failed: what it needs could not be downloaded. Where there is a network: cd %s && %s", target, shellWord(dir), command)
}

// npmUnreachable is what npm says when it cannot download a package.
var npmUnreachable = regexp.MustCompile(`npm (error|ERR!) code (EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ENOTCACHED|ENOTFOUND|ERR_SOCKET_TIMEOUT|ETIMEDOUT)`)

// unreachable is what Go says when it cannot download a module.
var unreachable = regexp.MustCompile(`dial tcp|no such host|proxyconnect|module lookup disabled by GOPROXY=off`)

// tail keeps the end of what is written to it. It may be used concurrently.
type tail struct {
	mu    sync.Mutex
	bytes []byte
}

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	const most = 64 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, p...)
	t.bytes = t.bytes[max(0, len(t.bytes)-most):]
	return len(p), nil
}
