package jobfields

import (
	"encoding/json"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/jobspec"
)

// checkFile checks a job whose group and task have some blocks, as a job file has them.
func checkFile(t *testing.T, kind, job, group, task string) (refusals, warnings []string) {
	t.Helper()
	parsed, err := jobspec.Parse(jobspec.Options{Path: "job.hcl", Content: []byte(`
job "j" {
  type = "` + kind + `"
  ` + job + `
  group "g" {
    ` + group + `
    task "t" {
      driver = "mock"
      ` + task + `
    }
  }
}`)})
	require.NoError(t, err)
	parsed.Canonicalize()
	return Check(parsed)
}

// What the parser, canonicalising and a client that sends every default put into a job asks
// for nothing.
func TestDefaultsAreNotTold(t *testing.T) {
	refusals, warnings := checkFile(t, "service", "update {}\nmigrate {\nmax_parallel = 1\n}", `
    update {
      max_parallel      = 1
      canary            = 0
      auto_revert       = false
      auto_promote      = false
      stagger           = "30s"
      progress_deadline = "10m"
    }`, "")
	require.Empty(t, refusals)
	require.Empty(t, warnings)
	for _, kind := range []string{"service", "batch", "system", "sysbatch"} {
		refusals, warnings := checkFile(t, kind, `
  region      = "global"
  datacenters = ["*"]`, `
    count = 1
    ephemeral_disk {}
    network {
      mode = "host"
      port "http" { host_network = "default" }
    }`, `
      user           = ""
      kill_timeout   = "5s"
      shutdown_delay = "0s"
      logs {}
      resources {}`)
		require.Empty(t, refusals, kind)
		require.Empty(t, warnings, kind)
	}
	job := nomad.NewServiceJob("j", "j", "global", 50).AddTaskGroup(nomad.NewTaskGroup("g", 1).AddTask(nomad.NewTask("t", "mock")))
	for range 3 { // sent, stored, read, and sent again
		job.Canonicalize()
		text, err := json.Marshal(job)
		require.NoError(t, err)
		job = new(nomad.Job)
		require.NoError(t, json.Unmarshal(text, job))
	}
	job.Canonicalize()
	refusals, warnings = Check(job)
	require.Empty(t, refusals)
	require.Empty(t, warnings)
}

