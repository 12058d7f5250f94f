package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/wasmnode/wasmnode/managers/catalog"
)

// weekEnv is how many short jobs a week has: "make week" has 100,000.
const weekEnv = "WASMNODE_WEEK"

// What a week has besides, for each of so many jobs: 2,000 reloads and 200 restarts.
const (
	jobsPerReload  = 50
	jobsPerRestart = 500
	daysPerWeek    = 7
	hoursPerDay    = 24
	minJobsPerHour = 50 // a day has fewer hours rather than fewer jobs in one
	minHoursPerDay = 5  // the first, and two of each half
)

// TestAWeek has a node do what a busy one does in a week, and wants nothing of it to grow. By
// day short jobs come and go, a plugin is replaced again and again while one of its tasks runs,
// another task's output fills its files, and the disk is full for a while; by night agents
// are killed, or end, one after another. Each job runs once. What is taken of memory, files,
// threads, inodes, mounts and cgroups is what it was: on the last day as on the second, and, as
// an agent lives for a day, in the second half of that day as in the first.
func TestAWeek(t *testing.T) {
	jobs := number(t, weekEnv, 0)
	if jobs == 0 {
		t.Skip("takes long: make week runs it")
	}
	w := newWeek(t, int(jobs))
	w.begin(t)
	var second, last [2]usage
	for day := range daysPerWeek {
		last = w.day(t)
		t.Logf("day %d: %s; later %s", day+1, last[0], last[1])
		if day == 1 {
			second = last
		}
		w.night(t)
	}
	w.end(t)
	assert.Empty(t, last[0].grown(second[0]))
	assert.Empty(t, last[1].grown(last[0]), "within a day")
}

// week is a node in its week.
type week struct {
	site     *site
	node     *node
	http     *http.Client
	disk     bool      // the data directory is on a disk that can be filled
	versions [2][]byte // of the plugin that is replaced
	ran      string    // a file with a line for each run of a short job: its name
	asked    int       // short jobs so far
	reloads  int
	hours    int // of a day
	perHour  int // short jobs
	restarts int // of a night
}

func newWeek(t *testing.T, jobs int) *week {
	t.Helper()
	dir, disk := campaignDir(t)
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	w := &week{site: newSiteIn(t, dir, "raw_exec"), http: &http.Client{Transport: transport}, disk: disk, ran: filepath.Join(dir, "ran")}
	perDay := max(1, jobs/daysPerWeek)
	w.hours = min(hoursPerDay, max(minHoursPerDay, perDay/minJobsPerHour))
	w.perHour = perDay / w.hours
	w.restarts = max(1, jobs/jobsPerRestart/daysPerWeek)
	content := driver(t, "mock")
	for i := range w.versions {
		w.versions[i] = append(append([]byte(nil), content...), 0, 3, 1, 'w', byte(i)) // a custom section, of no meaning
	}
	w.site.drop(t, "mock.wasm", w.versions[0])
	// Ended jobs are kept for as long as a week is longer than this test.
	w.site.grant(t, `event_log_level = "off"
enable_debug = true
server {
  job_gc_interval         = "2s"
  job_gc_threshold        = "10s"
  eval_gc_threshold       = "10s"
  batch_eval_gc_threshold = "10s"
  deployment_gc_threshold = "10s"
}
plugin "raw_exec" { grant { process { commands = ["/bin/sh"] } } }`)
	return w
}

// begin starts the node, and what runs all week.
func (w *week) begin(t *testing.T) {
	t.Helper()
	w.node = w.site.start(t)
	w.node.awaitDriver(t, "raw_exec", true)
	w.node.awaitDriver(t, "mock_driver", true)
	w.node.out(t, "job", "run", writeJob(t, "stays", "service", "mock_driver", `run_for = "1000h"`))
	writes := w.shell("writes", nomad.JobTypeService, `while :; do head -c 20000 /dev/zero | tr '\0' x; sleep 0.1; done`)
	_, _, err := w.api(t).Jobs().Register(writes, nil)
	require.NoError(t, err)
	w.node.await(t, "writes", "running")
}

func (w *week) api(t *testing.T) *nomad.Client {
	t.Helper()
	c, err := nomad.NewClient(&nomad.Config{Address: "http://" + w.node.address, HttpClient: w.http})
	require.NoError(t, err)
	return c
}

// shell is a job with a script.
func (w *week) shell(id, kind, script string) *nomad.Job {
	task := nomad.NewTask("task", "raw_exec").SetConfig("command", "/bin/sh").SetConfig("args", []string{"-c", script})
	task.Resources = &nomad.Resources{CPU: ptr(1), MemoryMB: ptr(10)}
	task.LogConfig = &nomad.LogConfig{MaxFiles: ptr(2), MaxFileSizeMB: ptr(1)}
	group := nomad.NewTaskGroup("group", 1).AddTask(task).RequireDisk(&nomad.EphemeralDisk{SizeMB: ptr(10)})
	job := &nomad.Job{ID: &id, Name: &id, Type: &kind, Datacenters: []string{"*"}}
	return job.AddTaskGroup(group)
}

