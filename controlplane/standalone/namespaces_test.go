package standalone

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func inNamespace(name string) func(*nomad.Job) { return func(j *nomad.Job) { j.Namespace = &name } }

func putNamespace(t *testing.T, cp *ControlPlane, n nomad.Namespace) {
	t.Helper()
	_, err := cp.PutNamespace(n)
	require.NoError(t, err)
}

// wantedIn are the allocations of a job that are to run, in a namespace.
func wantedIn(cp *ControlPlane, namespace, id string) (list []*structs.Allocation) {
	for _, a := range cp.JobAllocations(namespace, id) {
		if !a.Terminal() {
			list = append(list, a)
		}
	}
	return list
}

func TestNamespacesAreKeptAndRemovedWhenNothingLivesInThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	cp := withNode(t, path)
	require.Len(t, cp.Namespaces(), 1)
	require.Equal(t, "Default shared namespace", cp.Namespace("default").Description)
	putNamespace(t, cp, nomad.Namespace{Name: "team", Description: "ours", Meta: map[string]string{"a": "b"}})
	first := cp.Namespace("team")
	putNamespace(t, cp, nomad.Namespace{Name: "team", Description: "still ours"})
	require.Equal(t, first.CreateIndex, cp.Namespace("team").CreateIndex)
	require.Greater(t, cp.Namespace("team").ModifyIndex, first.ModifyIndex)
	putNamespace(t, cp, nomad.Namespace{Name: "default", Description: "of all"})
	require.EqualValues(t, 1, cp.Namespace("default").CreateIndex)
	run(t, cp, testJob("web", "service", inNamespace("team")))
	_, _, err := cp.PutVariable(&nomad.Variable{Namespace: "team", Path: "db", Items: nomad.VariableItems{"a": "b"}}, nil)
	require.NoError(t, err)
	require.NoError(t, cp.Close())

	cp = open(t, path)
	require.Len(t, cp.Namespaces(), 2)
	require.Equal(t, "still ours", cp.Namespace("team").Description)
	require.Equal(t, "of all", cp.Namespace("default").Description)
	_, err = cp.DeleteNamespace("team", "global")
	require.ErrorIs(t, err, errdefs.FailedPrecondition)
	require.EqualError(t, err, `namespace "team" has non-terminal jobs in regions: [global]; `+
		`namespace "team" has non-terminal allocations in regions: [global]; namespace "team" has variables associated with it in regions: [global]`)
	running := wantedIn(cp, "team", "web")[0]
	_, err = cp.DeregisterJob(&structs.JobStop{Namespace: "team", JobID: "web"})
	require.NoError(t, err)
	_, err = cp.DeleteVariable("team", "db", nil)
	require.NoError(t, err)
	_, err = cp.DeleteNamespace("team", "global")
	require.EqualError(t, err, `namespace "team" has non-terminal allocations in regions: [global]`, "what it stopped still runs")
	report(t, cp, running, structs.ClientComplete)
	_, err = cp.DeleteNamespace("team", "global")
	require.NoError(t, err)
	_, err = cp.DeleteNamespace("team", "global")
	require.ErrorIs(t, err, errdefs.NotFound)
	_, err = cp.DeleteNamespace("default", "global")
	require.ErrorIs(t, err, errdefs.InvalidArgument)
	require.NotNil(t, cp.Job("team", "web"), "what has ended stays until it is collected")
	_, err = cp.RegisterJob(&structs.JobRegistration{Job: testJob("web", "service", inNamespace("team"))})
	require.EqualError(t, err, `job "web" is in nonexistent namespace "team"`)
	_, err = cp.RevertJob("team", "web", 0, nil)
	require.EqualError(t, err, `job "web" is in nonexistent namespace "team"`)
	require.NoError(t, cp.Close())
	require.Nil(t, open(t, path).Namespace("team"))
}