func TestWhatIsNotDoneIsRefusedOrWarnedAbout(t *testing.T) {
	const gt = `group "g": task "t": `
	for name, c := range map[string]struct {
		job, group, task string
		refused, warned  string
	}{
		"vault":         {task: `vault { role = "r" }`, refused: gt + "vault: there is no Vault: the task would be given no token"},
		"consul":        {task: `consul {}`, refused: gt + "consul: there is no Consul: the task would be given no token"},
		"group consul":  {group: `consul { namespace = "n" }`, warned: `group "g": consul: it has no effect: there is no Consul`},
		"secret":        {task: "secret \"s\" {\n provider = \"nomad\"\n path = \"a\"\n}", refused: gt + "secret: there is nothing to read secrets from"},
		"schedule":      {task: "schedule {\n cron {\n start = \"0 1 * * *\"\n end = \"0 2 * * *\"\n }\n}", refused: gt + "schedule: tasks run as long as their allocation: a schedule is not kept"},
		"csi_plugin":    {task: "csi_plugin {\n id = \"p\"\n type = \"node\"\n mount_dir = \"/csi\"\n}", refused: gt + "csi_plugin: there are no CSI volumes, and no plugins of them"},
		"volume":        {group: "volume \"data\" {\n type = \"host\"\n source = \"data\"\n access_mode = \"single-node-writer\"\n}"},
		"mount_options": {group: "volume \"data\" {\n type = \"host\"\n source = \"data\"\n mount_options {\n fs_type = \"ext4\"\n}\n}", refused: `group "g": volume "data": mount_options: host volumes cannot have mount options`},
		"volume_mount":  {task: "volume_mount {\n volume = \"data\"\n destination = \"/data\"\n propagation_mode = \"bidirectional\"\n}", refused: gt + "volume_mount: propagation_mode: mounts are private"},
		"host_network":  {group: "network {\n port \"http\" { host_network = \"public\" }\n}"},
		"static host":   {group: "network {\n port \"http\" {\n static = 80\n host_network = \"public\"\n }\n}"},
		"dns":           {group: "network {\n dns { servers = [\"1.1.1.1\"] }\n}"},
		"multiregion":   {job: "multiregion {\n region \"eu\" {}\n}", refused: "multiregion: there is one region"},

		"update":             {job: "update {\n max_parallel = 3\n canary = 1\n auto_revert = true\n stagger = \"1s\"\n min_healthy_time = \"1s\"\n}"},
		"affinity":           {job: "affinity {\n attribute = \"${node.class}\"\n value = \"big\"\n}"},
		"spread":             {group: "spread {\n attribute = \"${node.datacenter}\"\n}"},
		"task affinity":      {task: "affinity {\n attribute = \"${node.class}\"\n value = \"big\"\n}"},
		"vertical":           {task: "scaling \"cpu\" {\n max = 300\n}", warned: gt + "scaling: it has no effect: Nomad Enterprise's autoscaler alone scales the resources of tasks"},
		"disconnect":         {group: "disconnect {\n lost_after = \"1h\"\n}", warned: `group "g": disconnect: it has no effect: the node and its control plane are never apart`},
		"identity":           {task: "identity {\n env = true\n}"},
		"an identity":        {task: "identity {\n name = \"aws\"\n aud = [\"x\"]\n file = true\n}"},
		"extra claims":       {task: "identity {\n name = \"aws\"\n extra_claims = [\"x\"]\n file = true\n}", refused: gt + "identity \"aws\": extra_claims: namespaces define no claims for tokens"},
		"numa":               {task: "resources {\n numa { affinity = \"prefer\" }\n}", warned: gt + "resources: numa: affinity: it has no effect: the cores that a task gets are the lowest free ones"},
		"numa of none":       {task: "resources {\n numa { affinity = \"none\" }\n}"},
		"cores":              {task: "resources {\n cores = 1\n}"},
		"kind":               {task: `kind = "connect-proxy:web"`, warned: gt + "kind: it is Consul's, and has no effect"},
		"a network's device": {group: "network {\n device = \"d\"\n}", warned: `group "g": network: device: it has no effect: tasks have the machine's network and names`},
		"service":            {group: "service {\n provider = \"nomad\"\n tags = [\"a\"]\n}"},
		"a service's meta":   {group: "service {\n provider = \"nomad\"\n meta {\n a = \"b\"\n }\n}", warned: `group "g": service "j-g": meta: it is Consul's, and has no effect`},
	} {
		t.Run(name, func(t *testing.T) {
			refusals, warnings := checkFile(t, "service", c.job, c.group, c.task)
			for _, told := range []struct {
				want string
				are  []string
			}{{c.refused, refusals}, {c.warned, warnings}} {
				if told.want == "" {
					require.Empty(t, told.are)
				} else {
					require.Equal(t, []string{told.want}, told.are)
				}
			}
		})
	}
}

// A job of many groups is told of once, not as often as it has groups.
func TestWhatManyBlocksHaveIsToldOnce(t *testing.T) {
	job := nomad.NewServiceJob("j", "j", "global", 50)
	for range 1000 {
		task := nomad.NewTask("t", "mock")
		task.Vault, task.Kind = &nomad.Vault{}, "k"
		job.AddTaskGroup(nomad.NewTaskGroup("g", 1).AddTask(task))
	}
	job.Canonicalize()
	refusals, warnings := Check(job)
	require.Equal(t, []string{`group "g": task "t": vault (and in 999 other blocks): there is no Vault: the task would be given no token`}, refusals)
	require.Equal(t, []string{`group "g": task "t": kind (and in 999 other blocks): it is Consul's, and has no effect`}, warnings)
}

// Where several blocks ask for different things that are not done for one reason, each thing
// is named.
func TestWhatOtherBlocksAskForBesidesIsNamed(t *testing.T) {
	job := nomad.NewServiceJob("j", "j", "global", 50)
	for i, name := range []string{"a", "b", "c"} {
		group := nomad.NewTaskGroup(name, 1).AddTask(nomad.NewTask("t", "mock"))
		group.Disconnect = &nomad.DisconnectStrategy{LostAfter: new(time.Hour)}
		network := &nomad.NetworkResource{Device: "d"}
		if i > 0 {
			network.IP = "10.0.0.1"
		}
		group.Networks = []*nomad.NetworkResource{network}
		job.AddTaskGroup(group)
	}
	job.Canonicalize()
	_, warnings := Check(job)
	const host = "it has no effect: tasks have the machine's network and names"
	require.ElementsMatch(t, []string{
		`group "a": disconnect (and in 2 other blocks): it has no effect: the node and its control plane are never apart`,
		`group "a": network: device (and in 2 other blocks): ` + host,
		`group "b": network: ip (and in another block): ` + host,
	}, warnings)
}
