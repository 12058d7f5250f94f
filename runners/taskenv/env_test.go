package taskenv

import (
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func ptr[T any](v T) *T { return &v }

func world() (*structs.Node, *structs.Allocation, *nomad.Task) {
	task := &nomad.Task{
		Name: "web",
		Env:  map[string]string{"GREETING": "hi ${meta.owner} on ${node.unique.name}", "PORT": "${NOMAD_PORT_http}"},
		Meta: map[string]string{"tier": "task"},
	}
	group := &nomad.TaskGroup{Name: ptr("front"), Tasks: []*nomad.Task{task}, Meta: map[string]string{"tier": "group", "odd-key": "g"}}
	job := &nomad.Job{
		ID: ptr("shop/dispatch-1"), Name: ptr("shop"), ParentID: ptr("shop"),
		TaskGroups: []*nomad.TaskGroup{group}, Meta: map[string]string{"tier": "job", "owner": "job"},
		ParameterizedJob: &nomad.ParameterizedJobConfig{MetaOptional: []string{"maybe", "owner"}},
	}
	node := &structs.Node{
		ID: "node-id", Name: "n1", Datacenter: "dc1", Region: "global", Class: "big", Pool: "default",
		Attributes: map[string]string{"kernel.name": "linux", "unique.hostname": "h"},
		Meta:       map[string]string{"owner": "ann"},
	}
	alloc := &structs.Allocation{
		ID: "0123456789abcdef", Name: "shop.front[3]", Namespace: "default", JobID: "shop/dispatch-1", Job: job, TaskGroup: "front",
		Resources: structs.AllocatedResources{
			Tasks: map[string]*structs.TaskResources{"web": {CPUMHz: 500, MemoryMB: 64, MemoryMaxMB: 128, Cores: []int{3, 1, 2, 7}}},
			Ports: []structs.AllocatedPort{
				{Label: "http", HostIP: "10.0.0.1", Value: 25000, To: 80},
				{Label: "odd-one", HostIP: "fd00::1", Value: 25001},
			},
		},
	}
	return node, alloc, task
}

func TestEveryVariableOfNomad(t *testing.T) {
	node, alloc, task := world()
	env := NewBuilder(node, alloc, task).SetDirs(IsolatedDirs).Build()
	require.Equal(t, map[string]string{
		"NOMAD_ALLOC_DIR": "/alloc", "NOMAD_TASK_DIR": "/local", "NOMAD_SECRETS_DIR": "/secrets",
		"NOMAD_MEMORY_LIMIT": "64", "NOMAD_MEMORY_MAX_LIMIT": "128", "NOMAD_CPU_LIMIT": "500", "NOMAD_CPU_CORES": "1-3,7",
		"NOMAD_ALLOC_ID": "0123456789abcdef", "NOMAD_SHORT_ALLOC_ID": "01234567",
		"NOMAD_ALLOC_NAME": "shop.front[3]", "NOMAD_ALLOC_INDEX": "3",
		"NOMAD_TASK_NAME": "web", "NOMAD_GROUP_NAME": "front", "NOMAD_JOB_NAME": "shop",
		"NOMAD_JOB_ID": "shop/dispatch-1", "NOMAD_JOB_PARENT_ID": "shop", "NOMAD_NAMESPACE": "default",
		"NOMAD_DC": "dc1", "NOMAD_REGION": "global",
		"NOMAD_IP_http": "10.0.0.1", "NOMAD_PORT_http": "80", "NOMAD_ADDR_http": "10.0.0.1:25000",
		"NOMAD_HOST_PORT_http": "25000", "NOMAD_HOST_IP_http": "10.0.0.1", "NOMAD_HOST_ADDR_http": "10.0.0.1:25000",
		"NOMAD_ALLOC_PORT_http": "80", "NOMAD_IPv4_http": "10.0.0.1",
		"NOMAD_IP_odd_one": "fd00::1", "NOMAD_PORT_odd_one": "25001", "NOMAD_ADDR_odd_one": "[fd00::1]:25001",
		"NOMAD_HOST_PORT_odd_one": "25001", "NOMAD_HOST_IP_odd_one": "fd00::1", "NOMAD_HOST_ADDR_odd_one": "[fd00::1]:25001",
		"NOMAD_ALLOC_PORT_odd_one": "25001", "NOMAD_IPv6_odd_one": "fd00::1",
		"NOMAD_META_tier": "task", "NOMAD_META_TIER": "task", "NOMAD_META_owner": "job", "NOMAD_META_OWNER": "job",
		"NOMAD_META_odd_key": "g", "NOMAD_META_ODD_KEY": "g", "NOMAD_META_maybe": "", "NOMAD_META_MAYBE": "",
		"GREETING": "hi ann on n1", "PORT": "80",
	}, env.Map())
}

func TestUnsetVariablesAreOmitted(t *testing.T) {
	node, alloc, task := world()
	alloc.Name, alloc.Resources, alloc.ID = "x", structs.AllocatedResources{}, "short"
	env := NewBuilder(node, alloc, task).Build()
	for _, name := range []string{AllocDir, TaskDir, SecretsDir, MemoryLimit, MemoryMaxLimit, CPULimit, CPUCores, AllocIndex} {
		_, set := env.Get(name)
		require.False(t, set, name)
	}
	short, _ := env.Get(ShortAllocID)
	require.Equal(t, "short", short)
}

func TestPrecedence(t *testing.T) {
	node, alloc, task := world()
	task.Env = map[string]string{"A": "task", "B": "task", "C": "task", "NOMAD_ALLOC_ID": "mine"}
	b := NewBuilder(node, alloc, task).
		SetHookEnv("one", map[string]string{"B": "one", "C": "one ${A}"}).
		SetDeviceEnv("two", map[string]string{"C": "two", "D": "${B}"}).
		SetTemplateEnv(map[string]string{"E": "${A}", "D2": "t"})
	b.SetHookEnv("one", map[string]string{"B": "one", "C": "one again"}) // keeps its place
	env := b.Build()
	for name, want := range map[string]string{
		"A": "task", "B": "one", "C": "two", "D": "one", "NOMAD_DC": "dc1",
		"NOMAD_ALLOC_ID": "mine", "E": "${A}", "D2": "t",
	} {
		got, _ := env.Get(name)
		require.Equal(t, want, got, name)
	}
	require.Equal(t, map[string]string{"C": "two", "D": "${B}"}, env.Devices())
}

func TestTheMachinesEnvironmentFillsGaps(t *testing.T) {
	node, alloc, task := world()
	task.Env = map[string]string{"LANG": "C", "WHERE": "${HOME}/x", "EMPTY": ""}
	env := NewBuilder(node, alloc, task).SetHostEnv(map[string]string{
		"HOME": "/root", "LANG": "de", "NOMAD_DC": "other", "EMPTY": "not", "RAW": "${node.unique.name}",
	}).SetHookEnv("h", map[string]string{"HOME": "/hook"}).Build()
	for name, want := range map[string]string{
		"HOME": "/hook", "LANG": "C", "WHERE": "/root/x", "EMPTY": "", "NOMAD_DC": "dc1", "RAW": "${node.unique.name}",
	} {
		got, set := env.Get(name)
		require.True(t, set, name)
		require.Equal(t, want, got, name)
	}
}

func TestValuesOfMetaAreReplaced(t *testing.T) {
	node, alloc, task := world()
	task.Meta = map[string]string{"where": "${node.unique.name}/${meta.owner}", "port": "${NOMAD_PORT_http}", "none": "${nothing}"}
	env := NewBuilder(node, alloc, task).Build()
	for name, want := range map[string]string{
		"NOMAD_META_where": "n1/ann", "NOMAD_META_WHERE": "n1/ann", "NOMAD_META_port": "80", "NOMAD_META_none": "${nothing}",
	} {
		got, _ := env.Get(name)
		require.Equal(t, want, got, name)
	}
	require.Equal(t, "${NOMAD_PORT_http}", task.Meta["port"], "the job is as it was")
}

func TestLookupFindsWhatTheNodeIs(t *testing.T) {
	node, alloc, task := world()
	env := NewBuilder(node, alloc, task).Build()
	for name, want := range map[string]string{
		"GREETING": "hi ann on n1", "node.unique.name": "n1", "attr.kernel.name": "linux", "meta.owner": "ann", "node.pool": "default",
	} {
		got, set := env.Lookup(name)
		require.True(t, set)
		require.Equal(t, want, got)
	}
	_, set := env.Lookup("meta.none")
	require.False(t, set)
}

func TestReplace(t *testing.T) {
	node, alloc, task := world()
	task.Env = map[string]string{"odd.name-x": "odd", "X": "x"}
	env := NewBuilder(node, alloc, task).Build()
	for text, want := range map[string]string{
		"plain":                          "plain",
		"${X}":                           "x",
		"${ X }":                         "x",
		`${env["X"]}-${env.X}`:           "x-x",
		`${env["odd.name-x"]}`:           "odd",
		"${odd.name-x}":                  "odd",
		"${node.unique.id}":              "node-id",
		"${node.unique.name}":            "n1",
		"${node.datacenter}":             "dc1",
		"${node.region}":                 "global",
		"${node.class}/${node.pool}":     "big/default",
		"${attr.kernel.name}":            "linux",
		"${attr.unique.hostname}":        "h",
		"${meta.owner}":                  "ann",
		"${NOMAD_META_odd-key}":          "g",
		"${NOMAD_ADDR_odd-one}":          "[fd00::1]:25001",
		"${nothing} ${meta.none} ${} ${": "${nothing} ${meta.none} ${} ${",
		"$X $$ {X}":                      "$X $$ {X}",
		"${${X}}":                        "${x}",
	} {
		require.Equal(t, want, env.Replace(text), text)
	}
}

func TestReplaceConfigReachesEveryDepthAndChangesNothing(t *testing.T) {
	node, alloc, task := world()
	task.Env = map[string]string{"X": "x"}
	env := NewBuilder(node, alloc, task).Build()
	in := map[string]any{
		"s": "${X}", "n": 1, "b": true, "nil": nil,
		"list":   []any{"${X}", 2, map[string]any{"k-${X}": "${X}"}},
		"texts":  []string{"a${X}"},
		"map":    map[string]string{"${X}": "${X}"},
		"blocks": []map[string]any{{"in": "${X}"}},
	}
	require.Equal(t, map[string]any{
		"s": "x", "n": 1, "b": true, "nil": nil,
		"list":   []any{"x", 2, map[string]any{"k-x": "x"}},
		"texts":  []string{"ax"},
		"map":    map[string]string{"x": "x"},
		"blocks": []map[string]any{{"in": "x"}},
	}, env.ReplaceConfig(in))
	require.Equal(t, "${X}", in["s"])
	require.Nil(t, env.ReplaceConfig(nil))
}

func TestAnEnvDoesNotChange(t *testing.T) {
	node, alloc, task := world()
	hook := map[string]string{"K": "1"}
	b := NewBuilder(node, alloc, task).SetHookEnv("h", hook)
	env := b.Build()
	hook["K"] = "2"
	env.Map()["K"] = "3"
	b.SetHookEnv("h", map[string]string{"K": "4"})
	got, _ := env.Get("K")
	require.Equal(t, "1", got)
	require.Contains(t, env.List(), "K=1")
}

func TestTheDriversPortMapNamesThePortInTheTask(t *testing.T) {
	node, alloc, task := world()
	env := NewBuilder(node, alloc, task).SetNetwork(&Network{IP: "172.17.0.2", PortMap: map[string]int{"http": 8080}}).Build()
	for name, want := range map[string]string{"NOMAD_PORT_http": "8080", "NOMAD_HOST_PORT_http": "25000", "NOMAD_ADDR_http": "10.0.0.1:25000"} {
		got, _ := env.Get(name)
		require.Equal(t, want, got, name)
	}
}

func TestAPortInTheAllocationsOwnNetworkHasItsAddressThere(t *testing.T) {
	node, alloc, task := world()
	for _, own := range []*structs.AllocNetwork{{Interface: "eth0", Address: "172.26.80.2", AddressIPv6: "fd00::2"}, {Interface: "eth0", AddressIPv6: "fd00::2"}} {
		env := NewBuilder(node, alloc, task).SetAllocNetwork(own).Build()
		ip, addr := "172.26.80.2", "172.26.80.2:"
		if own.Address == "" {
			ip, addr = "fd00::2", "[fd00::2]:"
		}
		port, _ := env.Get("NOMAD_ALLOC_PORT_http")
		for name, want := range map[string]string{
			"NOMAD_ALLOC_IP_http": ip, "NOMAD_ALLOC_ADDR_http": addr + port, "NOMAD_ALLOC_INTERFACE_http": "eth0", "NOMAD_ADDR_http": "10.0.0.1:25000",
		} {
			got, _ := env.Get(name)
			require.Equal(t, want, got, name)
		}
	}
	for _, own := range []*structs.AllocNetwork{nil, {Mode: "none"}} {
		env := NewBuilder(node, alloc, task).SetAllocNetwork(own).Build()
		_, set := env.Get("NOMAD_ALLOC_ADDR_http")
		require.False(t, set)
	}
}

func TestReplaceWithinABound(t *testing.T) {
	node, alloc, task := world()
	env := NewBuilder(node, alloc, task).Build()
	for _, text := range []string{"", "plain", "${node.unique.name}", "a ${node.unique.name} ${nothing} z", "${node.unique.name}${node.unique.name}z"} {
		want := env.Replace(text)
		got, within := env.ReplaceWithin(text, len(want))
		require.True(t, within, text)
		require.Equal(t, want, got)
		got, within = env.ReplaceWithin(text, len(want)-1)
		require.False(t, within, text)
		require.True(t, strings.HasPrefix(want, got), text)
		require.LessOrEqual(t, len(got), max(0, len(want)-1))
	}
}

func FuzzReplace(f *testing.F) {
	node, alloc, task := world()
	env := NewBuilder(node, alloc, task).Build()
	for _, s := range []string{"${X}", "${${", `${env["`, "${env[\"a\"]}"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) { env.Replace(s) })
}

func TestTheEnvironmentOfAGroupHasNothingOfATask(t *testing.T) {
	node, alloc, _ := world()
	env := NewBuilder(node, alloc, &nomad.Task{}).Build()
	require.Equal(t, "front 10.0.0.1:25000 group", env.Replace("${NOMAD_GROUP_NAME} ${NOMAD_ADDR_http} ${NOMAD_META_tier}"))
	for _, name := range []string{TaskName, MemoryLimit, CPULimit, "GREETING"} {
		_, set := env.Get(name)
		require.False(t, set, name)
	}
}
