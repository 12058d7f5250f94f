package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/structs"
)

// team allows what a team needs in its namespace, and to see the node.
const team = `
namespace "mine" {
  policy = "write"
  variables {
    path "*" { capabilities = ["list", "read", "write", "destroy"] }
  }
}
namespace "theirs-b*" { policy = "deny" }
node   { policy = "read" }
agent  { policy = "read" }
plugin { policy = "read" }
node_pool "*" { policy = "read" }
`

// divided is an API with the same job, and what belongs to one, in two namespaces.
type divided struct {
	*guarded
	manager, team, reader string            // secrets
	client                *nomad.Client     // the manager's
	of                    map[string]things // by namespace
}

// things are the IDs of what is in a namespace.
type things struct {
	alloc, eval, deployment, policy string
	marks                           []string // what nobody else can know
}

func divide(t *testing.T) *divided {
	t.Helper()
	d := &divided{guarded: serveGuarded(t, func(c *httpapi.Config) { c.ACL = true }), of: map[string]things{}}
	d.manager, d.reader = d.token(t, structs.ACLManagement), d.token(t, structs.ACLClient, structs.ACLReadOnly)
	d.client = d.as(t, d.manager)
	_, err := d.client.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: "team", Rules: team}, nil)
	require.NoError(t, err)
	d.team = d.token(t, structs.ACLClient, "team")
	for _, name := range []string{"mine", "theirs"} {
		_, err := d.client.Namespaces().Register(&nomad.Namespace{Name: name, Description: "mark-" + name}, nil)
		require.NoError(t, err)
		d.of[name] = d.fill(t, name)
	}
	return d
}

