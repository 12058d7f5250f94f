package isolate

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload/process/forkexec"
	"github.com/wasmnode/wasmnode/workload/process/program"
)

// execute replaces this process by the command. The root and the user are the process's own by now.
func execute(s *Spec) error {
	file, err := findCommand(s)
	if err != nil {
		return err
	}
	var c forkexec.Calls
	executeFile(&c, file, s)
	return c.Make()
}

func changeDir(c *forkexec.Calls, s *Spec) {
	c.Add(explainFailed("working directory "+s.Dir), unix.SYS_CHDIR, c.Text(s.Dir))
}

// executeFile adds what replaces a process by a command, which the calling thread sees too.
func executeFile(c *forkexec.Calls, file string, s *Spec) {
	setLimits(c, s.Limits) // the last, since they may be too tight for what comes before
	_, statErr := os.Stat(file)
	c.Add(func(err syscall.Errno) error {
		switch {
		case err == unix.ENOENT && statErr == nil:
			return abi.NewError(abi.NotFound, fmt.Sprintf("command %s: its interpreter or loader is not in the task's root", file))
		case err == unix.ENOEXEC:
			return abi.NewError(abi.InvalidArgument, fmt.Sprintf("command %s: neither a program of this machine nor a script with #!", file))
		}
		return failed("command "+file, err)
	}, unix.SYS_EXECVE, c.Text(file), c.Texts(s.Args), c.Texts(s.Env))
}

// findCommand returns the path of the command in the root.
func findCommand(s *Spec) (string, error) {
	if path.IsAbs(s.Command) {
		return s.Command, nil
	}
	if strings.Contains(s.Command, "/") {
		return path.Join("/", s.Command), nil
	}
	search := slices.Concat(s.Search, program.SearchPath(s.Env))
	if file, ok := program.Find(s.Command, search); ok {
		return file, nil
	}
	return "", abi.NewError(abi.NotFound, fmt.Sprintf("command %s: the task has no such program in %s", s.Command, strings.Join(search, ", ")))
}
