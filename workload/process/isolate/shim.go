package isolate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload/namespace"
	"github.com/wasmnode/wasmnode/workload/process/forkexec"
	"github.com/wasmnode/wasmnode/workload/process/program"
)

// Program is the argument 0 by which this program knows that it is the new process.
const Program = "wasmnode: isolating"

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
	if len(os.Args) > 1 && os.Args[1] == Isolator {
		if err := isolator(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	report := os.NewFile(reportFD, "report")
	_ = json.NewEncoder(report).Encode(abi.Flat(run())) // whoever reads it may have ended
	os.Exit(1)
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
	return becomeAndExecute(&spec)
}

// becomeAndExecute replaces this process by the command.
func becomeAndExecute(s *Spec) error {
	if err := adjustOOMScore(s.OOMScoreAdj); err != nil {
		return err
	}
	if s.OwnNetwork {
		if err := namespace.StartLoopback(); err != nil {
			return failed("a network of its own", err)
		}
	}
	become := becomeBare
	if s.Join {
		become = joinTask
	}
	var c forkexec.Calls
	keepOnCores(&c, s.CPUs)
	if err := become(&c, s); err != nil {
		return err
	}
	if err := c.Make(); err != nil {
		return err
	}
	return execute(s)
}

// keepOnCores adds what a process, and all that it starts, is kept on processors by; none: on all that it may use.
func keepOnCores(c *forkexec.Calls, mask []uint64) {
	if len(mask) > 0 {
		c.Add(explain("cores"), unix.SYS_SCHED_SETAFFINITY, 0, uintptr(8*len(mask)), forkexec.Keep(c, &mask[0]))
	}
}

// limitFiles leaves no memory images behind: they may hold secrets, and whoever
// collects them on the node does so outside of the root.
func limitFiles(c *forkexec.Calls) {
	setLimit(c, explain("limit of memory images"), unix.RLIMIT_CORE, unix.Rlimit{})
}

// endWithParent adds what has a process killed at the death of the thread that forked it, also
// when that has come already: a change of user took the parent's signal away. The parent's number may
// be 0 here, so a file tells: the other end of a pipe, which lost its reader, or the pidfd of the parent.
func endWithParent(c *forkexec.Calls, fd int) {
	prctl(c, "parent-death signal", unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	file, now, blocked := &unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}, new(unix.Timespec), &unix.Sigset_t{Val: [16]uint64{^uint64(0)}}
	c.AddExpecting(0, func(syscall.Errno) error { return errors.New("the supervisor has ended") },
		unix.SYS_PPOLL, forkexec.Keep(c, file), 1, forkexec.Keep(c, now), forkexec.Keep(c, blocked), 8)
}

// failed is the error for what could not be done, recoverable if it may succeed later.
func failed(what string, err error) error {
	return program.Failure(what, err, abi.FailedPrecondition)
}