// as is Nomad's client with a secret.
func (d *divided) as(t *testing.T, secret string) *nomad.Client {
	t.Helper()
	c, err := nomad.NewClient(&nomad.Config{Address: d.URL, SecretID: secret})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// fill puts the job "web" into a namespace, with a deployment, a service, a scaling policy, a
// child, a tag and a variable.
func (d *divided) fill(t *testing.T, name string) (out things) {
	t.Helper()
	q := &nomad.WriteOptions{Namespace: name}
	j := mock("web", nil)
	j.Type, j.Namespace, j.Meta = new("service"), &name, map[string]string{"mark": "mark-" + name}
	j.Update = &nomad.UpdateStrategy{MaxParallel: new(1)}
	j.TaskGroups[0].Tasks[0].Env = map[string]string{"MARK": "mark-" + name}
	j.TaskGroups[0].Scaling = &nomad.ScalingPolicy{Type: "horizontal", Min: new(int64(1)), Max: new(int64(3)), Policy: map[string]any{"mark": "mark-" + name}}
	_, _, err := d.client.Jobs().RegisterOpts(j, &nomad.RegisterOptions{Submission: &nomad.JobSubmission{Source: "# mark-" + name, Format: "hcl2"}}, q)
	require.NoError(t, err)
	_, err = d.client.Jobs().TagVersion("web", 0, "stable", "mark-"+name, q)
	require.NoError(t, err)
	_, _, err = d.client.Variables().Create(&nomad.Variable{Path: "db", Items: nomad.VariableItems{"mark": "mark-" + name}}, q)
	require.NoError(t, err)
	a := d.plane.JobAllocations(name, "web")[0]
	require.NoError(t, d.plane.ForNode().RegisterServices(t.Context(), "node", []*structs.ServiceRegistration{{
		ID: "_nomad-task-" + a.ID + "-t-api-http", ServiceName: "api", Namespace: name, NodeID: "node", Datacenter: "dc1", JobID: "web",
		AllocID: a.ID, Tags: []string{"mark-" + name}, Address: "10.0.0.1", Port: 80,
	}}))
	out.alloc, out.eval = a.ID, a.EvalID
	out.deployment = d.plane.JobDeployments(name, "web")[0].ID
	for _, p := range d.plane.ScalingPolicies() {
		if p.Namespace == name {
			out.policy = p.ID
		}
	}
	out.marks = []string{"mark-" + name, `"Namespace":"` + name + `"`, out.alloc, out.eval, out.deployment, out.policy}
	return out
}

// told are the marks of the other namespace that an answer has and the request for it has not.
func (d *divided) told(text, asked string) (found []string) {
	for _, mark := range d.of["theirs"].marks {
		if strings.Contains(text, mark) && !strings.Contains(asked, mark) {
			found = append(found, mark)
		}
	}
	return found
}

// paths are those of an endpoint with the names of what is in a namespace.
func (d *divided) paths(e httpapi.Endpoint, namespace string) []string {
	in := d.of[namespace]
	switch {
	case !strings.Contains(e.Path, "{"):
		return []string{e.Path}
	case strings.Contains(e.Path, "/job/"):
		return []string{strings.NewReplacer("{id}", "web", "{name}", "stable").Replace(e.Path)}
	case strings.Contains(e.Path, "/node/pool/"):
		return []string{strings.Replace(e.Path, "{pool}", "all", 1)}
	case strings.Contains(e.Path, "/node/"):
		return []string{strings.Replace(e.Path, "{id}", "node", 1)}
	case strings.Contains(e.Path, "/service/"):
		return []string{strings.NewReplacer("{name}", "api", "{instance}", "_nomad-task-"+in.alloc+"-t-api-http").Replace(e.Path)}
	case strings.Contains(e.Path, "/namespace/"):
		return []string{strings.Replace(e.Path, "{name}", namespace, 1)}
	case strings.Contains(e.Path, "/var/"):
		return []string{strings.Replace(e.Path, "{path}", "db", 1)}
	}
	return []string{
		strings.Replace(e.Path, "{id}", in.alloc, 1), strings.Replace(e.Path, "{id}", in.eval, 1),
		strings.Replace(e.Path, "{id}", in.deployment, 1), strings.Replace(e.Path, "{id}", in.policy, 1),
	}
}

// changes reports whether a path is of a change of what is in a namespace.
func (d *divided) changes(e httpapi.Endpoint, path, namespace string) bool {
	of := d.of[namespace].alloc
	if strings.Contains(e.Path, "/deployment/") {
		of = d.of[namespace].deployment
	}
	return e.Method != http.MethodGet && strings.Contains(path, of) && !strings.Contains(e.Path, "/service/")
}

// query has what some endpoints need to get to what they are asked for.
func (d *divided) query(e httpapi.Endpoint, namespace, of string) string {
	v := url.Values{"namespace": {namespace}}
	switch {
	case strings.HasSuffix(e.Path, "/action"):
		v["allocID"], v["task"], v["action"] = []string{d.of[of].alloc}, []string{"task"}, []string{"x"}
	case strings.HasSuffix(e.Path, "/exec"):
		v["command"] = []string{`["true"]`}
	case strings.Contains(e.Path, "/fs/logs/"):
		v["task"], v["type"] = []string{"task"}, []string{"stdout"}
	}
	return "?" + v.Encode()
}

// streaming are the endpoints whose answers do not end by themselves.
var streaming = []string{"/v1/event/stream", "/v1/agent/monitor", "/v1/agent/monitor/export"}

// Of another namespace a token for one is told nothing: not in a list, whatever namespace it asks
// for, and not by an ID. What changes something there is refused.
func TestNothingIsToldOfAnotherNamespace(t *testing.T) {
	d := divide(t)
	listed := map[string]int{}
	for _, e := range httpapi.Endpoints(d.config) {
		if slices.Contains(streaming, e.Path) || e.Needs == acl.Anyone || strings.Contains(e.Path, "pprof") {
			continue
		}
		for _, path := range d.paths(e, "theirs") {
			for _, namespace := range []string{"", "mine", "theirs", "*"} {
				asked, body := path+d.query(e, namespace, "theirs"), d.body(e, "theirs")
				status, text := d.send(t, e.Method, asked, body, access.TokenHeader, d.team)
				require.NotEqual(t, http.StatusInternalServerError, status, "%s %s: %s", e.Method, asked, text)
				require.Empty(t, d.told(text, asked), "%s %s: %d %s", e.Method, asked, status, text)
				there := namespace == "theirs" && strings.Contains(e.Path, "/job/") || d.changes(e, path, "theirs")
				if e.Method == http.MethodGet && !strings.Contains(asked, "/action") {
					_, all := d.send(t, e.Method, asked, "", access.TokenHeader, d.reader)
					seen := len(d.told(all, asked))
					listed[e.Path] += seen
					there = there || seen > 0 && strings.Contains(e.Path, "{id}") && !strings.Contains(e.Path, "/node/")
				}
				if there {
					require.Equal(t, http.StatusForbidden, status, "%s %s: %s", e.Method, asked, text)
				}
			}
		}
	}
	j := d.plane.Job("theirs", "web")
	require.NotNil(t, j)
	require.False(t, *j.Stop)
	require.Equal(t, "mark-theirs", j.Meta["mark"])
	require.Len(t, d.plane.JobVersions("theirs", "web"), 1)
	require.Len(t, d.plane.ServicesNamed("theirs", "api"), 1)
	v, err := d.plane.Variable("theirs", "db")
	require.NoError(t, err)
	require.Equal(t, "mark-theirs", v.Items["mark"])
	for _, path := range []string{
		"/v1/jobs", "/v1/jobs/statuses", "/v1/allocations", "/v1/evaluations", "/v1/deployments", "/v1/services", "/v1/scaling/policies",
		"/v1/namespaces", "/v1/node/{id}/allocations", "/v1/allocation/{id}", "/v1/evaluation/{id}", "/v1/deployment/{id}", "/v1/scaling/policy/{id}",
		"/v1/evaluation/{id}/allocations", "/v1/deployment/allocations/{id}", "/v1/allocation/{id}/services", "/v1/service/{name}",
		"/v1/namespace/{name}", "/v1/job/{id}", "/v1/job/{id}/versions", "/v1/job/{id}/submission", "/v1/job/{id}/allocations",
		"/v1/job/{id}/evaluations", "/v1/job/{id}/deployments", "/v1/job/{id}/deployment", "/v1/job/{id}/services",
	} {
		require.Positive(t, listed[path], "this test asks for nothing that a reader is told at %s", path)
	}
}

// body is one that has to do with what is in a namespace.
func (d *divided) body(e httpapi.Endpoint, namespace string) string {
	switch in := d.of[namespace]; e.Path {
	case "/v1/search":
		return `{"Context": "all", "Namespace": "*", "Prefix": "` + in.alloc[:2] + `"}`
	case "/v1/search/fuzzy":
		return `{"Context": "all", "Namespace": "*", "Text": "web"}`
	case "/v1/jobs/statuses":
		return `{"Jobs": [{"Namespace": "` + namespace + `", "ID": "web"}]}`
	case "/v1/jobs", "/v1/job/{id}", "/v1/validate/job", "/v1/job/{id}/plan":
		return `{"Job": {"ID": "web", "Namespace": "` + namespace + `", "Meta": {"mark": "changed"}}}`
	case "/v1/var/{path}":
		return `{"Namespace": "` + namespace + `", "Items": {"mark": "changed"}}`
	}
	return ""
}

// What is its own a token for one namespace is told, and may change.
func TestATokenForANamespaceDoesWhatItIsFor(t *testing.T) {
	d := divide(t)
	for _, e := range httpapi.Endpoints(d.config) {
		if e.Method != http.MethodGet || slices.Contains(streaming, e.Path) || !strings.Contains(e.Path, "/job/") || strings.HasSuffix(e.Path, "/action") {
			continue
		}
		asked := d.paths(e, "mine")[0] + "?namespace=mine"
		status, text := d.send(t, e.Method, asked, "", access.TokenHeader, d.team)
		require.Equal(t, http.StatusOK, status, "%s: %s", asked, text)
	}
	for _, path := range []string{"/v1/jobs", "/v1/jobs/statuses", "/v1/allocations", "/v1/evaluations", "/v1/deployments", "/v1/services", "/v1/vars", "/v1/scaling/policies"} {
		for _, namespace := range []string{"mine", "*"} {
			status, text := d.send(t, http.MethodGet, path+"?namespace="+namespace, "", access.TokenHeader, d.team)
			require.Equal(t, http.StatusOK, status)
			require.True(t, strings.Contains(text, "web") || strings.Contains(text, "mine"), "%s?namespace=%s: %s", path, namespace, text)
		}
		status, _ := d.send(t, http.MethodGet, path, "", access.TokenHeader, d.team)
		if path != "/v1/vars" { // with that a list is empty, as with Nomad
			require.Equal(t, http.StatusForbidden, status, "%s of the default namespace", path)
		}
	}
	mine := d.as(t, d.team)
	mine.SetNamespace("mine")
	v, _, err := mine.Variables().Read("db", nil)
	require.NoError(t, err)
	require.Equal(t, "mark-mine", v.Items["mark"])
	list, _, err := mine.Namespaces().List(nil)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "mine", list[0].Name)
	found, _, err := mine.Search().PrefixSearch("", "all", &nomad.QueryOptions{Namespace: "*"})
	require.NoError(t, err)
	require.Equal(t, []string{"mine"}, found.Matches["namespaces"])
	require.Equal(t, []string{"web"}, found.Matches["jobs"])
	_, err = mine.Namespaces().Register(&nomad.Namespace{Name: "mine"}, nil)
	require.ErrorContains(t, err, "Permission denied")
	policies, _, err := mine.ACLPolicies().List(nil)
	require.NoError(t, err)
	require.Len(t, policies, 1)
	_, _, err = mine.Jobs().Deregister("web", true, nil)
	require.NoError(t, err)
	require.Nil(t, d.plane.Job("mine", "web"))
	require.NotNil(t, d.plane.Job("theirs", "web"))

	_, err = d.client.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: "team", Rules: `namespace "mine" { policy = "read" }`}, nil)
	require.NoError(t, err)
	_, _, err = mine.Jobs().Register(mock("web", nil), nil)
	require.ErrorContains(t, err, "Permission denied", "a policy that is changed counts at once")
	_, err = d.client.ACLPolicies().Delete("team", nil)
	require.NoError(t, err)
	_, _, err = mine.Jobs().List(nil)
	require.ErrorContains(t, err, "Permission denied")
}

