package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// drained follows a drain to its end, as Nomad's Go client does, and returns what it said.
func drained(t *testing.T, c *nomad.Client, id string, index uint64) (said []string) {
	t.Helper()
	for m := range c.Nodes().MonitorDrain(t.Context(), id, index, false) {
		require.NotEqual(t, nomad.MonitorMsgLevelError, m.Level, m)
		said = append(said, m.String())
	}
	return said
}

func TestNomadsClientDrainsTheNodeAndHasItBack(t *testing.T) {
	w := newWorld(t, "mock")
	stub := w.run(t, mock("web", nil), nomad.AllocClientStatusRunning)
	resp, err := w.Client.Nodes().UpdateDrainOpts(stub.NodeID, &nomad.DrainOptions{
		DrainSpec: &nomad.DrainSpec{Deadline: 100 * time.Millisecond}, Meta: map[string]string{"message": "kernel"},
	}, nil)
	require.NoError(t, err)
	said := drained(t, w.Client, stub.NodeID, resp.NodeModifyIndex)
	require.Contains(t, said, "Drain complete for node "+stub.NodeID)
	require.Contains(t, said, `All allocations on node "`+stub.NodeID+`" have stopped`)
	require.Contains(t, said, `Alloc "`+stub.ID+`" status running -> complete`)

	n, _, err := w.Client.Nodes().Info(stub.NodeID, nil)
	require.NoError(t, err)
	require.False(t, n.Drain)
	require.WithinDuration(t, time.Now(), time.Unix(n.StatusUpdatedAt, 0), time.Hour)
	require.Equal(t, nomad.DrainStatusComplete, n.LastDrain.Status)
	require.Equal(t, "kernel", n.LastDrain.Meta["message"])
	a, _, err := w.Client.Allocations().Info(stub.ID, nil)
	require.NoError(t, err)
	require.True(t, a.DesiredTransition.ShouldMigrate())

	_, err = w.Client.Nodes().ToggleEligibility(stub.NodeID, true, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		list, _, err := w.Client.Jobs().Allocations("web", false, nil)
		require.NoError(t, err)
		return len(list) == 2 && list[0].ClientStatus != list[1].ClientStatus && (list[0].ClientStatus == "running" || list[1].ClientStatus == "running")
	}, time.Minute, 10*time.Millisecond)

	_, err = w.Client.Nodes().UpdateDrain(stub.NodeID, &nomad.DrainSpec{}, false, nil)
	require.NoError(t, err)
	r := w.do(t, http.MethodPut, "/v1/node/"+stub.NodeID+"/eligibility", `{"Eligibility": "eligible"}`)
	require.Equal(t, http.StatusBadRequest, r.status)
	require.Contains(t, r.body, "is being drained")
	_, err = w.Client.Nodes().UpdateDrain(stub.NodeID, nil, true, nil)
	require.NoError(t, err)
	nodes, _, err := w.Client.Nodes().List(nil)
	require.NoError(t, err)
	require.Equal(t, nomad.DrainStatusCanceled, nodes[0].LastDrain.Status)

	_, _, err = w.Client.Nodes().Purge(stub.NodeID, nil)
	require.ErrorContains(t, err, "only a node that is down is purged")
	eval, _, err := w.Client.Nodes().ForceEvaluate(stub.NodeID, nil)
	require.NoError(t, err)
	require.Len(t, eval, 36)
	for path, status := range map[string]int{
		"PUT /v1/node/" + stub.NodeID + "/frob":        404,
		"GET /v1/node/" + stub.NodeID + "/frob":        404,
		"GET /v1/node/" + stub.NodeID + "/drain":       405,
		"PUT /v1/node/" + stub.NodeID + "/allocations": 405,
		"PUT /v1/node/nobody/drain":                    404,
		"PUT /v1/node/nobody/purge":                    404,
		"PUT /v1/node/nobody/evaluate":                 404,
	} {
		method, path, _ := strings.Cut(path, " ")
		assert.Equal(t, status, w.do(t, method, path, "").status, path)
	}
}

