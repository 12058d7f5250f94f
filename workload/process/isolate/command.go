package isolate

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload/process/program"
)

// execute replaces this process by the command. The root and the user are the process's own by now.
func execute(s *Spec) error {
	if err := unix.Chdir(s.Dir); err != nil {
		return failed(workingDir(s), err)
	}
	file, err := findCommand(s)
	if err != nil {
		return err
	}
	if err := setLimits(s.Limits); err != nil { // the last, since they may be too tight for what comes before
		return err
	}
	err = unix.Exec(file, s.Args, s.Env)
	_, statErr := os.Stat(file)
	return notExecuted(file, statErr == nil, err)
}

func workingDir(s *Spec) string { return "working directory " + s.Dir }

// notExecuted is the error for a command, which is there or not, that was not executed.
func notExecuted(file string, isThere bool, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT) && isThere:
		return abi.NewError(abi.NotFound, fmt.Sprintf("command %s: its interpreter or loader is not in the task's root", file))
	case errors.Is(err, unix.ENOEXEC):
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("command %s: neither a program of this machine nor a script with #!", file))
	}
	return failed("command "+file, err)
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
