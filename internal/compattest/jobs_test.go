package compattest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/jobspec"
)

const outcomesFile = "testdata/outcomes.txt"

// chosen selects the job files that are run, and recorded.
var chosen = flag.String("jobs", "*", "the job files to run: a pattern of their names")

// quiet is how long nothing may change before the jobs have come to their ends: longer than
// the shortest delay that Nomad lets a reschedule have.
const quiet = 7 * time.Second

// meant are the jobs that end otherwise here than with Nomad, and why.
var meant = map[string]string{
	"kill-signal-unknown": "a signal that there is not fails the task, which says so; with Nomad the job waits for a node that has it",
	"port-taken":          "a static port is taken once on a node; Nomad's agent takes it once for each address of its network",
	"poststart-fails":     "the failure of a poststart task ends the tasks beside it at once",
	"prestart-fails":      "Killing is always followed by Killed",
	"service-ends-well":   "a deployment whose only allocation has failed has not succeeded",
	"service-fails":       "a deployment whose only allocation has failed has not succeeded",
	"sidecar-fails":       "Killing is always followed by Killed",
	"system-fails":        "an allocation outside of a deployment has the event Alloc Unhealthy, too",
	"update-fails":        "an allocation that fails in its deployment has the event Alloc Unhealthy",
	"update-reverts":      "an allocation that fails in its deployment has the event Alloc Unhealthy",
	"template-broken":     "a template that cannot be read is refused when its job is registered",
}

// TestJobFilesEndAsWithNomad runs all job files at once and compares what became of each with
// what became of it with Nomad: as recorded, or by the stock binary.
func TestJobFilesEndAsWithNomad(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	files, err := filepath.Glob("testdata/jobs/" + *chosen + ".nomad.hcl")
	require.NoError(t, err)
	want := recordedOutcomes(t)
	if os.Getenv("NOMAD_BIN") != "" && *update {
		maps.Copy(want, theirs(t, stock(t), "").outcomes(t, files))
	}
	if *update {
		var b strings.Builder
		for _, job := range slices.Sorted(maps.Keys(want)) {
			fmt.Fprintf(&b, "%s: %s\n", job, want[job])
		}
		require.NoError(t, os.WriteFile(outcomesFile, []byte(b.String()), 0o644))
	}
	got := ours(t).outcomes(t, files)
	if *chosen == "*" {
		require.GreaterOrEqual(t, len(files), 60)
		require.Len(t, want, len(files))
	}
	for _, job := range slices.Sorted(maps.Keys(got)) {
		switch why := meant[job]; {
		case got[job] == want[job] && why != "":
			t.Errorf("%s: it ends alike: take out that it does not, because %s", job, why)
		case got[job] != want[job] && why == "":
			t.Errorf("%s:\n  nomad:    %s\n  wasmnode: %s", job, want[job], got[job])
		}
	}
}

// recordedOutcomes is how the jobs ended with Nomad when it was asked last.
func recordedOutcomes(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	text, err := os.ReadFile(outcomesFile)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if job, outcome, is := strings.Cut(strings.TrimSpace(line), ": "); is {
			all[job] = outcome
		}
	}
	return all
}

// outcomes registers the jobs of some files and tells, when nothing changes any more, what
// became of each.
func (to *target) outcomes(t *testing.T, files []string) map[string]string {
	t.Helper()
	served := serveArtifacts(t)
	all := map[string]string{}
	for _, path := range files {
		to.register(t, path, served, all)
	}
	to.settle(all, quiet, to.outcome)
	later, err := filepath.Glob("testdata/updates/" + *chosen + ".nomad.hcl")
	require.NoError(t, err)
	for _, path := range later {
		to.register(t, path, served, all)
	}
	to.settle(all, quiet, to.outcome)
	return all
}