func TestMetadataIsSetAndPlacesWhatWaitsForIt(t *testing.T) {
	w := newWorld(t, "mock")
	waits := mock("waits", nil)
	waits.Constraints = []*nomad.Constraint{{LTarget: "${meta.rack}", RTarget: "7", Operand: "="}}
	_, _, err := w.Client.Jobs().Register(waits, nil)
	require.NoError(t, err)
	meta := w.Client.Nodes().Meta()
	got, err := meta.Apply(&nomad.NodeMetaApplyRequest{Meta: map[string]*string{"rack": new("7"), "gone": nil}}, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]*string{"rack": new("7")}, got.Dynamic)
	nodes, _, err := w.Client.Nodes().List(nil)
	require.NoError(t, err)
	n, _, err := w.Client.Nodes().Info(nodes[0].ID, nil)
	require.NoError(t, err)
	require.Equal(t, "7", n.Meta["rack"], "the control plane knows it already")
	w.Await(t, "waits", nomad.AllocClientStatusRunning)

	got, err = meta.Apply(&nomad.NodeMetaApplyRequest{NodeID: nodes[0].ID, Meta: map[string]*string{"rack": nil}}, nil)
	require.NoError(t, err)
	require.NotContains(t, got.Meta, "rack")
	got, err = meta.Read(nodes[0].ID, nil)
	require.NoError(t, err)
	require.NotContains(t, got.Meta, "rack")
	_, err = meta.Read("11111111-1111-1111-1111-111111111111", nil)
	require.ErrorContains(t, err, "Unknown node")
	many := map[string]*string{}
	for i := range 512 {
		many[fmt.Sprint("n", i)] = new("")
	}
	_, err = meta.Apply(&nomad.NodeMetaApplyRequest{Meta: many}, nil)
	require.NoError(t, err)
	_, err = meta.Apply(&nomad.NodeMetaApplyRequest{Meta: map[string]*string{"one-more": new("")}}, nil)
	require.ErrorContains(t, err, "at most 512")
	for _, body := range []string{`{}`, `{"Meta": {"a b": "c"}}`, `{"Meta": {"": "c"}}`, `{"Meta": {"a": ` + quoted(strings.Repeat("x", 4097)) + `}}`} {
		require.Equal(t, http.StatusBadRequest, w.do(t, http.MethodPost, "/v1/client/metadata", body).status, body)
	}
}

func TestNomadsClientManagesNodePools(t *testing.T) {
	w := newWorld(t, "mock")
	pools := w.Client.NodePools()
	_, err := pools.Register(&nomad.NodePool{Name: "gpu", Description: "graphics"}, nil)
	require.NoError(t, err)
	list, _, err := pools.List(nil)
	require.NoError(t, err)
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Name
	}
	require.Equal(t, []string{"all", "default", "gpu"}, names)
	p, _, err := pools.Info("gpu", nil)
	require.NoError(t, err)
	require.Equal(t, "graphics", p.Description)
	list, _, err = pools.PrefixList("g", nil)
	require.NoError(t, err)
	require.Len(t, list, 1)

	w.run(t, mock("web", nil), nomad.AllocClientStatusRunning)
	for name, want := range map[string][2]int{"default": {1, 1}, "all": {1, 0}, "gpu": {0, 0}} {
		nodes, _, err := pools.ListNodes(name, nil)
		require.NoError(t, err)
		jobs, _, err := pools.ListJobs(name, nil)
		require.NoError(t, err)
		require.Equal(t, want, [2]int{len(nodes), len(jobs)}, name)
	}
	_, err = pools.Register(&nomad.NodePool{Name: "gpu", SchedulerConfiguration: &nomad.NodePoolSchedulerConfiguration{}}, nil)
	require.ErrorContains(t, err, "is unlicensed")
	_, err = pools.Delete("gpu", nil)
	require.NoError(t, err)
	_, _, err = pools.Info("gpu", nil)
	require.ErrorContains(t, err, "404")
	require.Equal(t, http.StatusBadRequest, w.do(t, http.MethodPut, "/v1/node/pool/gpu", `{"Name": "other"}`).status)
	require.Equal(t, http.StatusNotFound, w.get(t, "/v1/node/pool/gpu/jobs").status)
}
