package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// verdict is what became of a mutant.
type verdict int

const (
	killed verdict = iota
	survived
	invalid // it does not compile
)

// tester runs a package's tests with one of its mutants turned on at a time. All are in one
// binary, and only those tests are run that reach a mutant.
type tester struct {
	dir     string
	args    []string // of each run
	scratch string
	invalid map[int]bool
	reached map[int][]*test
}

// test is one test of the package.
type test struct {
	name string
	took time.Duration
}

// newTester compiles a package with mutants in it and runs its tests once with none of them
// turned on, each in a process of its own, which has to succeed. The caller closes the
// tester.
func newTester(ctx context.Context, dir string, all []mutant, only string, short bool) (*tester, error) {
	scratch, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return nil, err
	}
	t := &tester{dir: dir, args: []string{fmt.Sprintf("-test.short=%v", short)}, scratch: scratch, invalid: map[int]bool{}, reached: map[int][]*test{}}
	err = t.compile(ctx, all)
	if err == nil {
		err = t.findOut(ctx, only)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *tester) close() { _ = os.RemoveAll(t.scratch) }

func (t *tester) binary() string { return filepath.Join(t.scratch, "mutants.test") }

// position is where the compiler found an error.
var position = regexp.MustCompile(`(?m)^[^\s:]*?([^/\s:]+\.go):(\d+):(\d+): `)

// compile leaves out, in turn, those mutants that do not compile.
func (t *tester) compile(ctx context.Context, all []mutant) error {
	about, err := t.goCommand(ctx, "list", "-f", "{{.Name}} {{.TestImports}} {{.XTestImports}}", ".")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, about)
	}
	name, imports, _ := strings.Cut(about, " ")
	if strings.Contains(imports, "pgregory.net/rapid") { // it would keep what fails in the directory
		t.args = append(t.args, "-rapid.nofailfile")
	}
	for {
		s, err := write(name, t.dir, t.scratch, all, t.invalid)
		if err != nil {
			return err
		}
		overlay, err := json.Marshal(map[string]any{"Replace": s.files})
		if err != nil {
			return err
		}
		path := filepath.Join(t.scratch, "overlay.json")
		if err := os.WriteFile(path, overlay, 0o600); err != nil {
			return err
		}
		output, err := t.goCommand(ctx, "test", "-c", "-gcflags=-e", "-overlay", path, "-o", t.binary(), ".")
		if err == nil {
			return nil
		}
		before := len(t.invalid)
		for _, at := range position.FindAllStringSubmatch(output, -1) {
			line, _ := strconv.Atoi(at[2])
			column, _ := strconv.Atoi(at[3])
			if k := s.at(at[1], line, column); k > 0 {
				t.invalid[k] = true
			}
		}
		if len(t.invalid) == before {
			return fmt.Errorf("the package does not compile: %w\n%s", err, output)
		}
	}
}

func (t *tester) goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.dir
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// findOut runs each test alone for what it reaches and how long it takes.
func (t *tester) findOut(ctx context.Context, only string) error {
	names, err := t.run(ctx, time.Minute, nil, "-test.list", only)
	if err != nil {
		return fmt.Errorf("listing the tests: %w\n%s", err, names)
	}
	log := filepath.Join(t.scratch, "reached")
	for name := range strings.FieldsSeq(names) {
		if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") {
			continue
		}
		if err := os.WriteFile(log, nil, 0o600); err != nil {
			return err
		}
		begun := time.Now()
		output, err := t.run(ctx, 10*time.Minute, []string{"MUTANT_REACHED=" + log}, "-test.run", "^"+name+"$")
		if err != nil {
			return fmt.Errorf("the tests fail without a change: %s: %w\n%s", name, err, output)
		}
		reached, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		one := &test{name, time.Since(begun)}
		for k := range strings.FieldsSeq(string(reached)) {
			n, _ := strconv.Atoi(k)
			t.reached[n] = append(t.reached[n], one)
		}
	}
	return nil
}

// test runs the tests that reach the mutant of that number.
func (t *tester) test(ctx context.Context, number int) (verdict, error) {
	switch {
	case t.invalid[number]:
		return invalid, nil
	case len(t.reached[number]) == 0:
		return survived, nil
	}
	var names []string
	timeout := 30 * time.Second
	for _, one := range t.reached[number] {
		names = append(names, one.name)
		timeout += 3 * one.took
	}
	_, err := t.run(ctx, timeout, []string{"MUTANT_ON=" + strconv.Itoa(number)}, "-test.failfast", "-test.run", "^("+strings.Join(names, "|")+")$")
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return invalid, ctx.Err()
	case err == nil:
		return survived, nil
	case errors.As(err, &failed), errors.Is(err, context.DeadlineExceeded):
		return killed, nil
	}
	return invalid, err
}

// run runs the tests in a process group of their own, of which nothing is left.
func (t *tester) run(ctx context.Context, timeout time.Duration, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.binary(), slices.Concat(t.args, args)...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return string(output), err
}