func TestEventsOfANamespaceAreForWhoMayReadItsJobs(t *testing.T) {
	d := divide(t)
	_, err := d.as(t, d.team).EventStream().Stream(t.Context(), map[nomad.Topic][]string{"ACLPolicy": {"*"}}, 0, &nomad.QueryOptions{})
	require.ErrorContains(t, err, "Permission denied")
	next := stream(t, d.as(t, d.team), nil, 0, &nomad.QueryOptions{Namespace: "*"})
	for _, name := range []string{"theirs", "mine"} {
		j := mock("last", nil)
		j.Namespace = &name
		_, _, err := d.client.Jobs().Register(j, nil)
		require.NoError(t, err)
	}
	for {
		for _, e := range next().Events {
			payload, err := json.Marshal(e.Payload)
			require.NoError(t, err)
			require.NotContains(t, string(payload), "theirs", "%s %s", e.Type, e.Key)
			if e.Key == "last" {
				require.Contains(t, string(payload), "mine")
				return
			}
		}
	}
}

// Nomad's client makes, changes, lists and deletes namespaces, and waits for them.
func TestNamespacesByNomadsClient(t *testing.T) {
	d := divide(t)
	spaces := d.client.Namespaces()
	list, meta, err := spaces.List(nil)
	require.NoError(t, err)
	require.Len(t, list, 3)
	n := &nomad.Namespace{
		Name: "next", Description: "what comes", Meta: map[string]string{"owner": "us"},
		Capabilities: &nomad.NamespaceCapabilities{DisabledTaskDrivers: []string{"mock_driver"}},
	}
	made, err := spaces.Register(n, nil)
	require.NoError(t, err)
	require.Greater(t, made.LastIndex, meta.LastIndex)
	list, _, err = spaces.PrefixList("n", &nomad.QueryOptions{WaitIndex: meta.LastIndex})
	require.NoError(t, err)
	require.Len(t, list, 1)
	got, _, err := spaces.Info("next", nil)
	require.NoError(t, err)
	n.CreateIndex, n.ModifyIndex = made.LastIndex, made.LastIndex
	require.Equal(t, n, got)
	_, _, err = d.client.Jobs().Register(mock("web", nil), &nomad.WriteOptions{Namespace: "next"})
	require.ErrorContains(t, err, `used task driver "mock_driver" is not allowed in namespace "next"`)
	_, _, err = d.client.Jobs().Register(mock("web", nil), &nomad.WriteOptions{Namespace: "none"})
	require.ErrorContains(t, err, `job "web" is in nonexistent namespace "none"`)
	_, err = spaces.Delete("mine", nil)
	require.ErrorContains(t, err, `namespace "mine" has non-terminal jobs in regions: [global]`)
	require.ErrorContains(t, err, `namespace "mine" has variables associated with it in regions: [global]`)
	_, err = spaces.Delete("default", nil)
	require.ErrorContains(t, err, "can not delete default namespace")
	_, err = spaces.Delete("next", nil)
	require.NoError(t, err)
	_, _, err = spaces.Info("next", nil)
	require.ErrorContains(t, err, "404 (Namespace not found)")
	status, text := d.send(t, http.MethodPut, "/v1/namespace/a", `{"Name": "b"}`, access.TokenHeader, d.manager)
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, "Namespace name does not match request path", text)
	found, _, err := d.client.Search().PrefixSearch("the", "namespaces", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"theirs"}, found.Matches["namespaces"])
}