func TestWhatANamespaceCannotBe(t *testing.T) {
	cp := open(t, "")
	for want, n := range map[string]nomad.Namespace{
		`invalid name "a_b". Must match regex ^[a-zA-Z0-9-]{1,128}$`:                  {Name: "a_b"},
		`invalid name "". Must match regex`:                                           {},
		`invalid name "*". Must match regex`:                                          {Name: "*"},
		`description longer than 256`:                                                 {Name: "a", Description: strings.Repeat("x", 257)},
		`it is using the non-existent quota "q": quotas are part of Nomad Enterprise`: {Name: "a", Quota: "q"},
		`invalid node pool configuration: Node Pools Governance is unlicensed.`:       {Name: "a", NodePoolConfiguration: &nomad.NamespaceNodePoolConfiguration{}},
		`invalid vault configuration: Multi-Cluster Vault is unlicensed.`:             {Name: "a", VaultConfiguration: &nomad.NamespaceVaultConfiguration{}},
		`invalid consul configuration: Multi-Cluster Consul is unlicensed.`:           {Name: "a", ConsulConfiguration: &nomad.NamespaceConsulConfiguration{}},
		`required_extra_claims and optional_extra_claims are not supported`:           {Name: "a", OptionalExtraClaims: map[string]string{"a": "b"}},
		`at most 65536 are possible`:                                                  {Name: "a", Meta: map[string]string{"a": strings.Repeat("x", maxNamespaceSize)}},
	} {
		_, err := cp.PutNamespace(n)
		require.ErrorIs(t, err, errdefs.InvalidArgument)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
	}
	putNamespace(t, cp, nomad.Namespace{Name: strings.Repeat("x", 128), Description: strings.Repeat("x", 256)})
	for i := 1; i < maxNamespaces; i++ {
		putNamespace(t, cp, nomad.Namespace{Name: "n" + strconv.Itoa(i)})
	}
	_, err := cp.PutNamespace(nomad.Namespace{Name: "more"})
	require.ErrorIs(t, err, errdefs.FailedPrecondition)
	putNamespace(t, cp, nomad.Namespace{Name: "n1", Description: "one that is there can be changed"})
}

// The same ID in two namespaces is two jobs, with nothing in common.
func TestTheSameJobIDInTwoNamespacesIsTwoJobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	cp := withNode(t, path)
	putNamespace(t, cp, nomad.Namespace{Name: "a"})
	putNamespace(t, cp, nomad.Namespace{Name: "b"})
	for _, ns := range []string{"a", "b"} {
		run(t, cp, testJob("web", "service", inNamespace(ns), withScaling))
		dispatching := testJob("work", "batch", inNamespace(ns), func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} })
		_, err := cp.RegisterJob(&structs.JobRegistration{Job: dispatching})
		require.NoError(t, err)
		_, err = cp.DispatchJob(&structs.JobDispatch{Namespace: ns, JobID: "work", IdempotencyToken: "once"})
		require.NoError(t, err)
		require.Len(t, cp.ChildStatuses(ns, "work"), 1, "the other's dispatch is another one")
	}
	of := func(ns string) []*structs.Allocation { return wantedIn(cp, ns, "web") }
	require.Len(t, of("a"), 1)
	require.Len(t, of("b"), 1)
	require.NotEqual(t, of("a")[0].ID, of("b")[0].ID)
	require.NotEqual(t, cp.Job("a", "web").TaskGroups[0].Scaling.ID, cp.Job("b", "web").TaskGroups[0].Scaling.ID)

	other := of("b")[0]
	_, err := cp.ScaleJob("a", "web", &nomad.ScalingRequest{Target: map[string]string{"Group": "g"}, Count: new(int64(2))})
	require.NoError(t, err)
	require.Len(t, of("a"), 2)
	require.Equal(t, []*structs.Allocation{other}, of("b"), "it is left as it was")
	run(t, cp, testJob("web", "service", inNamespace("a"), withScaling, user("u")))
	require.Len(t, cp.JobVersions("a", "web"), 3)
	require.Len(t, cp.JobVersions("b", "web"), 1)
	_, err = cp.TagJobVersion("a", "web", nil, "good", "")
	require.NoError(t, err)
	require.Nil(t, cp.Job("b", "web").VersionTag)
	_, err = cp.DeregisterJob(&structs.JobStop{Namespace: "a", JobID: "web", Purge: true})
	require.NoError(t, err)
	for _, a := range cp.JobAllocations("a", "web") {
		report(t, cp, a, structs.ClientComplete)
	}
	require.NoError(t, cp.Close())

	cp = open(t, path)
	require.Nil(t, cp.Job("a", "web"))
	require.NotNil(t, cp.Job("b", "web"))
	cp.CollectGarbage()
	require.Empty(t, cp.JobAllocations("a", "web"))
	require.Equal(t, other.ID, of("b")[0].ID)
	require.Empty(t, cp.JobScalings("b", "web"))
	require.Len(t, cp.ChildStatuses("b", "work"), 1)
	require.Equal(t, statusRunning, *cp.Job("b", "web").Status)
}

