package agent_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/workload/process"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

// BenchmarkStages says where the processor's time of a start goes, from a job's registration
// until all of its 200 processes are seen to run, and what those take themselves until they have
// ended: a table of stages, and beside it what the kernel alone takes for the same processes, each
// in a cgroup. Time of a processor is what is counted, since it is nearly the same while the machine
// does much else. As root; TMPDIR is the disk.
func BenchmarkStages(b *testing.B) {
	if process.ParentCgroup() == "" {
		b.Skip("cgroups cannot be made here")
	}
	for _, driver := range []string{"raw_exec", "exec"} {
		b.Run(driver, func(b *testing.B) { benchmarkStages(b, driver) })
	}
}

func benchmarkStages(b *testing.B, driver string) {
	const tasks = 200
	a := agenttest.Start(b, agenttest.Options{
		Drivers: []string{driver}, Supervisor: []string{buildBinary(b), "supervisor"},
		Config: `plugin "exec" {
  grant {
    process {
      commands  = ["/bin/sleep"]
      users     = ["nobody"]
      isolation = "full"
    }
  }
}`,
	})
	s := &stages{Agent: a, driver: driver, spent: map[string]*spent{}}
	s.start(b, "first", 1)
	stop(b, a, "first")
	s.supervisor = supervisorOf(b, a)
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint("job-", i)
		ended := usedBy(b, s.supervisor).children
		s.measured(b, func() { s.start(b, id, tasks) })
		b.StopTimer()
		stop(b, a, id)
		s.tasks += usedBy(b, s.supervisor).children - ended
		s.bare(b, tasks)
		b.StartTimer()
	}
	s.report(b, b.N*tasks)
}

// buildBinary builds what owns the tasks.
func buildBinary(b *testing.B) string {
	binary := filepath.Join(b.TempDir(), "wasmnode")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, "../cmd/wasmnode")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as releases are
	out, err := build.CombinedOutput()
	require.NoError(b, err, string(out))
	return binary
}

func supervisorOf(b *testing.B, a *agenttest.Agent) (pid int) {
	text, err := os.ReadFile(filepath.Join(a.Data, "supervisor", "lock"))
	require.NoError(b, err)
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(b, err)
	b.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGTERM) })
	return pid
}

// spent is time of a processor, and the part of it in the kernel; unknown: it was not told apart.
type spent struct {
	all, kernel time.Duration
	children    time.Duration // of those that have ended
}

const unknown = -1

func (s *spent) add(o spent) { s.all, s.kernel = s.all+o.all, s.kernel+o.kernel }

// stages is what starts cost so far.
type stages struct {
	*agenttest.Agent
	driver     string
	supervisor int

	spent  map[string]*spent // of this process, as it was sampled
	own    spent             // of this process, as the kernel counted
	helper spent             // of the supervisor
	tasks  time.Duration     // of the processes
	alone  time.Duration     // of the same without us
	memory runtime.MemStats  // what was allocated meanwhile
	writes uint64            // calls of this process that write
}

// start runs a job and returns when all of it is seen to run.
func (s *stages) start(b *testing.B, id string, count int) {
	job := agenttest.Job(id, s.driver, map[string]any{"command": "/bin/sleep", "args": []string{"100000"}})
	job.TaskGroups[0].Count = &count
	_, _, err := s.Client.Jobs().Register(job, nil)
	require.NoError(b, err)
	require.Eventually(b, func() bool {
		summary, _, err := s.Client.Jobs().Summary(id, nil)
		return err == nil && summary.Summary["group"].Running == count
	}, 2*time.Minute, 20*time.Millisecond)
}

// measured adds what happens meanwhile.
func (s *stages) measured(b *testing.B, do func()) {
	var profile bytes.Buffer
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	own, helper, writes := usedBy(b, os.Getpid()), s.usedByHelpers(b), writesOf(b)
	require.NoError(b, pprof.StartCPUProfile(&profile))
	do()
	pprof.StopCPUProfile()
	s.writes += writesOf(b) - writes
	for _, p := range []struct{ now, before, into *spent }{
		{new(usedBy(b, os.Getpid())), &own, &s.own}, {new(s.usedByHelpers(b)), &helper, &s.helper},
	} {
		p.into.add(spent{all: p.now.all - p.before.all, kernel: p.now.kernel - p.before.kernel})
	}
	runtime.ReadMemStats(&after)
	s.memory.TotalAlloc += after.TotalAlloc - before.TotalAlloc
	s.memory.Mallocs += after.Mallocs - before.Mallocs
	s.sample(b, profile.Bytes())
}

