package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// harmless are the signals that end nobody who does not handle them.
var harmless = []syscall.Signal{
	syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG, syscall.SIGWINCH, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
}

// endsFirst reports whether a signal is to end the first process of a namespace, which
// takes a kill. One that has not become the command yet has no say.
func (p *process) endsFirst(number syscall.Signal) bool {
	if slices.Contains(harmless, number) {
		return false
	}
	return p.origin == nil || isKillForFirst(p.child.pid, number)
}

// isKillForFirst reports whether a signal that would end any other process never
// reaches this one: the kernel withholds from the first process of a namespace what it
// does not handle. A process that ignores or blocks it has said what it wants.
func isKillForFirst(pid int, s syscall.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false // it has gone
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "SigBlk", "SigIgn", "SigCgt":
			set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil || set&(1<<(s-1)) != 0 {
				return false
			}
		}
	}
	return true
}
