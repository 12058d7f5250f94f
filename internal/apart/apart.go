// Package apart does a piece of work in a process of its own, which is this program again
// with bounds on its memory and time: whatever the work takes, it ends nothing but that
// process.
package apart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds are what a piece of work may take.
type Bounds struct {
	Bytes  uint64        // of memory
	Time   time.Duration // of processors, in whole seconds
	Answer int           // bytes; a longer one is cut off, and is no answer then
}

// LimitError is what a process took too much of, or how it ended without an answer.
type LimitError struct{ why string }

// Error is one line.
func (e *LimitError) Error() string { return e.why }

// Work is what is done in a process that was started for it: it answers arguments and
// input with what can be JSON.
type Work func(args []string, in []byte) any

// entered are the works that this program can be started for.
var entered = map[string]bool{}

// Enter is to be called first of all in main, or in TestMain. In a process that [Run] has
// started for a program of that name it does the work and does not return. It is not for
// concurrent use.
func Enter(program string, work Work) {
	entered[program] = available
	if os.Args[0] != program {
		return
	}
	answer, err := alone(os.Args[1:], work)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(answer)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Entered reports whether [Run] can start this program for that work: it called [Enter], and
// runs on Linux.
func Entered(program string) bool { return entered[program] }

// Run has a piece of work done, and decodes its answer. The process ends with the context, and
// with this one. It returns what was used of processors.
//
// # Errors
//
// A [LimitError]: the work takes more than it may, or ended the process. The context's.
func Run(ctx context.Context, program string, b Bounds, args []string, in []byte, answer any) (used time.Duration, err error) {
	// The kernel ends the process with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = append([]string{program, strconv.Itoa(len(in)), strconv.FormatUint(b.Bytes, 10), strconv.Itoa(int(b.Time / time.Second))}, args...)
	cmd.Env = []string{"GOGC=400"} // it lives for a second; its memory is bounded by other means
	cmd.SysProcAttr = attributes()
	cmd.Stdin = bytes.NewReader(in)
	out, complaint := firstBytes{most: b.Answer}, firstBytes{most: maxComplaint}
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case cmd.ProcessState == nil:
		return 0, fmt.Errorf("%s: the process could not be started: %w", program, err)
	case !cmd.ProcessState.Success():
		return 0, whyEnded(cmd.ProcessState, string(complaint.b), b)
	}
	err = json.Unmarshal(out.b, answer)
	switch {
	case err != nil && len(out.b) == b.Answer:
		return 0, &LimitError{fmt.Sprintf("its answer has more than %d bytes", b.Answer)}
	case err != nil:
		return 0, fmt.Errorf("%s: the answer: %w", program, err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// whyEnded is why a process ended without an answer: whatever it was, the work did it, or the
// machine has no room for it.
func whyEnded(state *os.ProcessState, complaint string, b Bounds) error {
	first, _, _ := strings.Cut(complaint, "\n")
	switch {
	case slices.ContainsFunc(shortOfMemory, func(words string) bool { return strings.Contains(complaint, words) }):
		return &LimitError{fmt.Sprintf("it takes more than %d MB of memory", b.Bytes>>20)}
	case state.ExitCode() == outOfTime,
		first == "" && state.UserTime()+state.SystemTime() > b.Time: // the kernel ends one that is too busy to end itself
		return &LimitError{fmt.Sprintf("it takes more than %d s of a processor", b.Time/time.Second)}
	case first == "":
		return &LimitError{fmt.Sprintf("its process ended with %v; the machine may be short of memory", state)}
	}
	return &LimitError{fmt.Sprintf("its process ended with %v: %s", state, first)}
}

// shortOfMemory is what a Go program says that gets no more memory: also when it is the stack of a
// thread for which there is none, or a queue of the garbage collector's, which Go 1.26 does not look
// for. What the work does itself is a panic, and is said otherwise.
var shortOfMemory = []string{"out of memory", "cannot allocate memory", "pthread_create failed", "SIGSEGV: segmentation violation\nPC="}

// outOfTime is the exit code of a process that has used the time that it has.
const outOfTime = 3

// alone is what the process does: it takes its bounds and its input.
func alone(args []string, work Work) (any, error) {
	if len(args) < 3 {
		return nil, errors.New("this program does what another process of it asks for, and nothing else")
	}
	size, err1 := strconv.Atoi(args[0])
	memory, err2 := strconv.ParseUint(args[1], 10, 64)
	seconds, err3 := strconv.Atoi(args[2])
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if err := limit(Bounds{Bytes: memory, Time: time.Duration(seconds) * time.Second}); err != nil {
		return nil, fmt.Errorf("bounding the process: %w", err)
	}
	in := make([]byte, size)
	if _, err := io.ReadFull(os.Stdin, in); err != nil {
		return nil, fmt.Errorf("reading the input: %w", err)
	}
	return work(args[3:], in), nil
}

// maxComplaint bounds what is kept of a process's standard error.
const maxComplaint = 64 << 10

// firstBytes keeps the first bytes of what a process writes.
type firstBytes struct {
	b    []byte
	most int
}

// Write implements [io.Writer].
func (f *firstBytes) Write(p []byte) (int, error) {
	f.b = append(f.b, p[:min(len(p), f.most-len(f.b))]...)
	return len(p), nil
}
