package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// nonFatal are the signals whose default action does not end a process.
var nonFatal = []syscall.Signal{
	syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG, syscall.SIGWINCH, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
}

// disposition is what a process does with a signal.
type disposition int

const (
	handled   disposition = iota // it handles or ignores it
	waiting                      // it sleeps and blocks it, to wait for it
	deadly                       // it ends by it
	undecided                    // it blocks the signal for a moment, as a shell does while it forks
)

// initDisposition is that of the init process of a PID namespace. The kernel withholds
// from it what it does not handle, also what it blocked when the signal was sent: a
// signal that would end any other process takes a kill. One that has not executed the
// command yet ends by every signal.
//
// The kernel does not write a process's status at one moment: one that woke up meanwhile
// seems to sleep with what it blocks awake. So it counts only when it has not run since it
// was looked at before; ran keeps that.
func (p *process) initDisposition(number syscall.Signal, ran *string) disposition {
	switch {
	case slices.Contains(nonFatal, number):
		return handled
	case p.origin == nil:
		return deadly
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.child.pid))
	if err != nil {
		return handled // it has gone
	}
	does, now := dispositionIn(string(status), number)
	if does == waiting {
		does = undecided
		if now == *ran {
			does = handled
		}
	}
	*ran = now
	return does
}

// dispositionIn reads a process's status, as /proc has it, and how often the process ran.
func dispositionIn(status string, number syscall.Signal) (does disposition, ran string) {
	blocked, waits := false, false
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "State":
			waits = strings.HasPrefix(value, "S")
		case "SigBlk", "SigIgn", "SigCgt":
			set, err := strconv.ParseUint(value, 16, 64)
			has := set&(1<<(number-1)) != 0
			if err != nil || has && name != "SigBlk" {
				return handled, ""
			}
			blocked = blocked || has
		case "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches":
			ran += value + " "
		}
	}
	switch {
	case !blocked:
		return deadly, ran
	case waits:
		return waiting, ran
	}
	return undecided, ran
}

// A process that blocks a signal is looked at that often, and that long: it is far more
// than a shell takes to start a command.
const (
	undecidedInterval = time.Millisecond
	undecidedTime     = time.Second
)
