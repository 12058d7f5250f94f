package bench

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clockTick is the unit of times in /proc, which Linux never changes.
const clockTick = time.Second / 100

// running returns the processes that run a file.
func running(b *testing.B, exe string) (pids []int) {
	b.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(b, err)
	for _, dir := range dirs {
		// One that has just ended has no file any more.
		if target, err := os.Readlink(filepath.Join(dir, "exe")); err == nil && target == exe {
			pid, err := strconv.Atoi(filepath.Base(dir))
			require.NoError(b, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// privateMemory is how many bytes of memory would be free without the processes.
func privateMemory(b *testing.B, pids []int) (bytes float64) {
	b.Helper()
	for _, pid := range pids {
		file, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		require.NoError(b, err)
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			if fields[0] != "Private_Clean:" && fields[0] != "Private_Dirty:" {
				continue
			}
			kib, err := strconv.ParseFloat(fields[1], 64)
			require.NoError(b, err)
			bytes += kib * 1024
		}
		require.NoError(b, lines.Err())
		require.NoError(b, file.Close())
	}
	return bytes
}

// cpuTime is how long the processes have computed, for themselves and in the kernel.
func cpuTime(b *testing.B, pids []int) time.Duration {
	b.Helper()
	var ticks int64
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		require.NoError(b, err)
		// The name, the second field, is in parentheses and may have spaces.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		for _, field := range fields[11:13] { // utime and stime
			n, err := strconv.ParseInt(field, 10, 64)
			require.NoError(b, err)
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick
}

// mountsBelow returns what is mounted in a directory, the last first.
func mountsBelow(b *testing.B, dir string) (paths []string) {
	b.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(b, err)
	for line := range strings.Lines(string(table)) {
		if path := strings.Fields(line)[4]; strings.HasPrefix(path, dir+"/") {
			paths = append([]string{path}, paths...)
		}
	}
	return paths
}
