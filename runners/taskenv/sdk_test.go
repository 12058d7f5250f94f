package taskenv

import (
	"math/rand/v2"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	sdk "github.com/wasmnode/wasmnode/sdk/go/taskenv"
	"github.com/wasmnode/wasmnode/structs"
)

// told is what a driver is told of a task, and of its node.
func told(node *structs.Node, alloc *structs.Allocation, task *nomad.Task, env *Env, dirs Dirs, own *structs.AllocNetwork) *wasmnodev1.TaskConfig {
	out := &wasmnodev1.TaskConfig{
		Name: task.Name, AllocId: alloc.ID, JobId: alloc.JobID, JobName: structs.Deref(alloc.Job.Name), ParentJobId: structs.Deref(alloc.Job.ParentID),
		TaskGroupName: alloc.TaskGroup, Namespace: alloc.Namespace, NodeName: node.Name, NodeId: node.ID, Env: env.Map(),
		Directories: &wasmnodev1.TaskDirectories{Shared: dirs.Alloc, Local: dirs.Task, Secrets: dirs.Secrets},
		Resources:   &wasmnodev1.Resources{},
	}
	if r := alloc.Resources.Tasks[task.Name]; r != nil {
		out.Resources.CpuMhz, out.Resources.MemoryBytes, out.Resources.MemoryMaxBytes = uint64(r.CPUMHz), uint64(r.MemoryMB)<<20, uint64(r.MemoryMaxMB)<<20
		for _, core := range r.Cores {
			out.Resources.Cores = append(out.Resources.Cores, uint32(core))
		}
	}
	for _, p := range alloc.Resources.Ports {
		out.Ports = append(out.Ports, &wasmnodev1.Port{Label: p.Label, HostIp: p.HostIP, HostPort: uint32(p.Value), TaskPort: uint32(p.To)})
	}
	if own != nil {
		out.Network = &wasmnodev1.TaskNetwork{Interface: own.Interface, Ip: own.Address}
		if own.Address == "" {
			out.Network.Ip = own.AddressIPv6
		}
	}
	return out
}

// TestTheSDKMakesTheSameVariables draws tasks.
func TestTheSDKMakesTheSameVariables(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	for range 500 {
		node, alloc, task := world()
		node.Datacenter, node.Region = pick("", "dc1"), pick("", "global")
		alloc.ID, alloc.Name = pick("", "short", "11111111-2222-3333-4444-555555555555"), pick("", "job", "job.front[7]", "a[b[0]", "x]")
		alloc.JobID, alloc.Namespace = pick("", "shop"), pick("", "default")
		task.Env = nil
		alloc.Job.Meta, alloc.Job.ParameterizedJob = map[string]string{pick("a", "A", "odd-key", "odd.key", "ü"): pick("", "1")}, nil
		task.Meta = map[string]string{pick("a", "b", "odd_key"): pick("", "2")}
		alloc.Group().Meta = nil
		alloc.Resources.Tasks = map[string]*structs.TaskResources{task.Name: {
			CPUMHz: random.IntN(2) * 500, MemoryMB: random.IntN(2) * 64, MemoryMaxMB: random.IntN(2) * 128,
			Cores: random.Perm(6)[:random.IntN(6)],
		}}
		alloc.Resources.Ports = nil
		for _, label := range []string{"http", "odd-one"}[:random.IntN(3)] {
			alloc.Resources.Ports = append(alloc.Resources.Ports, structs.AllocatedPort{
				Label: label, Value: 20000 + random.IntN(9), To: random.IntN(2) * 80, HostIP: pick("", "10.0.0.1", "fd00::1", "::ffff:10.0.0.1", "fe80::1%eth0", "host"),
			})
		}
		var own *structs.AllocNetwork
		if random.IntN(2) == 0 {
			own = &structs.AllocNetwork{Interface: pick("", "eth0"), Address: pick("", "172.26.0.2"), AddressIPv6: pick("", "fd01::2")}
		}
		dirs, isolated := Dirs{Alloc: pick("", "/a/alloc"), Task: "/a/t/local", Secrets: "/a/t/secrets"}, random.IntN(2) == 0
		b := NewBuilder(node, alloc, task).SetDirs(dirs).SetAllocNetwork(own)
		if isolated {
			b.SetDirs(IsolatedDirs)
		}
		env := b.Build()
		meta := map[string]string{}
		for _, m := range []map[string]string{alloc.Job.Meta, task.Meta} {
			for key, value := range m {
				meta[key] = value
			}
		}
		require.Equal(t, env.Map(), sdk.Variables(told(node, alloc, task, env, dirs, own), sdk.More{
			Isolated: isolated, AllocName: alloc.Name, Datacenter: node.Datacenter, Region: node.Region, Meta: meta,
		}))
	}
}

func FuzzTheSDKReplacesTheSame(f *testing.F) {
	node, alloc, task := world()
	task.Env = map[string]string{"X": "x", "a b": "spaced", "E": "${X}"}
	node.Attributes, node.Meta = nil, nil // of which a driver is told nothing
	env := NewBuilder(node, alloc, task).Build()
	of := told(node, alloc, task, env, Dirs{}, nil)
	for _, s := range []string{
		"${X}", "${ X }", `${env["a b"]}`, "${env[ \"X\"\n]\t}", "${env.X}", "${${X}}", "${", "${env[", `${env[""]}`, `${env["X"}`, "${env}", "${node.unique.id}",
		"${node.unique.name}${NOMAD_ADDR_odd-one}", "${NOMAD_META_odd-key}", "${attr.a} ${meta.b}", "${X\v}", "$${X}}", "${X}\xff${\xff}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, untold := range []string{"node.class", "node.pool", "node.datacenter", "node.region"} {
			if strings.Contains(text, untold) {
				return
			}
		}
		require.Equal(t, env.Replace(text), sdk.Replace(of, text))
	})
}
