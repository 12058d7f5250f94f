package httpapi_test

import (
	"fmt"
	"net/http"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
)

// serving is a job whose group and task have a service each.
func serving(id string, count int) *nomad.Job {
	j := mock(id, nil)
	j.Type = new(nomad.JobTypeService)
	g := j.TaskGroups[0]
	g.Count = &count
	g.Networks = []*nomad.NetworkResource{{DynamicPorts: []nomad.Port{{Label: "http"}}}}
	g.Services = []*nomad.Service{{Name: id + "-front", Provider: "nomad", PortLabel: "http", Tags: []string{"front"}}}
	g.Tasks[0].Services = []*nomad.Service{{Name: "api", Provider: "nomad", PortLabel: "http", Tags: []string{"b", "a", "n${NOMAD_ALLOC_INDEX}"}}}
	return j
}

// awaitServices waits until a service has so many registrations.
func (w *world) awaitServices(t *testing.T, name string, n int) []*nomad.ServiceRegistration {
	t.Helper()
	q := &nomad.QueryOptions{}
	for {
		list, meta, err := w.Client.Services().Get(name, q)
		require.NoError(t, err)
		if len(list) == n {
			return list
		}
		q.WaitIndex = meta.LastIndex
	}
}

func TestServicesOfAJobAreFoundWhileItRuns(t *testing.T) {
	w := newWorld(t, "mock")
	alloc := w.run(t, serving("web", 1), nomad.AllocClientStatusRunning)
	next := stream(t, w.Client, map[nomad.Topic][]string{"Service": {"*"}}, 0, nil)

	api := w.awaitServices(t, "api", 1)[0]
	full, _, err := w.Client.Allocations().Info(alloc.ID, nil)
	require.NoError(t, err)
	port := full.AllocatedResources.Shared.Ports[0]
	require.Equal(t, &nomad.ServiceRegistration{
		ID: "_nomad-task-" + alloc.ID + "-" + full.Job.TaskGroups[0].Tasks[0].Name + "-api-http", ServiceName: "api", Namespace: "default",
		NodeID: alloc.NodeID, Datacenter: "dc1", JobID: "web", AllocID: alloc.ID, Tags: []string{"b", "a", "n0"},
		Address: port.HostIP, Port: port.Value, CreateIndex: api.CreateIndex, ModifyIndex: api.ModifyIndex,
	}, api)
	require.NotZero(t, api.CreateIndex)
	front := w.awaitServices(t, "web-front", 1)[0]
	require.Equal(t, "_nomad-task-"+alloc.ID+"-group-"+alloc.TaskGroup+"-web-front-http", front.ID)

	list, _, err := w.Client.Services().List(nil)
	require.NoError(t, err)
	require.Equal(t, []*nomad.ServiceRegistrationListStub{{Namespace: "default", Services: []*nomad.ServiceRegistrationStub{
		{ServiceName: "api", Tags: []string{"a", "b", "n0"}}, {ServiceName: "web-front", Tags: []string{"front"}},
	}}}, list)
	for path, want := range map[string]int{
		"/v1/job/web/services": 2, "/v1/allocation/" + alloc.ID + "/services": 2, "/v1/services?prefix=web": 1, "/v1/services?prefix=no": 0,
		"/v1/services?namespace=*": 1, "/v1/services?namespace=other": 0, "/v1/service/api?namespace=other": 0, "/v1/service/nope": 0,
		"/v1/service/api?filter=" + `Tags+contains+"a"`: 1, "/v1/service/api?filter=" + `Tags+contains+"z"`: 0,
		"/v1/services?filter=" + `ServiceName+==+"api"`: 1, "/v1/services?filter=" + `Port+==+0`: 0,
	} {
		require.Len(t, w.json(t, path), want, path)
	}

	seen := map[string]string{}
	for range 2 {
		for _, e := range next().Events {
			require.EqualValues(t, "Service", e.Topic)
			require.Contains(t, e.FilterKeys, "web")
			s, err := e.Service()
			require.NoError(t, err)
			require.Equal(t, e.Key, s.ID)
			seen[s.ServiceName] = e.Type
		}
	}
	require.Equal(t, map[string]string{"api": "ServiceRegistration", "web-front": "ServiceRegistration"}, seen)

	_, _, err = w.Client.Jobs().Deregister("web", false, nil)
	require.NoError(t, err)
	w.awaitServices(t, "api", 0)
	w.awaitServices(t, "web-front", 0)
	for len(seen) > 0 {
		for _, e := range next().Events {
			require.Equal(t, "ServiceDeregistration", e.Type)
			s, err := e.Service()
			require.NoError(t, err)
			delete(seen, s.ServiceName)
		}
	}
	require.Empty(t, w.json(t, "/v1/services"))
}