// day is so many hours, which begin on a full disk. It returns the least that any hour of each half
// ended with: what grows has it grow, what comes and goes has not. In its first hour an agent comes
// to what it needs; that is of no half.
func (w *week) day(t *testing.T) (halves [2]usage) {
	t.Helper()
	if w.disk {
		w.fullDisk(t)
	}
	for hour := range w.hours {
		w.work(t, w.perHour)
		used := w.rest(t)
		if hour == 0 {
			continue
		}
		half := &halves[2*(hour-1)/(w.hours-1)]
		for i, n := range used {
			if half[i] == 0 || n < half[i] {
				half[i] = n
			}
		}
	}
	return halves
}

// fullDisk fills the disk, and wants a job to be refused that its database would have to grow for: what
// earlier jobs have left free in it is taken by others first. They start nothing, and are removed.
func (w *week) fullDisk(t *testing.T) {
	t.Helper()
	const most = 100
	var taken []string
	var err error
	w.site.fill(t, 0)
	for err == nil {
		job := w.shell(fmt.Sprintf("large-%d", len(taken)), nomad.JobTypeBatch, strings.Repeat("#", 2<<20))
		job.ParameterizedJob = &nomad.ParameterizedJobConfig{}
		if _, _, err = w.api(t).Jobs().Register(job, nil); err == nil {
			taken = append(taken, *job.ID)
		}
		require.Less(t, len(taken), most, "the disk is full")
	}
	require.ErrorContains(t, err, "the disk is full")
	w.site.free(t)
	for _, id := range taken {
		_, _, err := w.api(t).Jobs().Deregister(id, true, nil)
		require.NoError(t, err)
	}
}

// work has so many short jobs run, and the plugin replaced meanwhile.
func (w *week) work(t *testing.T, jobs int) {
	t.Helper()
	var all errgroup.Group
	all.SetLimit(8)
	api, first := w.api(t), w.asked
	for i := range jobs {
		all.Go(func() error {
			id := fmt.Sprintf("short-%d", first+i)
			_, _, err := api.Jobs().Register(w.shell(id, nomad.JobTypeBatch, "echo $NOMAD_JOB_NAME >>"+w.ran), nil)
			return err
		})
		if (first+i)%jobsPerReload == 0 {
			w.reload(t)
		}
	}
	require.NoError(t, all.Wait())
	w.asked += jobs
	w.allRan(t)
}

// allRan waits until all short jobs have run, and wants each to have run once.
func (w *week) allRan(t *testing.T) {
	t.Helper()
	var ran string
	eventually(t, func() error {
		if ran = readAny(t, w.ran); strings.Count(ran, "\n") < w.asked {
			return fmt.Errorf("%d jobs were asked for, and %d ran", w.asked, strings.Count(ran, "\n"))
		}
		return nil
	})
	runs := map[string]int{}
	for name := range strings.Lines(ran) {
		if runs[name]++; runs[name] == 2 {
			w.tellOf(t, strings.TrimSpace(name))
		}
	}
	require.Len(t, runs, w.asked)
	require.False(t, t.Failed())
}

// tellOf shows what is known of a job that ran twice.
func (w *week) tellOf(t *testing.T, job string) {
	t.Helper()
	allocs, _, err := w.api(t).Jobs().Allocations(job, true, nil)
	require.NoError(t, err)
	t.Errorf("%s ran twice, with %d allocations", job, len(allocs))
	for _, a := range allocs {
		for _, e := range a.TaskStates["task"].Events {
			t.Logf("%s %s: %s %s: %s", a.ID, a.ClientStatus, time.Unix(0, e.Time).UTC().Format(time.RFC3339Nano), e.Type, e.DisplayMessage)
		}
	}
}

// reload replaces the plugin, and waits until the other version is in service.
func (w *week) reload(t *testing.T) {
	t.Helper()
	w.reloads++
	content := w.versions[w.reloads%len(w.versions)]
	sum := sha256.Sum256(content)
	w.site.drop(t, "mock.wasm", content)
	eventually(t, func() error {
		var list []catalog.PluginStatus
		if _, err := w.api(t).Raw().Query("/v1/agent/plugins", &list, nil); err != nil {
			return err
		}
		for _, p := range list {
			if p.Digest == hex.EncodeToString(sum[:]) && p.State == catalog.StateHealthy {
				return nil
			}
		}
		return fmt.Errorf("the plugin was not replaced: %v", list)
	})
}

