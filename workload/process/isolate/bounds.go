package isolate

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload/process/forkexec"
)

// resources are the limits that a process may be given, by name: those by which it gets nothing
// of another's.
var resources = map[string]int{
	"as": unix.RLIMIT_AS, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA, "fsize": unix.RLIMIT_FSIZE,
	"memlock": unix.RLIMIT_MEMLOCK, "nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC, "stack": unix.RLIMIT_STACK,
}

// LimitNames are the names of the limits that a process may be given.
func LimitNames() []string { return slices.Sorted(maps.Keys(resources)) }

// HardLimit returns how high a limit of that name may be here; false: there is none of the name.
func HardLimit(name string) (hard uint64, known bool) {
	resource, known := resources[name]
	if !known {
		return 0, false
	}
	var own unix.Rlimit
	if err := unix.Getrlimit(resource, &own); err != nil {
		return 0, true
	}
	return own.Max, true
}

// setLimits sets those of this process. What Go would set back, as the process began with it, is meant then.
func setLimits(limits []Limit) error {
	for _, l := range limits {
		if err := unix.Setrlimit(resources[l.Name], &unix.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return failed("limit "+l.Name, err)
		}
	}
	return nil
}

func setLimit(c *forkexec.Calls, explain func(syscall.Errno) error, resource int, to unix.Rlimit) {
	c.Add(explain, unix.SYS_PRLIMIT64, 0, uintptr(resource), forkexec.Keep(c, &to), 0)
}

// startedWith is the limit of open files that this process began with; nil: that cannot be found out.
// Go's runtime raises it for this process, and gives it back to what package syscall starts only. So it is
// seen in a process that is started like that and does not come to do anything.
var startedWith = sync.OnceValue(func() *unix.Rlimit {
	runtime.LockOSThread() // which traces the process
	defer runtime.UnlockOSThread()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{Program}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return nil
	}
	_, err = syscall.Wait4(pid, nil, 0, nil) // until it is stopped
	limit := new(unix.Rlimit)
	err = errors.Join(err, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, limit), unix.Kill(pid, unix.SIGKILL))
	_, _ = syscall.Wait4(pid, nil, 0, nil)
	if err != nil {
		return nil
	}
	return limit
})

// adjustOOMScore is called while the node's /proc is there, and with the privileges that make
// it the least that the process can set itself.
func adjustOOMScore(score int) error {
	if score == 0 {
		return nil
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(score)), 0); err != nil {
		return fmt.Errorf("oom_score_adj: %w", err)
	}
	return nil
}
