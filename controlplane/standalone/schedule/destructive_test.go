package schedule

import (
	"encoding/json"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// lasting is a canonical job of one group and one task.
func lasting(version uint64, change ...func(*nomad.Job)) *nomad.Job {
	task := nomad.NewTask("t", "mock")
	task.Config = map[string]any{"command": "x"}
	j := nomad.NewServiceJob("j", "j", "global", 50).AddTaskGroup(nomad.NewTaskGroup("g", 1).AddTask(task))
	for _, c := range change {
		c(j)
	}
	j.Canonicalize()
	j.JobModifyIndex = &version
	return j
}

// TestWhichChangesTasksTakeWhileTheyRun is Nomad's table, with one exception: what is read
// when a task is set up, its place in the life cycle and the size of its logs, takes effect
// here because the task starts anew.
func TestWhichChangesTasksTakeWhileTheyRun(t *testing.T) {
	type job = func(*nomad.Job)
	g := func(change func(*nomad.TaskGroup)) job { return func(j *nomad.Job) { change(j.TaskGroups[0]) } }
	task := func(change func(*nomad.Task)) job { return func(j *nomad.Job) { change(j.TaskGroups[0].Tasks[0]) } }
	affinity := []*nomad.Affinity{nomad.NewAffinity("${a}", "=", "b", 50)}
	constraint := []*nomad.Constraint{nomad.NewConstraint("${a}", "=", "b")}
	spread := []*nomad.Spread{nomad.NewSpread("${a}", 50, nil)}
	for name, change := range map[string]job{
		"priority":                func(j *nomad.Job) { j.Priority = new(70) },
		"datacenters":             func(j *nomad.Job) { j.Datacenters = []string{"dc1"} },
		"constraints of the job":  func(j *nomad.Job) { j.Constraints = constraint },
		"update":                  func(j *nomad.Job) { j.Update = &nomad.UpdateStrategy{MaxParallel: new(3)} },
		"count":                   g(func(g *nomad.TaskGroup) { g.Count = new(4) }),
		"constraints":             g(func(g *nomad.TaskGroup) { g.Constraints = constraint }),
		"reschedule":              g(func(g *nomad.TaskGroup) { g.ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: new(1)} }),
		"restart":                 g(func(g *nomad.TaskGroup) { g.RestartPolicy = &nomad.RestartPolicy{Attempts: new(7)} }),
		"migrate":                 g(func(g *nomad.TaskGroup) { g.Migrate = &nomad.MigrateStrategy{MaxParallel: new(2)} }),
		"scaling":                 g(func(g *nomad.TaskGroup) { g.Scaling = &nomad.ScalingPolicy{Max: new(int64(9))} }),
		"services":                g(func(g *nomad.TaskGroup) { g.Services = []*nomad.Service{{Name: "s", Provider: "nomad"}} }),
		"shutdown_delay of all":   g(func(g *nomad.TaskGroup) { g.ShutdownDelay = new(time.Second) }),
		"kill_timeout":            task(func(t *nomad.Task) { t.KillTimeout = new(time.Minute) }),
		"kill_signal":             task(func(t *nomad.Task) { t.KillSignal = "SIGINT" }),
		"shutdown_delay":          task(func(t *nomad.Task) { t.ShutdownDelay = time.Second }),
		"services of the task":    task(func(t *nomad.Task) { t.Services = []*nomad.Service{{Name: "s", Provider: "nomad"}} }),
		"constraints of the task": task(func(t *nomad.Task) { t.Constraints = constraint }),
		"empty blocks":            func(j *nomad.Job) { j.Meta, j.TaskGroups[0].Networks = map[string]string{}, []*nomad.NetworkResource{} },
	} {
		t.Run(name, func(t *testing.T) { require.False(t, destroys(change)) })
	}
	for name, change := range map[string]job{
		"affinities of the job": func(j *nomad.Job) { j.Affinities = affinity },
		"spreads of the job":    func(j *nomad.Job) { j.Spreads = spread },
		"meta of the job":       func(j *nomad.Job) { j.Meta = map[string]string{"k": "v"} },
		"affinities":            g(func(g *nomad.TaskGroup) { g.Affinities = affinity }),
		"spreads":               g(func(g *nomad.TaskGroup) { g.Spreads = spread }),
		"ephemeral_disk":        g(func(g *nomad.TaskGroup) { g.EphemeralDisk = &nomad.EphemeralDisk{SizeMB: new(999)} }),
		"network": g(func(g *nomad.TaskGroup) {
			g.Networks = []*nomad.NetworkResource{{DynamicPorts: []nomad.Port{{Label: "p"}}}}
		}),
		"volumes":             g(func(g *nomad.TaskGroup) { g.Volumes = map[string]*nomad.VolumeRequest{"v": {Source: "s"}} }),
		"meta of the group":   g(func(g *nomad.TaskGroup) { g.Meta = map[string]string{"k": "v"} }),
		"another task":        g(func(g *nomad.TaskGroup) { g.AddTask(nomad.NewTask("u", "mock")) }),
		"driver":              task(func(t *nomad.Task) { t.Driver = "other" }),
		"user":                task(func(t *nomad.Task) { t.User = "u" }),
		"config":              task(func(t *nomad.Task) { t.Config["command"] = "y" }),
		"an empty list in it": task(func(t *nomad.Task) { t.Config["args"] = []any{} }),
		"env":                 task(func(t *nomad.Task) { t.Env = map[string]string{"K": "v"} }),
		"meta":                task(func(t *nomad.Task) { t.Meta = map[string]string{"k": "v"} }),
		"cpu":                 task(func(t *nomad.Task) { t.Resources = &nomad.Resources{CPU: new(7)} }),
		"memory_max":          task(func(t *nomad.Task) { t.Resources = &nomad.Resources{MemoryMaxMB: new(700)} }),
		"secrets":             task(func(t *nomad.Task) { t.Resources = &nomad.Resources{SecretsMB: new(2)} }),
		"devices":             task(func(t *nomad.Task) { t.Resources = &nomad.Resources{Devices: []*nomad.RequestedDevice{{Name: "gpu"}}} }),
		"artifacts":           task(func(t *nomad.Task) { t.Artifacts = []*nomad.TaskArtifact{{GetterSource: new("http://x")}} }),
		"templates":           task(func(t *nomad.Task) { t.Templates = []*nomad.Template{{EmbeddedTmpl: new("x")}} }),
		"volume mounts":       task(func(t *nomad.Task) { t.VolumeMounts = []*nomad.VolumeMount{{Volume: new("v")}} }),
		"identity":            task(func(t *nomad.Task) { t.Identity = &nomad.WorkloadIdentity{Env: true} }),
		"identities":          task(func(t *nomad.Task) { t.Identities = []*nomad.WorkloadIdentity{{Name: "i"}} }),
		"logs":                task(func(t *nomad.Task) { t.LogConfig = &nomad.LogConfig{MaxFiles: new(3)} }),
		"lifecycle":           task(func(t *nomad.Task) { t.Lifecycle = &nomad.TaskLifecycle{Hook: "prestart"} }),
		"leader":              task(func(t *nomad.Task) { t.Leader = true }),
		"actions":             task(func(t *nomad.Task) { t.Actions = []*nomad.Action{{Name: "a", Command: "c"}} }),
	} {
		t.Run(name, func(t *testing.T) { require.True(t, destroys(change)) })
	}
	t.Run("meta that a task has another of", func(t *testing.T) {
		own := task(func(t *nomad.Task) { t.Meta = map[string]string{"k": "mine"} })
		old := lasting(1, own)
		require.False(t, destroysAfter(old, lasting(2, own, func(j *nomad.Job) { j.Meta = map[string]string{"k": "v"} })))
	})
	t.Run("a task less", func(t *testing.T) {
		two := g(func(g *nomad.TaskGroup) { g.AddTask(nomad.NewTask("u", "mock")) })
		require.True(t, destroysAfter(lasting(1, two), lasting(2)))
	})
	t.Run("the second task", func(t *testing.T) {
		two := func(user string) job {
			return g(func(g *nomad.TaskGroup) { g.AddTask(&nomad.Task{Name: "u", Driver: "mock", User: user}) })
		}
		require.False(t, destroysAfter(lasting(1, two("")), lasting(2, two(""))))
		require.True(t, destroysAfter(lasting(1, two("")), lasting(2, two("other"))))
	})
	t.Run("a group that it had not", func(t *testing.T) {
		require.True(t, destroysAfter(lasting(1, g(func(g *nomad.TaskGroup) { g.Name = new("other") })), lasting(2)))
	})
	t.Run("what was stored and read again", func(t *testing.T) {
		b, err := json.Marshal(lasting(1))
		require.NoError(t, err)
		var stored nomad.Job
		require.NoError(t, json.Unmarshal(b, &stored))
		require.False(t, destroysAfter(&stored, lasting(2)))
	})
}

func TestWhatIsTheSame(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		a, b any
		same bool
	}{
		{1, 1, true}, {1, 2, false}, {"", nil, true}, {[]int{}, nil, true}, {m{}, nil, true}, {m{"a": m{"b": ""}}, nil, true},
		{[]string{""}, nil, false}, {0, nil, false}, {false, nil, false}, // there are as many, and a number is asked for
		{m{"Config": m{}}, nil, true}, {m{"Config": m{"a": ""}}, nil, false}, {m{"Other": m{"a": ""}}, nil, true},
		{make(chan int), nil, false}, {nil, make(chan int), false}, {make(chan int), make(chan int), false},
	} {
		require.Equal(t, c.same, Same(c.a, c.b), "%T %v, %T %v", c.a, c.a, c.b, c.b)
	}
}

func destroys(change func(*nomad.Job)) bool { return destroysAfter(lasting(1), lasting(2, change)) }

// destroysAfter reports whether an allocation of a version is replaced by the next one.
func destroysAfter(old, new *nomad.Job) bool {
	s := &scheduler{Input: Input{Job: new}, destroys: map[destroysKey]bool{}}
	a := &Alloc{Allocation: &structs.Allocation{Job: old}}
	return s.destructive(a, new.TaskGroups[0])
}