// rest waits until nothing is left of the short jobs, and looks at what the node takes then.
func (w *week) rest(t *testing.T) usage {
	t.Helper()
	require.NoError(t, w.api(t).System().GarbageCollect())
	eventually(t, func() error {
		jobs, _, err := w.api(t).Jobs().List(nil)
		if err != nil {
			return err
		}
		if len(jobs) != 2 {
			return fmt.Errorf("%d jobs are kept", len(jobs))
		}
		dirs, err := os.ReadDir(filepath.Join(w.site.data, "alloc"))
		if err != nil {
			return err
		}
		if len(dirs) != 2 {
			return fmt.Errorf("%d allocations are kept", len(dirs))
		}
		return nil
	})
	return w.site.usage(t, w.node)
}

// night ends agents, each while jobs begin.
func (w *week) night(t *testing.T) {
	t.Helper()
	for i := range w.restarts {
		id := fmt.Sprintf("short-%d", w.asked)
		_, _, err := w.api(t).Jobs().Register(w.shell(id, nomad.JobTypeBatch, "echo $NOMAD_JOB_NAME >>"+w.ran), nil)
		require.NoError(t, err)
		w.asked++
		if i%2 == 0 {
			require.Equal(t, -1, w.node.signal(t, syscall.SIGKILL))
		} else {
			require.Zero(t, w.node.signal(t, syscall.SIGTERM), w.node.log)
		}
		w.node = w.site.start(t)
	}
	w.node.awaitDriver(t, "mock_driver", true)
	w.node.await(t, "stays", "running")
	w.allRan(t)
}

// end wants what ran all week to be what ran when it began.
func (w *week) end(t *testing.T) {
	t.Helper()
	w.work(t, 0)
	w.rest(t)
	for _, job := range []string{"stays", "writes"} {
		allocs := w.node.allocs(t, job)
		require.Len(t, allocs, 1)
		assert.Zero(t, allocs[0].TaskStates["task"].Restarts, "restarts of %s", job)
	}
	t.Logf("%d jobs, %d reloads, %d restarts", w.asked, w.reloads, w.restarts*daysPerWeek)
}

// usage is what a node takes, in the order of usageNames.
type usage [10]int64

var usageNames = [len(usage{})]string{
	"KiB of the agent's heap", "KiB of the supervisor", "files of the agent", "files of the supervisor", "threads of the agent",
	"threads of the supervisor", "KiB of files", "inodes", "mounts", "cgroups",
}

func (u usage) String() string {
	said := make([]string, len(u))
	for i, n := range u {
		said[i] = fmt.Sprintf("%d %s", n, usageNames[i])
	}
	return strings.Join(said, ", ")
}

// usage looks at the processes and the files of a node.
func (s *site) usage(t *testing.T, n *node) (u usage) {
	t.Helper()
	for i, pid := range []int{n.cmd.Process.Pid, s.supervisorPID(t)} {
		p, err := procfs.NewProc(pid)
		require.NoError(t, err)
		memory, err := p.NewStatus()
		require.NoError(t, err)
		files, err := p.FileDescriptorsLen()
		require.NoError(t, err)
		stat, err := p.Stat()
		require.NoError(t, err)
		u[i], u[2+i], u[4+i] = int64(memory.RssAnon>>10), int64(files), int64(stat.NumThreads)
	}
	n.get(t, "/v1/agent/pprof/heap?gc=1")
	for name, bytes := range n.scrape(t) {
		if strings.HasPrefix(name, "nomad_runtime_alloc_bytes{") {
			u[0] = int64(bytes) >> 10 // garbage comes and goes
		}
	}
	require.NotZero(t, u[0], usageNames[0])
	require.NoError(t, filepath.WalkDir(s.data, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it has gone meanwhile
		}
		u[7]++
		if info, err := entry.Info(); err == nil && entry.Type().IsRegular() {
			u[6] += info.Size() >> 10
		}
		return nil
	}))
	u[8] = int64(strings.Count(read(t, "/proc/self/mountinfo"), " "+s.data))
	u[9] = int64(len(s.cgroups(t)))
	return u
}

// grown is what an earlier usage did not have, but for what is of no account: a sixth of memory
// and files, which come and go by the page, and some of each other thing: threads stay that once
// waited for a disk.
func (u usage) grown(before usage) (said []string) {
	for i, n := range u {
		room := int64(30)
		if strings.HasPrefix(usageNames[i], "KiB") {
			room = 2<<10 + before[i]/6
		}
		if n > before[i]+room {
			said = append(said, fmt.Sprintf("%d %s, and %d before", n, usageNames[i], before[i]))
		}
	}
	return said
}

func TestUsageThatGrowsIsNoticed(t *testing.T) {
	before := usage{30 << 10, 20 << 10, 40, 20, 12, 10, 20 << 10, 50, 4, 2}
	assert.Empty(t, before.grown(before))
	for i, name := range usageNames {
		after := before
		after[i] += max(31, after[i]/2)
		assert.Len(t, after.grown(before), 1, name)
	}
}
