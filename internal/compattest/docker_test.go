package compattest

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/jobspec"
)

// dockerSet are job files of the docker driver, and how they may go.
type dockerSet struct {
	jobs     string // the directory below testdata; the record has its name, too
	meant    map[string]string
	permits  string // of the plugin's configuration, as with Nomad
	ownTerms string // what that takes here, besides
}

var dockerSets = []dockerSet{
	{jobs: "docker", meant: dockerMeant},
	{jobs: "documented", meant: documentedMeant, permits: dockerPermits, ownTerms: `
    allow_security_opts = ["*"]
`},
}

// dockerPermits is what the documented examples need.
const dockerPermits = `
    allow_caps     = ["all"]
    allow_runtimes = ["runc", "runsc"]
    volumes {
      enabled = true
    }
`

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

// documentedMeant are those of the documented examples.
var documentedMeant = map[string]string{
	"args-as-written":   "`${nomad.datacenter}` is a variable on neither: here it stays as it is written, with Nomad the task fails",
	"logging":           "the output stays where the log driver takes it, and is not in the task's log",
	"port-map":          "`port_map`, which is deprecated, is refused: the group's network has ports with `to`",
	"mounts-as-written": "`labels` and `options` may be maps, too; with Nomad they have to be lists, and the task fails",
}

// TestDockerJobsGoAsWithNomad runs job files of the docker driver and compares what happened to
// each task, event by event, and what it wrote, with what did with Nomad's driver: as recorded,
// or by the stock binary on the same engine.
func TestDockerJobsGoAsWithNomad(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a hundred containers")
	}
	arguments := []string{"-jobs=" + *chosen}
	if *update {
		arguments = append(arguments, "-update")
	}
	if !enginetest.InOwnNetwork(t, arguments...) {
		return
	}
	w := newDockerWorld(t)
	for _, set := range dockerSets {
		t.Run(set.jobs, func(t *testing.T) { set.compare(t, w) })
	}
}

// compare runs the jobs here, and with a stock nomad if there is one.
func (set dockerSet) compare(t *testing.T, w *dockerWorld) {
	t.Helper()
	jobs, file := w.read(t, set.jobs), "testdata/"+set.jobs+".txt"
	want := readRecord(t, file)
	if os.Getenv("NOMAD_BIN") != "" {
		if set.permits != "" && *chosen == "*" {
			maps.Copy(jobs, stockJobs(t))
		}
		maps.Copy(want, w.outcomes(t, theirs(t, stock(t), fmt.Sprintf(dockerTheirs, w.engine.Socket, set.permits)), jobs))
		w.forget(t)
		if *update {
			record(t, file, want)
		}
	}
	a := agenttest.Start(t, agenttest.Options{
		Drivers: []string{"docker"}, CodeCache: codeCache, Client: nodeMeta,
		Config: fmt.Sprintf(dockerOurs, w.engine.Socket, set.permits+set.ownTerms),
	})
	got := w.outcomes(t, &target{name: "wasmnode", client: a.Client}, jobs)
	w.forget(t)
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		switch why := set.meant[job]; {
		case got[job] == want[job] && why != "":
			t.Errorf("%s: it goes alike: take out that it does not, because %s", job, why)
		case got[job] != want[job] && why == "":
			t.Errorf("%s:\n  nomad:\n%s  wasmnode:\n%s", job, want[job], got[job])
		}
	}
}

// nodeMeta is of the block client.
const nodeMeta = `
  meta {
    colour = "green"
  }
`

const dockerTheirs = `
client {
  gc_max_allocs            = 1000
  gc_disk_usage_threshold  = 100
  gc_inode_usage_threshold = 100
` + nodeMeta + `}
plugin "docker" {
  config {
    endpoint = "unix://%s"
    gc {
      image = false
    }
%s  }
}
`

const dockerOurs = `
plugin "docker" {
  config {
    endpoint      = "unix://%[1]s"
    allow_devices = ["*"] # as with Nomad
%[2]s  }
  grant {
    kv { enabled = true }
    http { endpoint "unix:%[1]s" {
      methods = ["GET", "POST", "DELETE"]
      paths   = ["/version", "/info", "/containers/", "/images/", "/exec/"]
    } }
  }
}
`

// dockerWorld is an engine with a registry, and what jobs download.
type dockerWorld struct {
	engine *enginetest.Engine
	pulled []string // images that jobs pull
	fill   *strings.Replacer
	hide   *strings.Replacer // the reverse, of what differs from run to run
}