// register registers the job of a file, and notes if it is refused.
func (to *target) register(t *testing.T, path, served string, all map[string]string) {
	t.Helper()
	name := strings.TrimSuffix(filepath.Base(path), ".nomad.hcl")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	job, err := jobspec.Parse(jobspec.Options{Path: path, Content: bytes.ReplaceAll(text, []byte("{served}"), []byte(served))})
	require.NoError(t, err)
	all[name] = ""
	if _, _, err := to.client.Jobs().Register(job, nil); err != nil {
		t.Logf("%s: %s: %v", to.name, name, err)
		all[name] = "refused"
	}
}

// settle waits until nothing changes any more for a while, and tells of each job what became
// of it.
func (to *target) settle(all map[string]string, quiet time.Duration, outcome func(id string) string) {
	seen, since := "", time.Now()
	for end := time.Now().Add(2 * time.Minute); time.Since(since) < quiet && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		now := ""
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if all[name] != "refused" {
				all[name] = outcome(name)
			}
			now += all[name] + "\n"
		}
		if now != seen {
			seen, since = now, time.Now()
		}
	}
}

// serveArtifacts serves what job files download, and returns its address.
func serveArtifacts(t *testing.T) (url string) {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	archive := tar.NewWriter(z)
	hello := []byte("hello\n")
	require.NoError(t, archive.WriteHeader(&tar.Header{Name: "hello.txt", Mode: 0o644, Size: int64(len(hello))}))
	_, err := archive.Write(hello)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	require.NoError(t, z.Close())
	files := map[string][]byte{"/hello.txt": hello, "/packed.tar.gz": packed.Bytes()}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, is := files[r.URL.Path]; is {
			_, _ = w.Write(b)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// outcome tells what became of a job: its status, its deployment, what waits for a place, and
// of each group the allocations, with what happened to each task.
func (to *target) outcome(id string) string {
	job, _, err := to.client.Jobs().Info(id, nil)
	if err != nil {
		return err.Error()
	}
	parts := []string{*job.Status}
	if d, _, err := to.client.Jobs().LatestDeployment(id, nil); err == nil && d != nil {
		parts = append(parts, "deployment "+d.Status+" ("+d.StatusDescription+")")
	}
	evals, _, err := to.client.Jobs().Evaluations(id, nil)
	if err != nil {
		return err.Error()
	}
	for _, e := range evals {
		if e.Status == "blocked" {
			parts = append(parts, "blocked"+waiting(e))
		}
	}
	allocs, _, err := to.client.Jobs().Allocations(id, false, nil)
	if err != nil {
		return err.Error()
	}
	counts := map[string]int{}
	for _, a := range allocs {
		counts[fmt.Sprintf("%s %s/%s [%s]", a.TaskGroup, a.DesiredStatus, a.ClientStatus, tasks(a.TaskStates))]++
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d x %s", counts[what], what))
	}
	return strings.Join(parts, "; ")
}

// awaits is the event by which a task here tells that it waits for an allocation to end; with
// Nomad it waits without one.
const awaits = "Task hook message"

func waiting(e *nomad.Evaluation) string {
	text := ""
	for _, group := range slices.Sorted(maps.Keys(e.FailedTGAllocs)) {
		m := e.FailedTGAllocs[group]
		text += fmt.Sprintf(" %s: %d evaluated, %d filtered, %d exhausted, %d more", group, m.NodesEvaluated, m.NodesFiltered, m.NodesExhausted, m.CoalescedFailures)
	}
	return text
}

// tasks tells what happened to an allocation's tasks, without what differs from run to run.
func tasks(states map[string]*nomad.TaskState) string {
	var list []string
	for name, s := range states {
		var events []string
		for _, e := range s.Events {
			if e.Type == awaits {
				continue
			}
			what := e.Type
			if e.Type == nomad.TaskTerminated {
				what += " " + cmp.Or(e.Details["exit_code"], "0") + "/" + cmp.Or(e.Details["signal"], "0")
			}
			events = append(events, what)
		}
		failed := ""
		if s.Failed {
			failed = " failed"
		}
		list = append(list, fmt.Sprintf("%s %s%s %d restarts: %s", name, s.State, failed, s.Restarts, strings.Join(events, ", ")))
	}
	slices.Sort(list)
	return strings.Join(list, " | ")
}