// Commands on the machine itself, and its volumes, need to be allowed besides.
func TestWhatRulesOfANamespaceDoNotIncludeBySubmittingJobs(t *testing.T) {
	d := divide(t)
	exec := "/v1/client/allocation/" + d.of["mine"].alloc + `/exec?task=task&command=["true"]`
	withVolume := func(readOnly bool) error {
		j := mock("stateful", nil)
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data", ReadOnly: readOnly}}
		_, _, err := d.as(t, d.team).Jobs().Register(j, &nomad.WriteOptions{Namespace: "mine"})
		return err
	}
	status, text := d.send(t, http.MethodGet, exec, "", access.TokenHeader, d.team)
	require.Equal(t, http.StatusForbidden, status, text)
	require.ErrorContains(t, withVolume(true), "Permission denied")
	_, err := d.client.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: "team", Rules: `
namespace "mine" {
  policy       = "write"
  capabilities = ["alloc-node-exec"]
}
host_volume "data" { policy = "read" }
`}, nil)
	require.NoError(t, err)
	status, text = d.send(t, http.MethodGet, exec, "", access.TokenHeader, d.team)
	require.Equal(t, http.StatusBadRequest, status, "it is no websocket: %s", text)
	require.NoError(t, withVolume(true))
	require.ErrorContains(t, withVolume(false), "Permission denied")
}

