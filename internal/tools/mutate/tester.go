package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// tester runs a package's tests over mutants, one at a time.
type tester struct {
	dir     string
	args    []string
	scratch string
	timeout time.Duration
}

// newTester runs the tests once without a change, which has to succeed, for the time that
// they take. The caller closes the tester.
func newTester(ctx context.Context, dir, tests string, short bool) (*tester, error) {
	scratch, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return nil, err
	}
	t := &tester{dir: dir, scratch: scratch, timeout: 10 * time.Minute}
	t.args = []string{"test", "-count=1", "-failfast", "-vet=off", fmt.Sprintf("-short=%v", short)}
	if tests != "" {
		t.args = append(t.args, "-run", tests)
	}
	begun := time.Now()
	if output, err := t.goTest(ctx); err != nil {
		t.close()
		return nil, fmt.Errorf("the tests fail without a change: %w\n%s", err, output)
	}
	t.timeout = 3*time.Since(begun) + 30*time.Second
	return t, nil
}

func (t *tester) close() { _ = os.RemoveAll(t.scratch) }

// test runs the tests over a mutant.
func (t *tester) test(ctx context.Context, m mutant) (verdict, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return invalid, err
	}
	changed := filepath.Join(t.scratch, "mutant.go")
	if err := os.WriteFile(changed, m.apply(source), 0o600); err != nil {
		return invalid, err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{m.file: changed}})
	if err != nil {
		return invalid, err
	}
	path := filepath.Join(t.scratch, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return invalid, err
	}
	output, err := t.goTest(ctx, "-overlay", path)
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return invalid, ctx.Err()
	case err == nil:
		return survived, nil
	case bytes.Contains(output, []byte("[build failed]")):
		return invalid, nil
	case errors.As(err, &failed), errors.Is(err, context.DeadlineExceeded):
		return killed, nil
	}
	return invalid, err
}

// goTest runs the tests in a process group of their own, of which nothing is left.
func (t *tester) goTest(ctx context.Context, args ...string) (output []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", slices.Concat(t.args, args, []string{"."})...)
	cmd.Dir = t.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	output, err = cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return output, err
}
