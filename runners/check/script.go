package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// exitWarning is the exit code of a command that warns; a larger one is a failure.
const exitWarning = 1

// checkScript finds what is not possible of a check that is a command in a task.
func (c *Check) checkScript() error {
	switch {
	case c.Task == "":
		return errors.New("task: the check of a group's service has to name the task to run its command in")
	case c.block.Command == "":
		return errors.New("command: a script check needs one")
	}
	return nil
}

// script runs the check's command in the task. Its exit code is the result: 0 is success,
// 1 a warning, which fails unless the check ignores warnings, and all else a failure.
func (c *Check) script(ctx context.Context, t Target, out *structs.CheckResult) error {
	spec := &workload.ExecSpec{Command: t.Env.Replace(c.block.Command)}
	for _, a := range c.block.Args {
		spec.Args = append(spec.Args, t.Env.Replace(a))
	}
	said := &output{}
	spec.Stdout, spec.Stderr = said, said
	exit, err := t.Exec(ctx, spec)
	if err != nil {
		return err
	}
	out.Status, out.StatusCode, out.Output = structs.CheckFailure, exit.ExitCode, said.text()
	switch {
	case exit.Err != "":
		return fmt.Errorf("the command ended with %q", exit.Err)
	case exit.Signal != 0:
		return fmt.Errorf("the command was ended by signal %d", exit.Signal)
	case exit.ExitCode == 0 || exit.ExitCode == exitWarning && c.ignoresWarnings:
		out.Status = structs.CheckSuccess
	}
	return nil
}

// output keeps the beginning of what a command writes to both of its streams.
type output struct {
	mu   sync.Mutex
	kept []byte
}

// Write keeps what there is room for, and drops the rest.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, p[:min(len(p), maxOutput-len(o.kept))]...)
	return len(p), nil
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.ToValidUTF8(string(o.kept), "")
}