// usedByHelpers is what the supervisor has used, and what isolates processes for it.
func (s *stages) usedByHelpers(b *testing.B) spent {
	used := usedBy(b, s.supervisor)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.supervisor, s.supervisor))
	require.NoError(b, err)
	for child := range strings.FieldsSeq(string(children)) {
		if line, err := os.ReadFile("/proc/" + child + "/cmdline"); err == nil && strings.HasPrefix(string(line), isolate.Program) {
			pid, err := strconv.Atoi(child)
			require.NoError(b, err)
			used.add(usedBy(b, pid))
		}
	}
	return used
}

// usedBy is what a process has used, itself.
func usedBy(b *testing.B, pid int) spent {
	const tick = time.Second / 100 // the unit of times in /proc, which Linux never changes
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var times [4]time.Duration // in user mode and in the kernel: its own, and its children's
	for i := range times {
		ticks, err := strconv.Atoi(fields[11+i])
		require.NoError(b, err)
		times[i] = time.Duration(ticks) * tick
	}
	return spent{all: times[0] + times[1], kernel: times[1], children: times[2] + times[3]}
}

func writesOf(b *testing.B) (n uint64) {
	text, err := os.ReadFile("/proc/self/io")
	require.NoError(b, err)
	for line := range strings.Lines(string(text)) {
		if count, is := strings.CutPrefix(line, "syscw: "); is {
			n, err = strconv.ParseUint(strings.TrimSpace(count), 10, 64)
			require.NoError(b, err)
		}
	}
	return n
}

// bare starts as many of the same processes, each in a cgroup, and nothing else.
func (s *stages) bare(b *testing.B, count int) {
	top := filepath.Join("/sys/fs/cgroup", fmt.Sprint("wasmnode-bench-", os.Getpid()))
	if _, err := os.Stat("/sys/fs/cgroup/unified"); err == nil {
		top = filepath.Join("/sys/fs/cgroup/unified", filepath.Base(top))
	}
	require.NoError(b, os.Mkdir(top, 0o755))
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(b, err)
	defer null.Close()
	var pids []int
	before, ended := usedBySelf(b, syscall.RUSAGE_SELF), usedBySelf(b, syscall.RUSAGE_CHILDREN)
	for i := range count {
		group := filepath.Join(top, strconv.Itoa(i))
		require.NoError(b, os.Mkdir(group, 0o755))
		dir, err := os.Open(group)
		require.NoError(b, err)
		pid, err := syscall.ForkExec("/bin/sleep", []string{"/bin/sleep", "100000"}, &syscall.ProcAttr{
			Files: []uintptr{null.Fd(), null.Fd(), null.Fd()},
			Sys:   &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(dir.Fd())},
		})
		require.NoError(b, err)
		require.NoError(b, dir.Close())
		pids = append(pids, pid)
	}
	s.alone += usedBySelf(b, syscall.RUSAGE_SELF) - before
	for i, pid := range pids {
		awaitAsleep(b, pid)
		require.NoError(b, syscall.Kill(pid, syscall.SIGKILL))
		_, err := syscall.Wait4(pid, nil, 0, nil)
		require.NoError(b, err)
		require.NoError(b, os.Remove(filepath.Join(top, strconv.Itoa(i))))
	}
	s.alone += usedBySelf(b, syscall.RUSAGE_CHILDREN) - ended
	require.NoError(b, os.Remove(top))
}

// awaitAsleep returns when a process has executed what then sleeps.
func awaitAsleep(b *testing.B, pid int) {
	require.Eventually(b, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		require.NoError(b, err)
		return bytes.Contains(stat, []byte("(sleep) S"))
	}, time.Minute, time.Millisecond)
}

