package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/workload/supervisor"
)

// failpointBinary builds the binary whose failpoints work, once.
var failpointBinary = sync.OnceValues(func() (string, error) {
	path := binary + "-failpoint"
	out, err := exec.Command("go", "build", "-tags", "failpoint", "-o", path, ".").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, err
})

// crashWorld is a node that is killed again and again, and what was asked of it.
type crashWorld struct {
	site       *site
	node       *node // the agent that runs; nil: none
	program    string
	supervisor *supervisor.Client // to look at it; it starts none
	http       *http.Client
	kills      int // of the supervisor, so far
	made       int
	jobs       map[string]*crashJob // by the ID
	kept       []string             // of the job that moves: the allocations whose data it has
}

func newCrashWorld(t *testing.T) *crashWorld {
	t.Helper()
	return newCrashWorldIn(t, t.TempDir())
}

func newCrashWorldIn(t *testing.T, dir string) *crashWorld {
	t.Helper()
	path, err := failpointBinary()
	require.NoError(t, err)
	w := &crashWorld{site: newSiteIn(t, dir, "wasi", "raw_exec"), jobs: map[string]*crashJob{}}
	w.site.binary = path
	w.site.grant(t, `plugin "raw_exec" { grant { process { commands = ["/bin/sh"] } } }
plugin "beside" { grant { process { commands = ["/bin/sh"] } } }`)
	w.site.drop(t, "beside.wasm", guestbuild.Plugin(t, "cmd/wasmnode/testdata/beside"))
	w.program = filepath.Join(w.site.programs, "crash.wasm")
	write(t, w.program, string(guestbuild.Program(t, "cmd/wasmnode/testdata/crash")))
	w.supervisor = supervisor.NewClient(supervisor.ClientConfig{
		Logger: hclog.NewNullLogger(), Socket: supervisor.Socket(w.supervisorDir()),
		Launch: func(context.Context) error { return errors.New("none is to be started") },
	})
	transport := &http.Transport{}
	w.http = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, w.supervisor.Close())
	})
	return w
}

func (w *crashWorld) supervisorDir() string { return filepath.Join(w.site.data, "supervisor") }