func withScaling(j *nomad.Job) {
	j.Update = &nomad.UpdateStrategy{MaxParallel: new(0)} // no deployments
	j.TaskGroups[0].Scaling = &nomad.ScalingPolicy{Type: "horizontal", Min: new(int64(1)), Max: new(int64(5))}
}

func TestWhatANamespaceAllowsItsJobs(t *testing.T) {
	cp := withNode(t, "")
	mode := func(modes ...string) func(*nomad.Job) {
		return func(j *nomad.Job) {
			for i, m := range modes {
				if i > 0 {
					j.TaskGroups = append(j.TaskGroups, testJob("x", "service").TaskGroups[0])
					j.TaskGroups[i].Name = new("g" + strconv.Itoa(i))
				}
				j.TaskGroups[i].Networks = []*nomad.NetworkResource{{Mode: m}}
			}
		}
	}
	second := func(j *nomad.Job) {
		task := *j.TaskGroups[0].Tasks[0]
		task.Name, task.Driver = "other", "raw_exec"
		j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, &task)
	}
	for _, c := range []struct {
		can  nomad.NamespaceCapabilities
		job  []func(*nomad.Job)
		want string
	}{
		{},
		{can: nomad.NamespaceCapabilities{EnabledTaskDrivers: []string{"mock"}}},
		{can: nomad.NamespaceCapabilities{EnabledTaskDrivers: []string{"exec"}}, want: `used task driver "mock" is not allowed in namespace "n"`},
		{can: nomad.NamespaceCapabilities{EnabledTaskDrivers: []string{"mock"}, DisabledTaskDrivers: []string{"mock"}}, want: `used task driver "mock" is not allowed in namespace "n"`},
		{can: nomad.NamespaceCapabilities{DisabledTaskDrivers: []string{"exec"}}},
		{can: nomad.NamespaceCapabilities{EnabledTaskDrivers: []string{"exec"}}, job: []func(*nomad.Job){second}, want: `used task drivers ["mock" "raw_exec"] are not allowed in namespace "n"`},
		{can: nomad.NamespaceCapabilities{DisabledNetworkModes: []string{"host"}}},
		{can: nomad.NamespaceCapabilities{DisabledNetworkModes: []string{"host"}}, job: []func(*nomad.Job){mode("")}, want: `used group network mode "host" is not allowed in namespace "n"`},
		{can: nomad.NamespaceCapabilities{EnabledNetworkModes: []string{"bridge"}}, job: []func(*nomad.Job){mode("host", "none")}, want: `used group network modes ["host" "none"] are not allowed in namespace "n"`},
		{can: nomad.NamespaceCapabilities{EnabledNetworkModes: []string{"host"}}, job: []func(*nomad.Job){mode("host")}},
	} {
		putNamespace(t, cp, nomad.Namespace{Name: "n", Capabilities: &c.can})
		job := func() *nomad.Job { return testJob("web", "service", append(c.job, inNamespace("n"))...) }
		_, registered := cp.RegisterJob(&structs.JobRegistration{Job: job()})
		_, planned := cp.PlanJob(job())
		faults, _ := cp.ValidateJob(job())
		if c.want == "" {
			require.NoError(t, registered)
			require.NoError(t, planned)
			require.Empty(t, faults)
			continue
		}
		require.EqualError(t, registered, c.want)
		require.EqualError(t, planned, c.want)
		require.Equal(t, []string{c.want}, faults)
	}
	_, _, err := cp.PutVariable(&nomad.Variable{Namespace: "none", Path: "db", Items: nomad.VariableItems{"a": "b"}}, nil)
	require.EqualError(t, err, `variable "db" is in nonexistent namespace "none"`)
}