// usedBySelf is what this process, or those that it has waited for, have used.
func usedBySelf(b *testing.B, who int) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(who, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// ownShare is what this benchmark itself takes, as a client of the agent.
const ownShare = "the benchmark's own"

// stageNames are the packages of each stage. The innermost function of a sample that is of any
// of them decides: that of encoding/json is of whoever encodes.
var stageNames = []struct {
	stage    string
	prefixes []string
}{
	{ownShare, []string{"github.com/hashicorp/nomad/api", "github.com/wasmnode/wasmnode/agent_test"}},
	{"HTTP API", []string{"github.com/wasmnode/wasmnode/httpapi", "github.com/wasmnode/wasmnode/clientapi"}},
	{"control plane", []string{"github.com/wasmnode/wasmnode/controlplane"}},
	{"store", []string{"go.etcd.io/bbolt", "github.com/wasmnode/wasmnode/internal/boltfile", "github.com/wasmnode/wasmnode/state"}},
	{"node", []string{"github.com/wasmnode/wasmnode/node"}},
	{"runner: directories", []string{"github.com/wasmnode/wasmnode/runners/allocdir"}},
	{"runner: environment", []string{"github.com/wasmnode/wasmnode/runners/taskenv"}},
	{"runner", []string{"github.com/wasmnode/wasmnode/runners"}},
	{"plugin: its code", []string{"runtime._ExternalCode", "github.com/tetratelabs/wazero"}},
	{"plugin: host", []string{"github.com/wasmnode/wasmnode/host", "github.com/wasmnode/wasmnode/managers", "github.com/wasmnode/wasmnode/sandbox"}},
	{"calls of the supervisor", []string{"github.com/wasmnode/wasmnode/workload"}},
	{"the agent's other parts", []string{"github.com/wasmnode/wasmnode/"}},
	{"HTTP, either side", []string{"net/http"}},
	{"memory", []string{"runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.gcMarkDone"}},
}

// sample adds the samples of a profile to their stages.
func (s *stages) sample(b *testing.B, profile []byte) {
	file := filepath.Join(b.TempDir(), "cpu")
	require.NoError(b, os.WriteFile(file, profile, 0o600))
	text, err := exec.Command("go", "tool", "pprof", "-traces", "-symbolize=none", file).Output()
	require.NoError(b, err)
	_, text, _ = bytes.Cut(text, []byte("-----------+")) // what it is a profile of
	for trace := range strings.SplitSeq(string(text), "-----------+") {
		s.addTrace(b, trace)
	}
}

// addTrace adds one stack: its time and the innermost function are in the first line.
func (s *stages) addTrace(b *testing.B, trace string) {
	var took time.Duration
	var stack []string
	for lines := bufio.NewScanner(strings.NewReader(trace)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "---") {
			continue
		}
		if took == 0 {
			var err error
			took, err = time.ParseDuration(fields[0])
			require.NoError(b, err, trace)
			fields = fields[1:]
		}
		stack = append(stack, fields[0])
	}
	if took == 0 {
		return
	}
	stage := stageOf(stack)
	if s.spent[stage] == nil {
		s.spent[stage] = &spent{}
	}
	s.spent[stage].all += took
	if isKernel(stack[0]) {
		s.spent[stage].kernel += took
	}
}

func stageOf(stack []string) string {
	for _, function := range stack {
		for _, stage := range stageNames {
			if slices.ContainsFunc(stage.prefixes, func(p string) bool { return strings.HasPrefix(function, p) }) {
				return stage.stage
			}
		}
	}
	return "Go's scheduler"
}

// isKernel tells a function that a sample ends in while the kernel works for it.
func isKernel(function string) bool {
	return strings.Contains(function, "yscall6") || slices.Contains([]string{"runtime.futex", "runtime.epollwait", "runtime.usleep", "runtime.madvise"}, function)
}

// report prints the table of so many starts.
func (s *stages) report(b *testing.B, starts int) {
	ms := func(d time.Duration) float64 { return milliseconds(d) / float64(starts) }
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, cost spent) {
		kernel := "?"
		if cost.kernel != unknown {
			kernel = fmt.Sprintf("%.3f", ms(cost.kernel))
		}
		fmt.Fprintf(table, "%s\t%.3f\t%s\t\n", name, ms(cost.all), kernel)
	}
	fmt.Fprint(table, "ms of a start\tall\tkernel\t\n")
	total := s.own.all + s.helper.all + s.tasks
	for name, cost := range s.ordered() {
		row(name, *cost)
		if name == ownShare {
			total -= cost.all
		}
	}
	row("supervisor", s.helper)
	row("the process itself", spent{all: s.tasks, kernel: unknown})
	row("all but the benchmark's own", spent{all: total, kernel: unknown})
	row("fork, exec and cgroup alone", spent{all: s.alone, kernel: unknown})
	require.NoError(b, table.Flush())
	fmt.Fprintf(&text, "of the agent, a start: %.0f KiB in %d objects allocated, %.1f calls that write",
		float64(s.memory.TotalAlloc)/1024/float64(starts), s.memory.Mallocs/uint64(starts), float64(s.writes)/float64(starts))
	_, _ = fmt.Fprintln(os.Stdout, "\n"+text.String()) // a benchmark is cut off after ten lines
	b.ReportMetric(ms(total), "ms-cpu/start")
	b.ReportMetric(total.Seconds()/s.alone.Seconds(), "×-bare")
	b.ReportMetric(2, "×-bare-allowed")
}

// ordered yields the stages, those that cost most first.
func (s *stages) ordered() func(yield func(string, *spent) bool) {
	var names []string
	for name := range s.spent {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int { return int(s.spent[y].all - s.spent[x].all) })
	return func(yield func(string, *spent) bool) {
		for _, name := range names {
			if !yield(name, s.spent[name]) {
				return
			}
		}
	}
}