// command is the agent, with an environment of its own.
func (w *crashWorld) command(env ...string) *exec.Cmd {
	cmd := exec.Command(w.site.binary, "agent", "-http-addr", "127.0.0.1:0", "-config", w.site.config)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// start starts the agent and waits until it is ready.
func (w *crashWorld) start(t *testing.T) {
	t.Helper()
	w.node = startProcess(t, w.command())
}

// killAgent kills the agent.
func (w *crashWorld) killAgent(t *testing.T) {
	t.Helper()
	require.Equal(t, -1, w.node.signal(t, syscall.SIGKILL))
	w.node = nil
}

// api is a client of the agent that runs.
func (w *crashWorld) api(t *testing.T) *nomad.Client {
	t.Helper()
	c, err := nomad.NewClient(&nomad.Config{Address: "http://" + w.node.address, HttpClient: w.http})
	require.NoError(t, err)
	return c
}

// crashJob is what was asked for, and what was seen of it.
type crashJob struct {
	id          string
	process     bool // or a program
	kind        crashKind
	killsBefore int    // kills of the supervisor before
	unsure      bool   // whether it was registered
	stopped     bool   // which was acknowledged, or seen
	alloc       string // its one allocation, once it was seen
	bulk        int    // bytes that describing it takes besides
}

// crashKind is what the task of a job does.
type crashKind struct {
	name     string
	lines    int
	every    string // time between two lines, in seconds
	code     int
	attempts int // of the restart policy
	status   string
}

var (
	runsOn = crashKind{"runs-on", 1_000_000, "0.02", 0, 1000, nomad.AllocClientStatusRunning}
	ends   = crashKind{"ends", 15, "0.01", 0, 1000, nomad.AllocClientStatusComplete}
	fails  = crashKind{"fails", 2, "0.001", 7, 2, nomad.AllocClientStatusFailed}
)

// expected is the client status that the job's allocation comes to.
func (j *crashJob) expected() string {
	if j.stopped && j.kind.status == nomad.AllocClientStatusRunning {
		return nomad.AllocClientStatusComplete
	}
	return j.kind.status
}

// newJob makes up a job.
func (w *crashWorld) newJob(kind crashKind, process bool) *crashJob {
	w.made++
	driver := map[bool]string{true: "process", false: "program"}[process]
	j := &crashJob{id: fmt.Sprintf("%s-%s-%d", kind.name, driver, w.made), kind: kind, process: process, killsBefore: w.kills}
	w.jobs[j.id] = j
	return j
}

// register asks for a job.
func (w *crashWorld) register(t *testing.T, j *crashJob) {
	t.Helper()
	_, _, err := w.api(t).Jobs().Register(w.job(j), nil)
	j.unsure = err != nil // else it is durable
}

// stop asks for a job's end.
func (w *crashWorld) stop(t *testing.T, j *crashJob) {
	t.Helper()
	_, _, err := w.api(t).Jobs().Deregister(j.id, false, nil)
	j.stopped = err == nil // else it is looked up
}

// taskScript notes its start in a file, proves that it is alone, prints so many
// numbered lines, and ends with a code.
const taskScript = `cd "$NOMAD_ALLOC_DIR/data"; echo start >>starts
exec 9>lock; flock -n 9 || echo twice >>twice
echo begin
i=1; while [ $i -le %d ]; do echo line $i; i=$((i+1)); sleep %s; done; exit %d`

// sideScript proves that it is alone, and stays until it is killed.
const sideScript = `cd "$NOMAD_ALLOC_DIR/data"; exec 9>side.lock; flock -n 9 || echo twice >>twice; exec sleep 10000`

func (w *crashWorld) job(j *crashJob) *nomad.Job {
	task := nomad.NewTask("task", "wasi").SetConfig("module", w.program).SetConfig("args", []string{
		"/alloc/data/starts", fmt.Sprint(j.kind.lines), j.kind.every + "s", fmt.Sprint(j.kind.code),
	})
	if j.process {
		task = nomad.NewTask("task", "beside").SetConfig("side", sideScript).
			SetConfig("own", fmt.Sprintf(taskScript, j.kind.lines, j.kind.every, j.kind.code))
	}
	task.Resources = &nomad.Resources{CPU: ptr(1), MemoryMB: ptr(32)}
	task.LogConfig = &nomad.LogConfig{MaxFiles: ptr(1), MaxFileSizeMB: ptr(1)}
	if j.bulk > 0 {
		task.Templates = []*nomad.Template{{EmbeddedTmpl: ptr(strings.Repeat("x", j.bulk)), DestPath: ptr("local/bulk")}}
	}
	group := nomad.NewTaskGroup("group", 1).AddTask(task).RequireDisk(&nomad.EphemeralDisk{SizeMB: ptr(10)})
	group.RestartPolicy = &nomad.RestartPolicy{
		Attempts: &j.kind.attempts, Interval: ptr(time.Hour), Delay: ptr(time.Millisecond), Mode: ptr(nomad.RestartPolicyModeFail),
	}
	group.ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: ptr(0), Unlimited: ptr(false)}
	kind := nomad.JobTypeBatch
	if j.kind.status == nomad.AllocClientStatusRunning {
		kind = nomad.JobTypeService
		group.ReschedulePolicy = nil
	}
	job := &nomad.Job{ID: &j.id, Name: &j.id, Type: &kind, Datacenters: []string{"*"}}
	return job.AddTaskGroup(group)
}

func ptr[T any](v T) *T { return &v }

// settle finds out what became of what the agent did not answer.
func (w *crashWorld) settle(t *testing.T) {
	t.Helper()
	for id, j := range w.jobs {
		job, _, err := w.api(t).Jobs().Info(id, nil)
		switch {
		case err == nil:
			require.False(t, j.stopped && !*job.Stop, "the stop of %s was forgotten", id)
			j.unsure, j.stopped = false, *job.Stop
		case j.unsure && strings.Contains(err.Error(), "404"):
			delete(w.jobs, id)
		default:
			require.Fail(t, "a job was forgotten", "%s: %v", id, err)
		}
	}
}

// forget purges the jobs that have come to their end.
func (w *crashWorld) forget(t *testing.T) {
	t.Helper()
	for id, j := range w.jobs {
		if j.expected() != nomad.AllocClientStatusRunning {
			_, _, err := w.api(t).Jobs().Deregister(id, true, nil)
			require.NoError(t, err)
			delete(w.jobs, id)
		}
	}
}

// end stops everything, and wants nothing to be left.
func (w *crashWorld) end(t *testing.T) {
	t.Helper()
	for _, j := range w.jobs {
		w.stop(t, j)
	}
	w.check(t)
	w.forget(t)
	require.NoError(t, w.api(t).System().GarbageCollect())
	eventually(t, func() error {
		for _, dir := range []string{filepath.Join(w.site.data, "alloc"), supervisor.Results(w.supervisorDir())} {
			left, err := os.ReadDir(dir)
			if err != nil || len(left) > 0 {
				return fmt.Errorf("%s: %w: %v is left", dir, err, left)
			}
		}
		return nil
	})
	require.Zero(t, w.node.signal(t, syscall.SIGTERM), w.node.log)
}

// eventually tries until there is not an error.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(tick) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			require.FailNow(t, "it never came to it", "%v", err)
		}
	}
}
