package compattest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/jobspec"
)

const aroundFile = "testdata/around.txt"

// aroundQuiet is how long nothing may change before the jobs have come to rest: longer than a
// token of five seconds is good, and than Nomad tells of a template that waits. For the first ones
// less is enough.
const aroundQuiet, aroundFirstQuiet = 5 * time.Second, 2 * time.Second

// aroundFirst are the jobs that each check runs.
var aroundFirst = []string{
	"identity-env", "identity-two", "service-plain", "service-tcp", "service-twice", "template-env-change", "template-noop", "template-restart",
	"template-script", "template-signal", "template-var", "template-var-missing", "volume-of-raw-exec",
}

// aroundMeant are the jobs with volumes, services, identities and templates that go otherwise
// here than with Nomad, and why.
var aroundMeant = map[string]string{
	"identity-file":             "the file of a token is its owner's alone (0600); with Nomad all may read it",
	"identity-signal":           "the event names the signal, too",
	"identity-socket":           "a bad token is refused, with ACLs or without",
	"identity-twice":            "a job with two identities of one name is refused",
	"service-address-alloc":     "an allocation that fails in its deployment has the event Alloc Unhealthy",
	"service-check-restarts":    "an allocation that fails in its deployment has the event Alloc Unhealthy, and the last results of its checks stay",
	"service-check-script":      "checks of the type script are run; Nomad leaves them to Consul",
	"service-http-missing":      "the event Alloc Unhealthy says that it was the checks",
	"service-port-unknown":      "a port that the group does not have is refused when the job is registered",
	"service-two-checks":        "the event Alloc Unhealthy says that it was the checks",
	"template-consul":           "a function of Consul is refused when the job is registered; with Nomad its task waits for ever",
	"template-fails":            "a template that fails is a hook that fails, and tried again as the job's restart block says",
	"template-file":             "a template that fails is a hook that fails, and tried again as the job's restart block says",
	"template-plugin":           "a function that is disabled is refused when the job is registered",
	"template-script-slow":      "a script that takes too long is ended, and an event says so",
	"template-signal":           "the event names the signal, too",
	"template-signal-unknown":   "a signal that there is not is refused when the job is registered",
	"volume-block-device":       "what waits for a volume is told what the volume lacks, too",
	"volume-csi":                "a CSI volume is refused when the job is registered",
	"volume-dynamic-other-mode": "what waits for a volume is told what the volume lacks, too",
	"volume-dynamic-read-only":  "what waits for a volume is told what the volume lacks, too",
	"volume-of-raw-exec":        "the task gets a link to the volume; with Nomad it fails",
}

// TestJobsWithWhatIsAroundThemGoAsWithNomad runs job files with volumes, services, variables,
// identities and templates, changes the variables, and compares what happened to each task,
// what it wrote and what it registered with what did with Nomad: as recorded, or by the stock
// binary.
func TestJobsWithWhatIsAroundThemGoAsWithNomad(t *testing.T) {
	files, err := filepath.Glob("testdata/around/" + *chosen + ".nomad.hcl")
	require.NoError(t, err)
	quiet := aroundQuiet
	if os.Getenv("COMPAT_AROUND") == "" { // make check-full and make compat set it: all take half a minute
		quiet = aroundFirstQuiet
		files = slices.DeleteFunc(files, func(path string) bool {
			return !slices.Contains(aroundFirst, strings.TrimSuffix(filepath.Base(path), ".nomad.hcl"))
		})
	}
	if os.Geteuid() != 0 {
		files = slices.DeleteFunc(files, func(path string) bool { // only root mounts volumes
			return strings.HasPrefix(filepath.Base(path), "volume-")
		})
	}
	want := readRecord(t, aroundFile)
	if os.Getenv("NOMAD_BIN") != "" {
		maps.Copy(want, theirs(t, stock(t), fmt.Sprintf(aroundTheirs, aroundVolumes(t))).around(t, files, quiet))
		if *update {
			record(t, aroundFile, want)
		}
	}
	a := agenttest.Start(t, agenttest.Options{Drivers: []string{"raw_exec", "exec"}, CodeCache: codeCache, Config: aroundOurs, Client: aroundVolumes(t), Dir: shortDir(t)})
	got := (&target{name: "wasmnode", url: a.URL, client: a.Client}).around(t, files, quiet)
	for _, job := range slices.Sorted(maps.Keys(got)) {
		switch why := aroundMeant[job]; {
		case got[job] == want[job] && why != "":
			t.Errorf("%s: it goes alike: take out that it does not, because %s", job, why)
		case got[job] != want[job] && why == "":
			t.Errorf("%s:\n  nomad:\n%s  wasmnode:\n%s", job, want[job], got[job])
		}
	}
}

const aroundTheirs = `
client {
  chroot_env {
    "/bin/busybox" = "/bin/sh"
  }
  gc_max_allocs            = 1000
  gc_disk_usage_threshold  = 100
  gc_inode_usage_threshold = 100
%s}
`

const aroundOurs = `
plugin "exec" {
  grant {
    process {
      commands  = ["*"]
      users     = ["nobody"]
      isolation = "full"
    }
  }
}
`

