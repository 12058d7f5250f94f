package pluginlock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/plaintext"
)

const (
	// holdEvery is how often it is looked whether a directory is free: the kernel would tell,
	// but a wait for it cannot be ended.
	holdEvery = 50 * time.Millisecond
	// maxProgram bounds what is shown of a program's name, in bytes.
	maxProgram = 32
)

// Hold waits until no other process changes a plugin directory by this package, and keeps
// others from it until release is called. When ctx ends before, the error says who does.
func Hold(ctx context.Context, dir string) (release func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(holdEvery)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { d.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			d.Close()
			return nil, fmt.Errorf("%s: flock: %w", dir, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			d.Close()
			return nil, fmt.Errorf("%s is being changed by %s: try again when it is done, or end it", dir, holder(dir))
		}
	}
}

// holder says for people which process holds a directory.
func holder(dir string) string {
	const unknown = "another process"
	var stat unix.Stat_t
	if unix.Stat(dir, &stat) != nil {
		return unknown
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return unknown
	}
	defer f.Close()
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// N: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END
		words := strings.Fields(lines.Text())
		if len(words) < 6 || words[1] != "FLOCK" || words[5] != file {
			continue
		}
		if pid, err := strconv.Atoi(words[4]); err == nil && pid > 0 { // one that can be seen from here
			return process(pid)
		}
	}
	return unknown
}

// process is what people see of a process.
func process(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("process %d (%s)", pid, plaintext.Line(strings.TrimSpace(string(name)), maxProgram))
}