func TestPoliciesThatCannotBe(t *testing.T) {
	d := divide(t)
	for want, p := range map[string]*nomad.ACLPolicy{
		`policy "x": invalid capability "fly" of namespace "a"`: {Name: "x", Rules: `namespace "a" { capabilities = ["fly"] }`},
		`namespace must be set to set job ID`:                   {Name: "x", Rules: team, JobACL: &nomad.JobACL{JobID: "web"}},
		`job ID must be set to set group`:                       {Name: "x", Rules: team, JobACL: &nomad.JobACL{Namespace: "mine", Group: "g"}},
		`group must be set to set task`:                         {Name: "x", Rules: team, JobACL: &nomad.JobACL{Namespace: "mine", JobID: "web", Task: "t"}},
		`the policy "readonly" is built in and stays as it is`:  {Name: "readonly", Rules: team},
		`invalid name "x y" of a policy`:                        {Name: "x y", Rules: team},
	} {
		_, err := d.client.ACLPolicies().Upsert(p, nil)
		require.ErrorContains(t, err, "400 ("+want)
	}
	_, err := d.client.ACLPolicies().Delete("none", nil)
	require.ErrorContains(t, err, "404 (ACL policy not found)")
	p, _, err := d.client.ACLPolicies().Info("team", nil)
	require.NoError(t, err)
	require.Equal(t, team, p.Rules)
	_, _, err = d.as(t, d.team).ACLPolicies().Info("readonly", nil)
	require.ErrorContains(t, err, "Permission denied", "it is not its own")
}