func newDockerWorld(t *testing.T) *dockerWorld {
	t.Helper()
	w := &dockerWorld{engine: enginetest.NetworkedDocker(t, map[string]string{
		"redis:7":        `CMD ["sleep", "1000"]`,
		"redis:7-says":   `CMD ["sh", "-c", "echo of the image; sleep 1"]`,
		"redis:7-echo":   `ENTRYPOINT ["sh", "-c", "echo of the image $0 $1; sleep 1"]` + "\n" + `CMD ["unused"]`,
		"redis:7-prints": `ENTRYPOINT ["sh", "-c", "echo $*; sleep 1", "prints"]`,
		"redis:7-serves": `CMD ["nc", "-ll", "-p", "6379", "-e", "true"]`,
		"loaded:latest":  `LABEL from=archive`,
	})}
	registry := enginetest.Registry(t)
	var digest string
	for _, name := range []string{"/with/auth", "/with/scheme", "/documented/auth", "/forced", "/by/digest"} {
		digest = w.engine.Publish(t, enginetest.Busybox, registry+name)
		w.pulled = append(w.pulled, registry+name+":1")
	}
	w.pulled[len(w.pulled)-1] = registry + "/by/digest@" + digest
	served := map[string][]byte{"/image.tar": w.engine.Save(t, "loaded:latest"), "/notes": []byte("notes\n")}
	w.pulled = append(w.pulled, "loaded:latest")
	w.forget(t)
	w.engine.MakeNetwork(t, "user-network")
	discard(t, "localhost:24224")
	address := serve(t, served)
	w.fill = strings.NewReplacer("{registry}", registry, "{digest}", digest, "{user}", enginetest.User, "{password}", enginetest.Password,
		"{served}", address, "{notes}", fmt.Sprintf("%x", md5.Sum(served["/notes"])))
	w.hide = strings.NewReplacer(registry, "REGISTRY", digest, "DIGEST", address, "SERVED")
	return w
}

// serve serves files, and returns the URL before their names.
func serve(t *testing.T, files map[string][]byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, has := files[r.URL.Path]
		if !has {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, r.URL.Path, time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// discard takes what a log driver sends.
func discard(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}()
		}
	}()
}

// read reads the job files of a directory.
func (w *dockerWorld) read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/" + dir + "/" + *chosen + ".nomad.hcl")
	require.NoError(t, err)
	jobs := map[string]string{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		jobs[strings.TrimSuffix(filepath.Base(path), ".nomad.hcl")] = w.fill.Replace(string(text))
	}
	return jobs
}

// stockJobs are those that the stock nomad writes for beginners.
func stockJobs(t *testing.T) map[string]string {
	t.Helper()
	jobs := map[string]string{}
	for name, options := range initOptions {
		jobs["stock-"+name] = stockJob(t, options)
	}
	return jobs
}

// initOptions are those of "nomad job init" whose jobs have a counterpart in testdata/documented.
var initOptions = map[string][]string{"init": nil, "init-short": {"-short"}}

func stockJob(t *testing.T, options []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.nomad.hcl")
	out, err := exec.Command(stock(t), append(append([]string{"job", "init"}, options...), path)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// The job files that stand for those of "nomad job init" have the same blocks and keys.
func TestInitialJobsHaveNomadsKeys(t *testing.T) {
	for name, options := range initOptions {
		text, err := os.ReadFile("testdata/documented/" + name + ".nomad.hcl")
		require.NoError(t, err)
		require.Equal(t, keysOf(t, []byte(stockJob(t, options))), keysOf(t, text), name)
	}
}

// keysOf are the paths of all blocks and attributes of a job file.
func keysOf(t *testing.T, text []byte) (keys []string) {
	t.Helper()
	file, diagnostics := hclsyntax.ParseConfig(text, "job", hcl.InitialPos)
	require.False(t, diagnostics.HasErrors(), diagnostics.Error())
	var walk func(path string, body *hclsyntax.Body)
	walk = func(path string, body *hclsyntax.Body) {
		for name := range body.Attributes {
			keys = append(keys, path+name)
		}
		for _, block := range body.Blocks {
			keys = append(keys, path+block.Type)
			walk(path+block.Type+"/", block.Body)
		}
	}
	walk("", file.Body.(*hclsyntax.Body))
	slices.Sort(keys)
	return keys
}

// forget has the engine forget what one target's jobs have pulled, for the other's.
func (w *dockerWorld) forget(t *testing.T) {
	t.Helper()
	for _, name := range w.pulled {
		w.engine.Forget(t, name)
	}
}

// outcomes runs the jobs and tells what became of each.
func (w *dockerWorld) outcomes(t *testing.T, to *target, jobs map[string]string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		to.awaitFewer(t, dockerAtOnce, `ClientStatus == "pending" or ClientStatus == "running"`)
		job, err := jobspec.Parse(jobspec.Options{Path: name, Content: []byte(jobs[name])})
		require.NoError(t, err)
		job.ID, job.Name = &name, &name
		if job.Type == nil || *job.Type == nomad.JobTypeService {
			job.Update = cmp.Or(job.Update, &nomad.UpdateStrategy{})
			job.Update.MinHealthyTime = new(time.Second) // it is 10 seconds otherwise
		}
		all[name] = ""
		if _, _, err := to.client.Jobs().Register(job, nil); err != nil {
			t.Logf("%s: %s: %v", to.name, name, err)
			all[name] = "refused"
		}
	}
	to.awaitFewer(t, 1, `ClientStatus == "pending"`)
	require.Eventually(t, func() bool {
		deployments, _, err := to.client.Deployments().List(&nomad.QueryOptions{Filter: `Status == "running"`})
		return err == nil && len(deployments) == 0
	}, 4*patience, 50*time.Millisecond)
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
	{regexp.MustCompile(`--storage-opt is .*`), "--storage-opt REASON"}, // of the machine's file system
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
		if !strings.HasPrefix(job, "stock-") {
			fmt.Fprintf(&b, "%s\n%s", job, all[job])
		}
	}
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
}