// A namespace whose row is lost is there again while something lives in it, and so is that of a
// job which a node brings to an empty memory.
func TestANamespaceInWhichSomethingLivesIsNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	cp := withNode(t, path)
	putNamespace(t, cp, nomad.Namespace{Name: "team"})
	putNamespace(t, cp, nomad.Namespace{Name: "empty"})
	run(t, cp, testJob("web", "service", inNamespace("team")))
	known := knowledge(t, cp)
	require.NoError(t, cp.Close())

	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"team", "empty"} {
			if err := tx.Bucket([]byte(bucketNamespaces)).Put([]byte(name), []byte("{")); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, db.Close())
	cp = open(t, path)
	require.Equal(t, 2, cp.Unreadable())
	require.NotNil(t, cp.Namespace("team"))
	require.Nil(t, cp.Namespace("empty"))
	run(t, cp, testJob("web", "service", inNamespace("team"), user("u")))

	fresh := open(t, "")
	require.Len(t, adopt(t, fresh, known).Adopted, 1)
	require.NotNil(t, fresh.Namespace("team"))
	run(t, fresh, testJob("web", "service", inNamespace("team"), user("u")))
}

func TestPoliciesAreKeptAndBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	cp := open(t, path)
	index, err := cp.PutACLPolicy(structs.ACLPolicy{Name: "team", Rules: "one"})
	require.NoError(t, err)
	_, err = cp.PutACLPolicy(structs.ACLPolicy{Name: "team", Rules: "two"})
	require.NoError(t, err)
	_, err = cp.PutACLPolicy(structs.ACLPolicy{Name: "gone"})
	require.NoError(t, err)
	_, err = cp.DeleteACLPolicy("gone")
	require.NoError(t, err)
	require.NoError(t, cp.Close())
	cp = open(t, path)
	require.Len(t, cp.ACLPolicies(), 1)
	require.Equal(t, "two", cp.ACLPolicy("team").Rules)
	require.Equal(t, index, cp.ACLPolicy("team").CreateIndex)
	_, _, err = cp.CreateACLToken(&structs.ACLToken{Type: structs.ACLClient, Policies: []string{"team"}}, 0)
	require.NoError(t, err)
	_, _, err = cp.CreateACLToken(&structs.ACLToken{Type: structs.ACLClient, Policies: []string{"gone"}}, 0)
	require.ErrorIs(t, err, errdefs.InvalidArgument)
	_, err = cp.DeleteACLPolicy("gone")
	require.ErrorIs(t, err, errdefs.NotFound)
	for want, p := range map[string]structs.ACLPolicy{
		"is built in":                {Name: structs.ACLReadOnly},
		"invalid name":               {Name: "a b"},
		"longer than 256":            {Name: "a", Description: strings.Repeat("x", 257)},
		"at most 65536 are possible": {Name: "a", Rules: strings.Repeat("x", maxACLPolicyRules+1)},
	} {
		_, err := cp.PutACLPolicy(p)
		require.ErrorIs(t, err, errdefs.InvalidArgument)
		require.ErrorContains(t, err, want)
	}
	_, err = cp.PutACLPolicy(structs.ACLPolicy{Name: "a", Description: strings.Repeat("x", 256), Rules: strings.Repeat("x", maxACLPolicyRules)})
	require.NoError(t, err)
	many := open(t, "")
	for i := range maxACLPolicies {
		_, err := many.PutACLPolicy(structs.ACLPolicy{Name: strconv.Itoa(i)})
		require.NoError(t, err)
	}
	_, err = many.PutACLPolicy(structs.ACLPolicy{Name: "more"})
	require.ErrorIs(t, err, errdefs.FailedPrecondition)
}
