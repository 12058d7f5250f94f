package compattest

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/jobspec"
)

const dockerFile = "testdata/docker.txt"

// dockerQuiet is how long nothing may change before the docker jobs have come to their ends.
// None is rescheduled.
const dockerQuiet = 4 * time.Second

// dockerAtOnce is how many jobs run at once: Nomad's driver loses the output of a container that
// ends before it is followed.
const dockerAtOnce = 12

// dockerMeant are the jobs of the docker driver that go otherwise here than with Nomad, and why.
var dockerMeant = map[string]string{
	"cpuset":           "cpuset_cpus is what the engine is told; Nomad's own cgroup lets the task have all that is not reserved",
	"env-names":        "containers have the engine's cgroups, so that there are no NOMAD_CPU_CORES and NOMAD_PARENT_CGROUP",
	"image-name-bad":   "the engine says what is wrong with the name",
	"image-none":       "the configuration is held against the driver's schema, and the path of the fault is said",
	"key-unknown":      "the configuration is held against the driver's schema, and the path of the fault is said",
	"mount-unknown":    "the configuration is held against the driver's schema, and the path of the fault is said",
	"pull-timeout-bad": "a duration that is none is refused, also where the image is there already",
	"type-wrong":       "the configuration is held against the driver's schema, and the path of the fault is said",
}

// TestDockerJobsGoAsWithNomad runs job files of the docker driver and compares what happened to
// each task, event by event, and what it wrote, with what did with Nomad's driver: as recorded,
// or by the stock binary on the same engine.
func TestDockerJobsGoAsWithNomad(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a hundred containers")
	}
	var arguments []string
	if *update {
		arguments = append(arguments, "-update")
	}
	if !enginetest.InOwnNetwork(t, arguments...) {
		return
	}
	w := newDockerWorld(t)
	want := readRecord(t, dockerFile)
	if os.Getenv("NOMAD_BIN") != "" {
		w.initialJobs(t, stock(t))
		want = w.outcomes(t, theirs(t, stock(t), fmt.Sprintf(dockerTheirs, w.engine.Socket)))
		w.forget(t)
		if *update {
			record(t, dockerFile, want)
		}
	}
	got := w.outcomes(t, &target{name: "wasmnode"})
	for _, job := range slices.Sorted(maps.Keys(w.jobs)) {
		switch why := dockerMeant[job]; {
		case got[job] == want[job] && why != "":
			t.Errorf("%s: it goes alike: take out that it does not, because %s", job, why)
		case got[job] != want[job] && why == "":
			t.Errorf("%s:\n  nomad:\n%s  wasmnode:\n%s", job, want[job], got[job])
		}
	}
}

const dockerTheirs = `
client {
  gc_max_allocs            = 1000
  gc_disk_usage_threshold  = 100
  gc_inode_usage_threshold = 100
}
plugin "docker" {
  config {
    endpoint = "unix://%s"
    gc {
      image = false
    }
  }
}
`

const dockerOurs = `
plugin "docker" {
  config {
    endpoint      = "unix://%[1]s"
    allow_devices = ["*"] # as with Nomad
  }
  grant {
    kv { enabled = true }
    http { endpoint "unix:%[1]s" {
      methods = ["GET", "POST", "DELETE"]
      paths   = ["/version", "/info", "/containers/", "/images/", "/exec/"]
    } }
  }
}
`

// dockerWorld is an engine with a registry, and the jobs for them.
type dockerWorld struct {
	engine *enginetest.Engine
	pulled []string // images that jobs pull
	fill   *strings.Replacer
	hide   *strings.Replacer // the reverse, of what differs from run to run
	jobs   map[string]string
}

func newDockerWorld(t *testing.T) *dockerWorld {
	t.Helper()
	w := &dockerWorld{jobs: map[string]string{}, engine: enginetest.NetworkedDocker(t, map[string]string{
		"redis:7":      `CMD ["sleep", "1000"]`,
		"redis:7-says": `CMD ["sh", "-c", "echo of the image; sleep 1"]`,
		"redis:7-echo": `ENTRYPOINT ["sh", "-c", "echo of the image $0 $1; sleep 1"]` + "\n" + `CMD ["unused"]`,
	})}
	registry := enginetest.Registry(t)
	var digest string
	for _, name := range []string{"/with/auth", "/forced", "/by/digest"} {
		digest = w.engine.Publish(t, enginetest.Busybox, registry+name)
		w.pulled = append(w.pulled, registry+name+":1")
	}
	w.pulled[2] = registry + "/by/digest@" + digest
	w.fill = strings.NewReplacer("{registry}", registry, "{digest}", digest, "{user}", enginetest.User, "{password}", enginetest.Password)
	w.hide = strings.NewReplacer(registry, "REGISTRY", digest, "DIGEST")
	files, err := filepath.Glob("testdata/docker/*.nomad.hcl")
	require.NoError(t, err)
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		w.jobs[strings.TrimSuffix(filepath.Base(path), ".nomad.hcl")] = w.fill.Replace(string(text))
	}
	return w
}

