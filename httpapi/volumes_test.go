package httpapi_test

import (
	"context"
	"net/http"
	"os"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
)

// TestHostVolumesByNomadsClient makes, lists, watches, finds, mounts and deletes volumes.
func TestHostVolumesByNomadsClient(t *testing.T) {
	w := newWorld(t, "mock")
	volumes := w.Client.HostVolumes()
	list, meta, err := volumes.List(nil, nil)
	require.NoError(t, err)
	require.Empty(t, list)
	appeared := make(chan *nomad.QueryMeta, 1)
	go func() {
		_, next, err := volumes.List(nil, &nomad.QueryOptions{WaitIndex: max(1, meta.LastIndex), WaitTime: time.Minute})
		if err != nil {
			next = nil
		}
		appeared <- next
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := w.Client.EventStream().Stream(ctx, map[nomad.Topic][]string{"HostVolume": {"data"}}, 0, nil)
	require.NoError(t, err)

	answer, wrote, err := volumes.Create(&nomad.HostVolumeCreateRequest{Volume: &nomad.HostVolume{
		Name: "data", PluginID: "mkdir", Parameters: map[string]string{"mode": "0755"},
	}}, nil)
	require.NoError(t, err)
	v := answer.Volume
	require.Equal(t, []any{"data", "default", "mkdir", nomad.HostVolumeStateReady}, []any{v.Name, v.Namespace, v.PluginID, v.State})
	require.Equal(t, v.ModifyIndex, wrote.LastIndex)
	require.DirExists(t, v.HostPath)
	next := <-appeared
	require.NotNil(t, next)
	require.Greater(t, next.LastIndex, meta.LastIndex)
	for seen := false; !seen; {
		batch := <-events
		require.NoError(t, batch.Err)
		for _, e := range batch.Events {
			told := e.Payload["Volume"].(map[string]any)
			require.Equal(t, v.ID, told["ID"])
			seen = seen || e.Type == "HostVolumeRegistered" && told["State"] == "ready"
		}
	}

	got, _, err := volumes.Get(v.ID, nil)
	require.NoError(t, err)
	require.Equal(t, v, got)
	for prefix, found := range map[string]int{"": 1, "da": 1, v.ID[:6]: 1, "x": 0} {
		list, _, err = volumes.List(nil, &nomad.QueryOptions{Prefix: prefix})
		require.NoError(t, err)
		require.Len(t, list, found, prefix)
	}
	for _, c := range []struct {
		req   nomad.HostVolumeListRequest
		found int
	}{{nomad.HostVolumeListRequest{NodeID: v.NodeID}, 1}, {nomad.HostVolumeListRequest{NodeID: "x"}, 0}, {nomad.HostVolumeListRequest{NodePool: "default"}, 1}, {nomad.HostVolumeListRequest{NodePool: "x"}, 0}} {
		list, _, err = volumes.List(&c.req, nil)
		require.NoError(t, err)
		require.Len(t, list, c.found, c.req)
	}
	list, _, err = volumes.List(nil, &nomad.QueryOptions{Filter: `Name == "data" and State == "ready"`, PerPage: 1})
	require.NoError(t, err)
	require.Len(t, list, 1)
	found, _, err := w.Client.Search().PrefixSearch(v.ID[:4], contexts.HostVolumes, nil)
	require.NoError(t, err)
	require.Equal(t, []string{v.ID}, found.Matches[contexts.HostVolumes])
	node, _, err := w.Client.Nodes().Info(v.NodeID, nil)
	require.NoError(t, err)
	require.Equal(t, &nomad.HostVolumeInfo{Path: v.HostPath, ID: v.ID}, node.HostVolumes["data"])
	require.Equal(t, "0.0.1", node.Attributes["plugins.host_volume.mkdir.version"])
	_, _, err = volumes.Get(v.ID, &nomad.QueryOptions{Namespace: "other"})
	require.ErrorContains(t, err, "404 (volume not found)")

	job := mock("db", nil)
	job.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": {Type: "host", Source: "data", Sticky: true}}
	a := w.run(t, job, "running")
	got, _, err = volumes.Get(v.ID, nil)
	require.NoError(t, err)
	require.Len(t, got.Allocations, 1)
	require.Equal(t, a.ID, got.Allocations[0].ID)
	claims, _, err := w.Client.TaskGroupHostVolumeClaims().List(&nomad.TaskGroupHostVolumeClaimsListRequest{JobID: "db", TaskGroup: a.TaskGroup, VolumeName: "data"}, nil)
	require.NoError(t, err)
	require.Len(t, claims, 1)
	require.Equal(t, []string{a.ID, v.ID}, []string{claims[0].AllocID, claims[0].VolumeID})
	for _, none := range []nomad.TaskGroupHostVolumeClaimsListRequest{{JobID: "x"}, {TaskGroup: "x"}, {VolumeName: "x"}} {
		claims, _, err := w.Client.TaskGroupHostVolumeClaims().List(&none, nil)
		require.NoError(t, err)
		require.Empty(t, claims)
	}
	_, err = w.Client.TaskGroupHostVolumeClaims().Delete(claims[0].ID, nil)
	require.NoError(t, err)
	_, err = w.Client.TaskGroupHostVolumeClaims().Delete(claims[0].ID, nil)
	require.ErrorContains(t, err, "404 (task group volume claim does not exist)")

	_, _, err = volumes.Delete(&nomad.HostVolumeDeleteRequest{ID: v.ID}, nil)
	require.ErrorContains(t, err, "400 (volume "+v.ID+" in use by allocations: ["+a.ID+"])")
	_, _, err = w.Client.Jobs().Deregister("db", true, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _, err = volumes.Delete(&nomad.HostVolumeDeleteRequest{ID: v.ID}, nil)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	require.NoDirExists(t, v.HostPath)
	_, _, err = volumes.Get(v.ID, nil)
	require.ErrorContains(t, err, "404 (volume not found)")
	node, _, err = w.Client.Nodes().Info(v.NodeID, nil)
	require.NoError(t, err)
	require.Empty(t, node.HostVolumes)
	_, _, err = volumes.Delete(&nomad.HostVolumeDeleteRequest{ID: v.ID, Force: true}, nil)
	require.ErrorContains(t, err, "404 (no such volume: "+v.ID+")")

	// One that is there is registered, and stays when it is deleted.
	mine := v.HostPath + "-mine"
	require.NoError(t, os.Mkdir(mine, 0o700))
	registered, _, err := volumes.Register(&nomad.HostVolumeRegisterRequest{Volume: &nomad.HostVolume{
		Name: "mine", NodeID: v.NodeID, HostPath: mine, CapacityBytes: 5,
	}}, nil)
	require.NoError(t, err)
	require.Equal(t, []any{mine, int64(5), nomad.HostVolumeStateReady}, []any{registered.Volume.HostPath, registered.Volume.CapacityBytes, registered.Volume.State})
	_, _, err = volumes.Delete(&nomad.HostVolumeDeleteRequest{ID: registered.Volume.ID}, nil)
	require.NoError(t, err)
	require.DirExists(t, mine)
	_, _, err = volumes.Register(&nomad.HostVolumeRegisterRequest{Volume: &nomad.HostVolume{Name: "etc", NodeID: v.NodeID, HostPath: "/etc"}}, nil)
	require.ErrorContains(t, err, `400 (volume "etc": host_path: /etc is not below client.host_volumes_dir, which is `)
	for body, fault := range map[string]string{"{}": "missing volume definition", "{": "request body: ", `{"Volume": {"Name": "x", "PluginID": "none"}}`: `the node has no host volume plugin "none": it has mkdir`} {
		r := w.do(t, http.MethodPut, "/v1/volume/host/create", body)
		require.Equal(t, 400, r.status, r.body)
		require.Contains(t, r.body, fault)
	}
}

func TestHostVolumesAreForReadersAndChangedByManagers(t *testing.T) {
	g := serveGuarded(t, func(c *httpapi.Config) { c.ACL = true })
	reader, manager := g.token(t, structs.ACLClient, structs.ACLReadOnly), g.token(t, structs.ACLManagement)
	for _, c := range []struct {
		method, path, token string
		status              int
	}{
		{"GET", "/v1/volumes?type=host", "", 403},
		{"GET", "/v1/volumes?type=host", reader, 200},
		{"GET", "/v1/volume/host/x", reader, 404},
		{"GET", "/v1/volumes/claims", reader, 200},
		{"PUT", "/v1/volume/host/create", reader, 403},
		{"PUT", "/v1/volume/host/create", manager, 400},
		{"PUT", "/v1/volume/host/register", reader, 403},
		{"PUT", "/v1/volume/host/register", manager, 400},
		{"DELETE", "/v1/volume/host/x", reader, 403},
		{"DELETE", "/v1/volumes/claim/x", reader, 403},
		{"DELETE", "/v1/volumes/claim/x", manager, 404},
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