func TestSomeOfAServiceAreChosenForAKey(t *testing.T) {
	w := newWorld(t, "mock")
	w.run(t, serving("web", 4), nomad.AllocClientStatusRunning)
	w.awaitServices(t, "api", 4)
	chosen := func(how string) (ids []string) {
		list, _, err := w.Client.Services().Get("api", &nomad.QueryOptions{Params: map[string]string{"choose": how}})
		require.NoError(t, err)
		for _, s := range list {
			ids = append(ids, s.ID)
		}
		return ids
	}
	require.Len(t, chosen("2|k"), 2)
	require.Equal(t, chosen("4|k")[:2], chosen("2|k"), "those that are chosen first stay so")
	require.Equal(t, chosen("4|k"), chosen("9|k"))
	require.Empty(t, chosen("0|k"))
	orders := map[string]bool{}
	for i := range 20 {
		orders[fmt.Sprint(chosen(fmt.Sprintf("4|%d", i)))] = true
	}
	require.Greater(t, len(orders), 1, "keys choose differently")
	for _, bad := range []string{"2", "2|", "|k", "x|k", "-1|k"} {
		r := w.get(t, "/v1/service/api?choose="+bad)
		require.Equal(t, http.StatusBadRequest, r.status, bad)
		require.Equal(t, "failed to choose services: Parameter for choose must be in form '<number>|<key>'", r.body)
	}
	page := w.get(t, "/v1/service/api?per_page=3")
	require.Len(t, w.json(t, "/v1/service/api?per_page=3&next_token="+page.header.Get("X-Nomad-NextToken")), 1)
}

func TestARegistrationIsDeleted(t *testing.T) {
	w := newWorld(t, "mock")
	alloc := w.run(t, serving("web", 1), nomad.AllocClientStatusRunning)
	s := w.awaitServices(t, "api", 1)[0]
	other := w.do(t, http.MethodDelete, "/v1/service/api/"+s.ID+"?namespace=other", "")
	require.Equal(t, http.StatusNotFound, other.status)
	require.Equal(t, "service registration not found", other.body)
	_, err := w.Client.Services().Delete("api", s.ID, nil)
	require.NoError(t, err)
	w.awaitServices(t, "api", 0)
	again := w.do(t, http.MethodDelete, "/v1/service/api/"+s.ID, "")
	require.Equal(t, http.StatusNotFound, again.status)

	require.NoError(t, w.Client.Allocations().Restart(&nomad.Allocation{ID: alloc.ID}, "", nil))
	require.Equal(t, s.ID, w.awaitServices(t, "api", 1)[0].ID, "it is back with the task")
}

func TestServicesAreForReadersAndDeletedByManagers(t *testing.T) {
	g := serveGuarded(t, func(c *httpapi.Config) { c.ACL = true })
	reader := g.token(t, structs.ACLClient, structs.ACLReadOnly)
	for _, c := range []struct {
		method, path, token string
		status              int
	}{
		{"GET", "/v1/services", "", 403},
		{"GET", "/v1/services", reader, 200},
		{"GET", "/v1/service/x", reader, 200},
		{"DELETE", "/v1/service/x/y", reader, 403},
		{"DELETE", "/v1/service/x/y", g.token(t, structs.ACLManagement), 404},
	} {
		req, err := http.NewRequest(c.method, g.URL+c.path, nil)
		require.NoError(t, err)
		req.Header.Set("X-Nomad-Token", c.token)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.status, resp.StatusCode, "%s %s", c.method, c.path)
	}
}