// aroundVolumes makes the directories of an agent's volumes, and returns their part of its
// configuration.
func aroundVolumes(t *testing.T) (config string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	for _, name := range []string{"shared", "fixed"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(path, 0o700))
		require.NoError(t, os.Chmod(path, 0o777)) // for nobody
		require.NoError(t, os.WriteFile(filepath.Join(path, "greeting"), []byte("of the machine\n"), 0o644))
		config += fmt.Sprintf("  host_volume %q {\n    path      = %q\n    read_only = %t\n  }\n", name, path, name == "fixed")
	}
	return config
}

// shortDir is a directory in which tasks can have sockets, whose paths have at most 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "c")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// around runs the jobs and tells what became of each.
func (to *target) around(t *testing.T, files []string, quiet time.Duration) map[string]string {
	t.Helper()
	for _, name := range []string{"notes", "kept", "each[0]", "each[1]"} {
		_, _, err := to.client.HostVolumes().Create(&nomad.HostVolumeCreateRequest{Volume: &nomad.HostVolume{
			Namespace: "default", Name: name, PluginID: "mkdir", Parameters: map[string]string{"mode": "0777"},
			RequestedCapabilities: []*nomad.HostVolumeCapability{{AttachmentMode: "file-system", AccessMode: "single-node-writer"}},
		}}, nil)
		require.NoError(t, err)
	}
	jobs := map[string]*nomad.Job{}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".nomad.hcl")
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		jobs[name], err = jobspec.Parse(jobspec.Options{Path: path, Content: text})
		require.NoError(t, err)
		makeSmall(jobs[name])
	}
	to.keep(t, "nomad/jobs", map[string]string{"shared": "by all"})
	to.keep(t, "app/other", map[string]string{"word": "of another"})
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		to.keep(t, "nomad/jobs/"+name, map[string]string{"word": "one", "number": "1"})
		all[name] = ""
		if _, _, err := to.client.Jobs().Register(jobs[name], nil); err != nil {
			t.Logf("%s: %s: %v", to.name, name, err)
			all[name] = "refused"
		}
	}
	to.settle(all, quiet, to.surroundings)
	for name := range jobs {
		to.keep(t, "nomad/jobs/"+name, map[string]string{"word": "two", "number": "1"})
	}
	to.settle(all, quiet, to.surroundings)
	for name := range jobs {
		_, _, err := to.client.Jobs().Deregister(name, true, nil)
		require.NoError(t, err)
	}
	for name, what := range all {
		if what == "refused" {
			all[name] = "  refused\n"
		}
	}
	return all
}

// keep makes a variable what it is to be.
func (to *target) keep(t *testing.T, path string, items map[string]string) {
	t.Helper()
	_, _, err := to.client.Variables().Update(&nomad.Variable{Path: path, Items: items}, nil)
	require.NoError(t, err)
}

// makeSmall has a hundred jobs fit onto any machine, and each come to its end.
func makeSmall(job *nomad.Job) {
	for _, group := range job.TaskGroups {
		group.EphemeralDisk = &nomad.EphemeralDisk{SizeMB: new(10)}
		if group.RestartPolicy == nil {
			group.RestartPolicy = &nomad.RestartPolicy{Attempts: new(0), Mode: new("fail")}
		}
		group.ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: new(0), Unlimited: new(false)}
		for _, task := range group.Tasks {
			task.Resources = &nomad.Resources{CPU: new(1), MemoryMB: new(16)}
			if task.Driver == "exec" {
				task.Resources.MemoryMB = new(200) // what isolates it counts, too, and is large under the race detector
			}
			task.LogConfig = &nomad.LogConfig{MaxFiles: new(2), MaxFileSizeMB: new(1)}
		}
	}
}

// surroundings tells what happened to a job's tasks, what they wrote, what waits for a place,
// and what the job has registered, with the results of its checks.
func (to *target) surroundings(id string) string {
	var b strings.Builder
	evals, _, err := to.client.Jobs().Evaluations(id, nil)
	if err != nil {
		return err.Error()
	}
	for _, e := range evals {
		if e.Status == "blocked" {
			for group, m := range e.FailedTGAllocs {
				fmt.Fprintf(&b, "  blocked %s: %v %v\n", group, m.ConstraintFiltered, m.DimensionExhausted)
			}
		}
	}
	b.WriteString(to.history(id))
	services, _, _ := to.client.Jobs().Services(id, nil)
	var lines []string
	for _, s := range services {
		lines = append(lines, fmt.Sprintf("  service %s %v port %t\n", s.ServiceName, s.Tags, s.Port != 0))
	}
	allocs, _, _ := to.client.Jobs().Allocations(id, false, nil)
	for _, a := range allocs {
		checks, _ := to.client.Allocations().Checks(a.ID, nil)
		for _, c := range checks {
			output, _, _ := strings.Cut(c.Output, "\n")
			lines = append(lines, fmt.Sprintf("  check %s of %s: %s %s %d %s\n", c.Check, c.Service, c.Mode, c.Status, c.StatusCode, output))
		}
	}
	slices.Sort(lines)
	return stableText(b.String() + strings.Join(lines, ""))
}

// ports and addresses differ from run to run.
var aroundUnstable = regexp.MustCompile(`\b(127\.0\.0\.1|[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+|\[?::1?\]?):[0-9]+`)

func stableText(text string) string {
	text = aroundUnstable.ReplaceAllString(text, "ADDRESS")
	for _, u := range unstable {
		text = u.pattern.ReplaceAllString(text, u.is)
	}
	return text
}
