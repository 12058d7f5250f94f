package clustertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// operator works with the stock command line, and job files, on a server with two nodes: ours, in
// the pool "edge", and Nomad's own client, in the pool "default".
type operator struct {
	*server
	ours, theirs string // the nodes' IDs
	programs     string
	marks        string // what tasks write into
	calls        int    // of the command line, so far
}

// ok runs a command that works, and says what it is expected to.
func (o *operator) ok(t *testing.T, want, line string, stdin ...string) string {
	t.Helper()
	return o.call(t, 0, want, line, stdin...)
}

// fails runs a command that does not work, and says why.
func (o *operator) fails(t *testing.T, want, line string) {
	t.Helper()
	o.call(t, 1, want, line)
}

func (o *operator) call(t *testing.T, code int, want, line string, stdin ...string) string {
	t.Helper()
	o.calls++
	said, got := o.cli(t, "", strings.Join(stdin, ""), strings.Fields(line)...)
	require.Equal(t, code, got, "nomad %s: %s", line, said)
	require.Regexp(t, want, said, "nomad "+line)
	return said
}

// startTheirs starts Nomad's own client of a server, whose API is said to be at an address, and ends with
// it what it has left. It returns where the API is.
func startTheirs(t *testing.T, binary, rpc, api string) (url string) {
	t.Helper()
	dir := t.TempDir()
	ports := freePorts(t, 3)
	config := filepath.Join(dir, "nomad.hcl")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
name      = "theirs"
data_dir  = %q
bind_addr = "127.0.0.1"
advertise {
  http = %q
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
ports {
  http = %d
  rpc  = %d
  serf = %d
}
client {
  enabled           = true
  servers           = [%q]
  network_interface = "lo"
  options = {
    "fingerprint.denylist" = "env_aws,env_azure,env_digitalocean,env_gce"
  }
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
`, filepath.Join(dir, "data"), api, ports[0], ports[1], ports[2], rpc), 0o600))
	t.Cleanup(func() { // once it has ended
		killBelow(dir)
		mounts, err := os.ReadFile("/proc/mounts")
		require.NoError(t, err)
		for line := range strings.Lines(string(mounts)) {
			if at := strings.Fields(line)[1]; strings.HasPrefix(at, dir+"/") {
				_ = syscall.Unmount(at, syscall.MNT_DETACH)
			}
		}
	})
	newProcess(t, binary, "agent", "-config", config)
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0])
}

// killBelow kills what Nomad's client has left running of a test that failed: what has a path
// below a directory among its arguments, or is there.
func killBelow(dir string) {
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, p := range processes {
		args, _ := os.ReadFile(filepath.Join(p, "cmdline")) // errors: it has ended
		at, _ := os.Readlink(filepath.Join(p, "cwd"))
		if pid, err := strconv.Atoi(filepath.Base(p)); err == nil && pid != os.Getpid() &&
			(strings.Contains(string(args), dir+"/") || strings.HasPrefix(at, dir+"/")) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// TestJobsOfACluster runs job files on our node beside Nomad's own client, with each version.
func TestJobsOfACluster(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can isolate processes, and run Nomad's own client")
	}
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) { worked(t, newOperator(t, binary)) })
	}
}

func newOperator(t *testing.T, binary string) *operator {
	dir := t.TempDir()
	o := &operator{server: startServers(t, binary, 1, "")[0], programs: filepath.Join(dir, "programs"), marks: filepath.Join(dir, "marks")}
	devices := filepath.Join(dir, "devices")
	for _, d := range []string{o.programs, devices} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(o.programs, "print.wasm"), guestbuild.Program(t, "guest-examples/programs/print"), 0o600))
	for _, name := range []string{"one", "two"} {
		require.NoError(t, os.WriteFile(filepath.Join(devices, name), []byte("device"), 0o600))
	}
	startTheirs(t, binary, o.rpc, "127.0.0.1")
	nodeSpec{
		name: "ours", servers: []string{o.rpc}, client: `node_pool = "edge"`,
		plugins: []string{"guest-examples/drivers/wasi", "guest-examples/drivers/exec", "guest-examples/devices/example"},
		more: fmt.Sprintf(`
plugin "wasi" { grant { wasm { directories = [%q] } } }
plugin "exec" {
  grant {
    process {
      commands  = ["*"]
      users     = ["nobody"]
      isolation = "full"
    }
  }
}
plugin "example" {
  config { dir = %[2]q }
  grant { fs { read_only = [%[2]q] } }
}`, o.programs, devices),
	}.start(t)
	o.ours, o.theirs = o.ready(t, "ours"), o.ready(t, "theirs")
	eventually(t, "all plugins", func() (bool, string) { // they are loaded one after another
		n, _, err := o.client.Nodes().Info(o.ours, nil)
		if err != nil {
			return false, err.Error()
		}
		for _, name := range []string{"exec", "wasi"} {
			if d := n.Drivers[name]; d == nil || !d.Healthy {
				return false, fmt.Sprintf("%s: %+v", name, d)
			}
		}
		return len(n.NodeResources.Devices) == 1, "no devices"
	})
	return o
}

func worked(t *testing.T, o *operator) {
	for _, part := range []struct {
		name string
		test func(*testing.T, *operator)
	}{
		{"pools and nodes", pools},
		{"programs and devices", programs},
		{"periodic and dispatched", children},
		{"preempted", preempted},
		{"a canary is promoted, the next one fails", canaries},
		{"variables and services", read},
		{"drained", drained},
		{"a volume of CSI", csi},
		{"calls of the command line", func(t *testing.T, o *operator) { require.GreaterOrEqual(t, o.calls, 90) }},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.test(t, o) }) {
			t.FailNow()
		}
	}
}

// stop stops jobs and waits until nothing of them runs.
func (o *operator) stop(t *testing.T, jobs ...string) {
	t.Helper()
	for _, id := range jobs {
		o.ok(t, "", "job stop -detach -purge "+id)
		eventually(t, "the end of "+id, func() (bool, string) {
			list, _, err := o.client.Jobs().Allocations(id, true, nil)
			if err != nil {
				return false, err.Error()
			}
			for _, a := range list {
				if a.ClientStatus == "running" || a.ClientStatus == "pending" {
					return false, a.ClientStatus
				}
			}
			return true, ""
		})
	}
}

// running waits until so many allocations of a job run that are wanted, and returns them.
func (o *operator) running(t *testing.T, job string, n int) (list []*nomad.AllocationListStub) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d allocations of %s", n, job), func() (bool, string) {
		all, _, err := o.client.Jobs().Allocations(job, true, nil)
		if err != nil {
			return false, err.Error()
		}
		list = nil
		state := ""
		for _, a := range all {
			state += fmt.Sprintf("%s v%d %s/%s; ", a.ID[:8], a.JobVersion, a.DesiredStatus, a.ClientStatus)
			if a.ClientStatus == "running" && a.DesiredStatus == "run" {
				list = append(list, a)
			}
		}
		return len(list) == n, state
	})
	return list
}

func pools(t *testing.T, o *operator) {
	o.ok(t, `edge\s.*`, "node pool list")
	o.ok(t, `Successfully applied node pool "edge"`, "node pool apply testdata/jobs/edge.nodepool.hcl")
	o.ok(t, `Nodes at the edge`, "node pool info edge")
	o.ok(t, `(?m)^.*\sours\s.*ready$`, "node pool nodes edge")
	o.ok(t, `theirs`, "node status")
	o.ok(t, `(?s)Node Pool\s+= edge.*Driver Status\s+= exec,raw_exec,wasi`, "node status "+o.ours)
	o.ok(t, `nomad/file/mock`, "node status -verbose "+o.ours)
	o.ok(t, `Node "`+o.ours+`" scheduling eligibility set: ineligible`, "node eligibility -disable "+o.ours)
	o.ok(t, `registration successful`, "job run -detach testdata/jobs/stays.nomad.hcl")
	eventually(t, "the job to be blocked", func() (bool, string) {
		said, _ := o.cli(t, "", "", "job", "status", "stays")
		return strings.Contains(said, "Placement Failure"), said
	})
	o.ok(t, `set: eligible`, "node eligibility -enable "+o.ours)
	require.Equal(t, o.ours, o.running(t, "stays", 1)[0].NodeID)
	o.call(t, 1, `Job: "everywhere"`, "job plan testdata/jobs/everywhere.nomad.hcl") // 1: there is something to do
	o.stop(t, "stays")
}

// logs waits until a task has said so.
func (o *operator) logs(t *testing.T, want, alloc string) {
	t.Helper()
	o.calls++
	eventually(t, "the log of "+alloc, func() (bool, string) {
		said, _ := o.cli(t, "", "", "alloc", "logs", alloc)
		return said == want, said
	})
}

// groups are the only allocations of a job's groups, once they have a status.
func (o *operator) groups(t *testing.T, job, status string, names ...string) map[string]*nomad.AllocationListStub {
	t.Helper()
	found := map[string]*nomad.AllocationListStub{}
	eventually(t, job+" to be "+status, func() (bool, string) {
		list, _, err := o.client.Jobs().Allocations(job, true, nil)
		if err != nil {
			return false, err.Error()
		}
		state := ""
		clear(found)
		for _, a := range list {
			state += fmt.Sprintf("%s %s %v; ", a.TaskGroup, a.ClientStatus, a.TaskStates)
			if a.ClientStatus == status {
				found[a.TaskGroup] = a
			}
		}
		return len(list) == len(names) && len(found) == len(names), state
	})
	return found
}

func programs(t *testing.T, o *operator) {
	file := "-var programs=" + o.programs + " testdata/jobs/programs.nomad.hcl"
	o.ok(t, `validation successful`, "job validate "+file)
	o.ok(t, `(?s)registration successful`, "job run -detach "+file)
	ended := o.groups(t, "programs", "complete", "wasi", "exec", "device")
	o.logs(t, "line 1\nline 2\n", ended["wasi"].ID)
	o.logs(t, "nobody\n1\n/\n", ended["exec"].ID)
	said := o.ok(t, `^has (one|two)\n$`, "alloc logs "+ended["device"].ID)
	a, _, err := o.client.Allocations().Info(ended["device"].ID, nil)
	require.NoError(t, err)
	require.Equal(t, []string{strings.TrimSpace(strings.TrimPrefix(said, "has "))}, a.AllocatedResources.Tasks["device"].Devices[0].DeviceIDs)
	o.ok(t, `(?s)Exit Code: 0.*Started.*Task Setup.*Received`, "alloc status "+ended["wasi"].ID)
	o.ok(t, `(?s)Status\s+= dead.*complete`, "job status programs")
	o.ok(t, `"Driver": "wasi"`, "job inspect programs")
	o.ok(t, `complete`, "job allocs programs")
	o.ok(t, `(?s)Device Stats.*nomad/file/mock.*size\s+= 6 B`, "node status -stats -verbose "+o.ours)
	o.stop(t, "programs")
}

func children(t *testing.T, o *operator) {
	o.ok(t, `registration successful`, "job run -detach testdata/jobs/nightly.nomad.hcl")
	o.ok(t, `(?s)Periodic\s+= true.*0 0 1 1 \*|Periodic\s+= true`, "job status nightly")
	o.ok(t, `Force periodic successful`, "job periodic force -detach nightly")
	child := o.child(t, "nightly")
	o.logs(t, "swept by "+child+"\n", o.groups(t, child, "complete", "g")["g"].ID)
	o.stop(t, "nightly")

	o.ok(t, `registration successful`, "job run -detach testdata/jobs/greets.nomad.hcl")
	o.fails(t, `(?i)payload`, "job dispatch -detach -meta who=you greets")
	o.call(t, 1, `meta`, "job dispatch -detach greets -", "good day")
	o.ok(t, `Dispatched Job ID`, "job dispatch -detach -meta who=you greets -", "good day")
	child = o.child(t, "greets")
	o.logs(t, "you: good day\n", o.groups(t, child, "complete", "g")["g"].ID)
	o.ok(t, `(?s)Parameterized Job.*Dispatched Jobs.*dead`, "job status greets")
	o.stop(t, "greets")
}

// child is the ID of a job's only child.
func (o *operator) child(t *testing.T, parent string) (id string) {
	t.Helper()
	eventually(t, "a child of "+parent, func() (bool, string) {
		list, _, err := o.client.Jobs().PrefixList(parent + "/")
		if err != nil || len(list) != 1 {
			return false, fmt.Sprint(len(list), err)
		}
		id = list[0].ID
		return true, ""
	})
	return id
}

// devours is a job that takes devices.
func (o *operator) devours(id, kind string, priority, count int) string {
	return fmt.Sprintf("job run -detach -var id=%s -var type=%s -var priority=%d -var count=%d -var marks=%s testdata/jobs/devours.nomad.hcl", id, kind, priority, count, o.marks)
}

func (o *operator) marked(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, "what tasks have written", func() (bool, string) {
		got, err := os.ReadFile(o.marks)
		return string(got) == strings.Join(want, "\n")+"\n", fmt.Sprint(string(got), err)
	})
}

func preempted(t *testing.T, o *operator) {
	o.ok(t, `Scheduler configuration updated`, "operator scheduler set-config -preempt-service-scheduler=true -preempt-batch-scheduler=true")
	o.ok(t, `Preemption Service Scheduler\s+= true`, "operator scheduler get-config")
	o.ok(t, `registration successful`, o.devours("low", "batch", 10, 2))
	low := o.running(t, "low", 1)[0]
	o.marked(t, "low begins")
	o.ok(t, `registration successful`, o.devours("same", "batch", 15, 1))
	eventually(t, "one that is hardly more important to be blocked", func() (bool, string) {
		list, _, err := o.client.Evaluations().List(nil)
		for _, e := range list {
			if e.JobID == "same" && e.Status == "blocked" {
				return true, ""
			}
		}
		return false, fmt.Sprint(len(list), err)
	})
	o.ok(t, `(?s)devices|exhausted|Placement Failure`, "job status same")
	o.stop(t, "same")
	o.ok(t, `registration successful`, o.devours("high", "service", 80, 1))
	high := o.running(t, "high", 1)[0]
	o.marked(t, "low begins", "low ends", "high begins")
	o.ok(t, `(?s)Desired Status\s+= evict.*Preempted`, "alloc status "+low.ID)
	o.ok(t, `(?s)Preempted Alloc|`+low.ID[:8], "alloc status -verbose "+high.ID)
	o.ok(t, `registration successful`, o.devours("top", "system", 95, 2))
	o.running(t, "top", 1)
	o.marked(t, "low begins", "low ends", "high begins", "high ends", "top begins")
	o.stop(t, "low", "high", "top")
}

func canaries(t *testing.T, o *operator) {
	run := func(does string) string { return "job run -detach -var does=" + does + " testdata/jobs/web.nomad.hcl" }
	o.ok(t, `registration successful`, run("sleep${IFS}10000"))
	o.deployed(t, "web", 0)
	o.ok(t, `(?s)web`, "service list")
	first := o.running(t, "web", 2)
	for _, a := range first {
		require.Equal(t, o.ours, a.NodeID)
	}

	o.ok(t, `registration successful`, run("sleep${IFS}20000"))
	o.running(t, "web", 3)
	o.canary(t, 1)
	o.ok(t, `(?s)running.*requires manual promotion|needs promotion|running but requires`, "deployment list")
	d, _, err := o.client.Jobs().LatestDeployment("web", nil)
	require.NoError(t, err)
	o.ok(t, `(?s)Canaries.*Healthy`, "deployment status -verbose "+d.ID)
	o.ok(t, `Evaluation ID`, "deployment promote -detach "+d.ID)
	o.deployed(t, "web", 1)
	for _, a := range o.running(t, "web", 2) {
		require.Equal(t, uint64(1), a.JobVersion)
	}
	o.ok(t, `(?s)Version\s+= 1.*Stable\s+= true.*Version\s+= 0`, "job history -p web")

	o.ok(t, `registration successful`, run("exit${IFS}3"))
	o.deployed(t, "web", 3) // which is what version 1 was
	for _, a := range o.running(t, "web", 2) {
		require.NotEqual(t, uint64(2), a.JobVersion)
	}
	o.ok(t, `(?s)failed.*rolling back to job version 1`, "job deployments -verbose web")
	o.ok(t, `reverted|Evaluation|evaluation|Monitoring`, "job revert -detach web 0")
	o.running(t, "web", 3)
	o.canary(t, 4)
	o.ok(t, `Evaluation ID`, "job promote -detach web")
	o.deployed(t, "web", 4)
	o.ok(t, ``, "job scale -detach web g 3")
	o.deployed(t, "web", 5)
	o.running(t, "web", 3)
	found, _, err := o.client.Services().Get("web", nil)
	require.NoError(t, err)
	require.Len(t, found, 3)
	o.ok(t, `(?s)web.*127.0.0.1|web`, "service info web")
	o.ok(t, `web`, "eval list -job web")
	o.stop(t, "web")
}

// canary waits until the canary of a version is healthy.
func (o *operator) canary(t *testing.T, version uint64) {
	t.Helper()
	eventually(t, "the canary to be healthy", func() (bool, string) {
		d, _, err := o.client.Jobs().LatestDeployment("web", nil)
		return err == nil && d.TaskGroups["g"].HealthyAllocs == 1 && d.JobVersion == version, fmt.Sprint(d, err)
	})
}

func read(t *testing.T, o *operator) {
	o.ok(t, `with modify index`, "var put -out=none nomad/jobs/reader greeting=hello")
	o.ok(t, `registration successful`, "job run -detach testdata/jobs/plain.nomad.hcl")
	require.Equal(t, o.theirs, o.running(t, "plain", 1)[0].NodeID)
	found, _, err := o.client.Services().Get("plain", nil)
	require.NoError(t, err)
	require.Len(t, found, 1)
	o.ok(t, `registration successful`, "job run -detach testdata/jobs/reader.nomad.hcl")
	reader := o.running(t, "reader", 1)[0]
	require.Equal(t, o.ours, reader.NodeID)
	hello := fmt.Sprintf("hello, plain at %d\n", found[0].Port)
	o.logs(t, hello, reader.ID)
	o.ok(t, `with modify index`, "var put -out=none -force nomad/jobs/reader greeting=servus")
	o.logs(t, hello+strings.Replace(hello, "hello", "servus", 1), reader.ID)
	o.stop(t, "plain")
	o.logs(t, hello+strings.Replace(hello, "hello", "servus", 1)+"servus, \n", reader.ID)
	o.ok(t, `Signaling`, "alloc status "+reader.ID)
	o.ok(t, `Successfully purged`, "var purge nomad/jobs/reader")
	o.stop(t, "reader")
}

func drained(t *testing.T, o *operator) {
	o.ok(t, `registration successful`, "job run -detach testdata/jobs/everywhere.nomad.hcl")
	for _, a := range o.running(t, "everywhere", 2) {
		name := "ours"
		if a.NodeID == o.theirs {
			name = "theirs"
		}
		o.logs(t, "on "+name+"\n", a.ID)
	}
	o.ok(t, `registration successful`, "job run -detach -var on=^ours$ testdata/jobs/moves.nomad.hcl")
	o.deployed(t, "moves", 0)
	first := o.moved(t, o.ours)
	o.ok(t, `in-place update`, "job plan -var on=ours|theirs testdata/jobs/moves.nomad.hcl")
	o.ok(t, `registration successful`, "job run -detach -var on=ours|theirs testdata/jobs/moves.nomad.hcl")
	o.deployed(t, "moves", 1)
	require.Equal(t, first, o.moved(t, o.ours))
	o.ok(t, `registration successful`, "job run -detach testdata/jobs/stays.nomad.hcl")
	o.running(t, "stays", 1)
	o.ok(t, `drain strategy set`, "node drain -enable -yes -detach -deadline 3s "+o.ours)
	o.moved(t, o.theirs)
	o.ok(t, `drain complete|No drain strategy|All allocations on node`, "node drain -monitor "+o.ours)
	o.running(t, "stays", 0)
	for _, a := range o.running(t, "everywhere", 1) {
		require.Equal(t, o.theirs, a.NodeID)
	}
	o.ok(t, `(?s)Eligibility\s+= ineligible.*Node drain complete`, "node status "+o.ours)
	o.ok(t, `eligible`, "node eligibility -enable "+o.ours)
	o.running(t, "everywhere", 2)
	o.ok(t, `drain strategy set`, "node drain -enable -yes -detach -deadline 3s "+o.theirs)
	o.moved(t, o.ours)
	o.ok(t, `drain complete|No drain strategy|All allocations on node`, "node drain -monitor "+o.theirs)
	o.ok(t, `eligible`, "node eligibility -enable "+o.theirs)
	second := o.moved(t, o.ours)
	o.ok(t, `^[0-9a-f-]{36}\n$`, "alloc stop -detach "+second)
	eventually(t, "another allocation", func() (bool, string) {
		next := o.running(t, "moves", 1)[0].ID
		return next != second, next
	})
	o.stop(t, "moves", "stays", "everywhere")
}

// moved waits until the only allocation of the job that moves runs on a node, and returns its ID.
func (o *operator) moved(t *testing.T, to string) (id string) {
	t.Helper()
	eventually(t, "the job to be on the node", func() (bool, string) {
		a := o.running(t, "moves", 1)[0]
		id = a.ID
		return a.NodeID == to, a.NodeName
	})
	return id
}

func csi(t *testing.T, o *operator) {
	o.ok(t, `registration successful`, "job run -detach testdata/jobs/disks.nomad.hcl")
	eventually(t, "the volume to be missed", func() (bool, string) {
		said, _ := o.cli(t, "", "", "job", "status", "disks")
		return strings.Contains(strings.ToLower(said), "missing csi volume"), said
	})
	o.stop(t, "disks")
	o.ok(t, `registration successful`, "job run -detach testdata/jobs/disk-plugin.nomad.hcl")
	failed := o.groups(t, "disk-plugin", "failed", "g")["g"]
	require.Contains(t, failed.ClientDescription, "there are no CSI volumes on this node, and no plugins of them")
	if o.atLeast(t, "1.8.0") {
		o.fails(t, `can't find method Allocations.SetPauseState`, "alloc pause "+failed.ID+" t")
	}
	o.stop(t, "disk-plugin")
}
