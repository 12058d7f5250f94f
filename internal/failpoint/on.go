//go:build failpoint

package failpoint

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// The environment's variable, read once.
var (
	process = "other"
	deadly  string
	left    atomic.Int64 // times that the deadly point is passed, the last included
	mark    = os.Getenv("WASMNODE_FAILPOINT_MARK")
	log     *os.File // nil: none is wanted
)

func init() {
	if len(os.Args) > 1 {
		process = os.Args[1]
	}
	name, times, _ := strings.Cut(os.Getenv("WASMNODE_FAILPOINT"), ":")
	deadly = name
	n, err := strconv.ParseInt(times, 10, 64)
	if name != "" && (err != nil || n < 1) {
		panic("WASMNODE_FAILPOINT is PROCESS/POINT:TIMES, with at least one time")
	}
	left.Store(n)
	if path := os.Getenv("WASMNODE_FAILPOINT_LOG"); path != "" {
		if log, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			panic(err)
		}
	}
}

// Here is a point that a process may be killed at. Its name is made of the parts, of a
// path only the last element. It may be called concurrently.
func Here(parts ...string) {
	name := process + "/" + filepath.Base(parts[0])
	for _, part := range parts[1:] {
		name += "." + filepath.Base(part)
	}
	if log != nil {
		_, _ = log.WriteString(name + "\n") // one write, so that lines stay whole
	}
	if name == deadly && left.Add(-1) == 0 && isFirst() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

// isFirst reports whether no process has died here yet.
func isFirst() bool {
	if mark == "" {
		return true
	}
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	_ = f.Close() // it is empty
	return true
}
