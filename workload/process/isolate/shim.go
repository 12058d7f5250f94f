package isolate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload/namespace"
	"github.com/wasmnode/wasmnode/workload/process/program"
)

// Program is the argument 0 by which this program knows that it is the new process.
const Program = "wasmnode: isolating"

// CloneFlags are the namespaces that the new process wants to have been made.
const CloneFlags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// The file descriptors that the new process has besides its standard ones.
const (
	specFD   = 3 // a Spec comes from here
	reportFD = 4 // an abi.Error goes here; closed by the command's beginning
)

// A process that was started as [Program] ends here. It does not wait for main: before that come the
// initializations of all other packages, which take many times as long as what it is to do. Go does
// them in the order of dependencies and then of names, so what this package imports is what it waits for.
func init() {
	if len(os.Args) == 0 || os.Args[0] != Program {
		return
	}
	// What follows drops privileges of this thread, and execve keeps this one alone.
	runtime.LockOSThread()
	report := os.NewFile(reportFD, "report")
	if err := run(); err != nil {
		_ = json.NewEncoder(report).Encode(abi.Flat(err))
		os.Exit(1)
	}
	os.Exit(0)
}

// run returns only when the command cannot be executed.
func run() error {
	if err := unix.CloseRange(specFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("closing files: %w", err)
	}
	var spec Spec
	if err := json.NewDecoder(os.NewFile(specFD, "spec")).Decode(&spec); err != nil {
		return fmt.Errorf("reading the spec: %w", err)
	}
	return isolateAndExecute(&spec)
}

// isolateAndExecute replaces this process by the command, in a root and with privileges of the
// command's own.
func isolateAndExecute(s *Spec) error {
	if err := adjustOOMScore(s.OOMScoreAdj); err != nil {
		return err
	}
	if s.OwnNetwork {
		if err := namespace.StartLoopback(); err != nil {
			return failed("a network of its own", err)
		}
	}
	if s.Bare {
		return becomeAndExecute(s)
	}
	enter := enterRoot
	if s.Join {
		enter = func(*Spec) error { return join() }
	}
	if err := enter(s); err != nil {
		return err
	}
	if err := limitFiles(); err != nil {
		return err
	}
	if err := dropPrivileges(s.User, s.AddCapabilities, s.DropCapabilities); err != nil {
		return err
	}
	if err := endWithParent(); err != nil {
		return err
	}
	// A command that joins could see nothing of the processes if it was in a scope beside theirs.
	if !s.Join {
		if err := scopeSockets(); err != nil {
			return err
		}
	}
	if err := filterSyscalls(); err != nil {
		return err
	}
	if s.Command == "" {
		return nil
	}
	return execute(s)
}

// limitFiles leaves no memory images behind: they may hold secrets, and whoever
// collects them on the node does so outside of the root.
func limitFiles() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("limit of memory images: %w", err)
	}
	return nil
}

// endWithParent has the process killed at the death of the thread that forked it, also
// when that has come already: a change of user took the parent's signal away.
func endWithParent() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("parent-death signal: %w", err)
	}
	// There is no receiver any more: the parent, whose number is 0 here, has gone.
	listener := []unix.PollFd{{Fd: reportFD}}
	if _, err := unix.Poll(listener, 0); err == nil && listener[0].Revents&unix.POLLERR != 0 {
		return errors.New("the supervisor has ended")
	}
	return nil
}

// failed is the error for what could not be done, recoverable if it may succeed later.
func failed(what string, err error) error {
	return program.Failure(what, err, abi.FailedPrecondition)
}