// initialJobs are those that the stock nomad writes for beginners.
func (w *dockerWorld) initialJobs(t *testing.T, binary string) {
	t.Helper()
	for name, options := range map[string][]string{"init": nil, "init-short": {"-short"}} {
		path := filepath.Join(t.TempDir(), "job.nomad.hcl")
		out, err := exec.Command(binary, append(append([]string{"job", "init"}, options...), path)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		w.jobs[name] = string(text)
	}
}

// forget has the engine forget what one target's jobs have pulled, for the other's.
func (w *dockerWorld) forget(t *testing.T) {
	t.Helper()
	for _, name := range w.pulled {
		w.engine.Forget(t, name)
	}
}

// outcomes runs the jobs, with our agent where the target has none, and tells what became of
// each.
func (w *dockerWorld) outcomes(t *testing.T, to *target) map[string]string {
	t.Helper()
	if to.client == nil {
		a := agenttest.Start(t, agenttest.Options{Drivers: []string{"docker"}, CodeCache: codeCache, Config: fmt.Sprintf(dockerOurs, w.engine.Socket)})
		to.client = a.Client
	}
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(w.jobs)) {
		to.awaitFewer(t, dockerAtOnce, `ClientStatus == "pending" or ClientStatus == "running"`)
		job, err := jobspec.Parse(jobspec.Options{Path: name, Content: []byte(w.jobs[name])})
		require.NoError(t, err)
		job.ID, job.Name = &name, &name
		all[name] = ""
		if _, _, err := to.client.Jobs().Register(job, nil); err != nil {
			t.Logf("%s: %s: %v", to.name, name, err)
			all[name] = "refused"
		}
	}
	to.awaitFewer(t, 1, `ClientStatus == "pending"`)
	to.settle(all, dockerQuiet, func(id string) string { return w.stable(to.history(id)) })
	for name := range all {
		_, _, err := to.client.Jobs().Deregister(name, true, nil)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return len(w.engine.Containers(t)) == 0 }, patience, 50*time.Millisecond, "left over by %s", to.name)
	return all
}

// awaitFewer waits until there are fewer than so many of some allocations.
func (to *target) awaitFewer(t *testing.T, n int, filter string) {
	t.Helper()
	require.Eventually(t, func() bool {
		allocs, _, err := to.client.Allocations().List(&nomad.QueryOptions{Filter: filter})
		return err == nil && len(allocs) < n
	}, 4*patience, 50*time.Millisecond)
}

// unstable is what differs from run to run.
var unstable = []struct {
	pattern *regexp.Regexp
	is      string
}{
	{regexp.MustCompile(`[0-9a-f]{64}`), "CONTAINER"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "ALLOC"},
	{regexp.MustCompile(`(/[^ /"]+)+/ALLOC`), "ALLOCDIR"},
	{regexp.MustCompile(`restarting in [0-9.]+m?s`), "restarting in a while"},
	{regexp.MustCompile(`(OCI runtime create failed:).*`), "$1 REASON"}, // in the words of a version of it
}

func (w *dockerWorld) stable(text string) string {
	text = w.hide.Replace(text)
	for _, u := range unstable {
		text = u.pattern.ReplaceAllString(text, u.is)
	}
	return text
}

// history tells what happened to a job's tasks, and what they wrote.
func (to *target) history(id string) string {
	var b strings.Builder
	if d, _, err := to.client.Jobs().LatestDeployment(id, nil); err == nil && d != nil {
		fmt.Fprintf(&b, "  deployment %s: %s\n", d.Status, d.StatusDescription)
	}
	allocs, _, err := to.client.Jobs().Allocations(id, false, nil)
	if err != nil {
		return err.Error()
	}
	for _, stub := range allocs {
		fmt.Fprintf(&b, "  %s %s\n", stub.DesiredStatus, stub.ClientStatus)
		for _, name := range slices.Sorted(maps.Keys(stub.TaskStates)) {
			s := stub.TaskStates[name]
			fmt.Fprintf(&b, "  %s %s, failed %v, %d restarts\n", name, s.State, s.Failed, s.Restarts)
			for _, e := range s.Events {
				if e.Type != awaits {
					fmt.Fprintf(&b, "    %s: %s\n", e.Type, strings.Join(strings.Fields(e.DisplayMessage), " "))
				}
			}
			for _, stream := range []string{"stdout", "stderr"} {
				for line := range strings.Lines(to.output(stub.ID, name, stream)) {
					fmt.Fprintf(&b, "    %s %q\n", stream, line)
				}
			}
		}
	}
	return b.String()
}

// output is what a task has written to a stream.
func (to *target) output(allocID, task, stream string) string {
	r, err := to.client.AllocFS().Cat(&nomad.Allocation{ID: allocID}, "alloc/logs/"+task+"."+stream+".0", nil)
	if err != nil {
		return ""
	}
	defer func() { _ = r.Close() }()
	text, _ := io.ReadAll(r)
	if strings.HasSuffix(string(text), ": no such file or directory") { // what Nomad says of none
		return ""
	}
	return string(text)
}

// readRecord is what became of the jobs with Nomad.
func readRecord(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	all, job := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		if line[0] != ' ' {
			job = strings.TrimSpace(line)
			continue
		}
		all[job] += line
	}
	return all
}

func record(t *testing.T, file string, all map[string]string) {
	t.Helper()
	var b strings.Builder
	for _, job := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(job, "init") {
			fmt.Fprintf(&b, "%s\n%s", job, all[job])
		}
	}
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
}
