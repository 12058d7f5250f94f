package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
)

// scripted is a node whose engine has answers by method and path, and says what it was asked to
// create.
func scripted(t *testing.T, answers map[string]string) (n *drivertest.Node, created func() string) {
	t.Helper()
	n = newNode(t, `{"endpoint": "unix:///run/docker.sock", "infra_image": "pause:1"}`)
	bodies := make(chan string, 4)
	l := n.Listen("/run/docker.sock")
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/containers/create" {
				body, _ := io.ReadAll(r.Body)
				bodies <- r.URL.Query().Get("name") + " " + string(body)
			}
			answer, found := answers[r.Method+" "+r.URL.Path]
			if !found {
				http.Error(w, `{"message": "No such container"}`, http.StatusNotFound)
				return
			}
			_, _ = io.WriteString(w, answer)
		}))
	}()
	return n, func() string {
		select {
		case body := <-bodies:
			return body
		default:
			return ""
		}
	}
}

const (
	dockers = `{"Components": [{"Name": "Engine"}]}`
	podmans = `{"Components": [{"Name": "Podman Engine"}, {"Name": "Conmon"}]}`
	holds   = `{"Id": "c1", "State": {"Running": true}, "Config": {"Hostname": "h1", "Labels": {"com.hashicorp.nomad.alloc_id": "a"}}, "NetworkSettings": {"SandboxKey": "/ns/1"}}`
	held    = `{"Id": "c1", "Config": {"Labels": {"com.hashicorp.nomad.alloc_id": "a"}}}`
	foreign = `{"Id": "c1", "State": {"Running": true}, "Config": {"Labels": {}}}`
)

func TestAContainerHoldsTheNetworkOfAGroup(t *testing.T) {
	const inspect = "GET /containers/nomad_init_a/json"
	fresh := map[string]string{
		"GET /version": dockers, "GET /images/pause:1/json": `{"Id": "sha256:1"}`, "POST /containers/create": `{"Id": "c2"}`,
		"POST /containers/c2/start": "", "GET /containers/c2/json": `{"NetworkSettings": {"SandboxKey": "/ns/2"}}`, "DELETE /containers/c1": "",
	}
	for name, tt := range map[string]struct {
		version, there string
		want, says     string
		creates        bool
	}{
		"Podman needs none":      {podmans, "", "", "", false},
		"a first one":            {dockers, "", "/ns/2", "", true},
		"one that is there":      {dockers, holds, "/ns/1", "", false},
		"one that has ended":     {dockers, held, "/ns/2", "", true},
		"one of somebody else's": {dockers, foreign, "", "not this allocation's has the name: nomad_init_a", false},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{}
			for k, v := range fresh {
				answers[k] = v
			}
			answers["GET /version"] = tt.version
			if tt.there != "" {
				answers[inspect] = tt.there
			}
			n, created := scripted(t, answers)
			got, err := n.CreateNetwork("a", "together")
			require.Equal(t, tt.want, got)
			if tt.says != "" {
				require.ErrorContains(t, err, tt.says)
				return
			}
			require.NoError(t, err)
			want := ""
			if tt.creates {
				want = `nomad_init_a {"Hostname":"together","Labels":{"com.hashicorp.nomad.alloc_id":"a"},"HostConfig":{"NetworkMode":"none",` +
					`"CapDrop":["ALL"],"SecurityOpt":["no-new-privileges"],"ReadonlyRootfs":true},"Image":"pause:1"}`
			}
			requireAlike(t, want, strings.Replace(created(), `,"wasmnode.owner":"`+string(n.Kept()[ownerKey])+`"`, "", 1))
			require.NoError(t, n.DestroyNetwork("a"))
		})
	}
}

// requireAlike compares a name and an object, whose members may be in any order.
func requireAlike(t *testing.T, want, got string) {
	t.Helper()
	if want == "" {
		require.Empty(t, got)
		return
	}
	const name = len("nomad_init_a ")
	require.Equal(t, want[:name], got[:name])
	require.JSONEq(t, want[name:], got[name:])
}

func TestATaskJoinsTheNetworkOfItsGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		version, there, config string
		mode, says             string
	}{
		"Docker":              {dockers, holds, `"extra_hosts": ["b:10.0.0.2"]`, "container:c1", ""},
		"Podman":              {podmans, "", `"extra_hosts": ["b:10.0.0.2"]`, "ns:/run/netns/a", ""},
		"ports":               {dockers, holds, `"ports": ["http"]`, "container:c1", ""},
		"no such port":        {dockers, holds, `"ports": ["nope"]`, "", `Port "nope" not found, check network block`},
		"a mode of its own":   {dockers, holds, `"network_mode": "host", "hostname": "x"`, "host", ""},
		"a hostname":          {dockers, holds, `"hostname": "x"`, "", "hostname is the group's to say"},
		"name servers":        {dockers, holds, `"dns_servers": ["1.1.1.1"]`, "", "dns_servers is the group's to say"},
		"a host that is none": {dockers, holds, `"extra_hosts": ["b"]`, "", `extra_hosts: "b" is not NAME:ADDRESS`},
		"no holder":           {dockers, "", `"init": true`, "", "the container that holds the group's network does not run any more"},
		"a holder's rest":     {dockers, held, `"init": true`, "", "does not run any more"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{"GET /version": tt.version, "GET /images/i:1/json": `{"Id": "sha256:1"}`}
			if tt.there != "" {
				answers["GET /containers/nomad_init_a/json"] = tt.there
			}
			n, created := scripted(t, answers)
			task := n.Task(`{"image": "i:1", ` + tt.config + `}`)
			task.AllocId, task.Network = "a", &wasmnodev1.TaskNetwork{Mode: "bridge", Namespace: "/run/netns/a", Ip: "10.0.0.9"}
			task.Ports = []*wasmnodev1.Port{{Label: "http", HostPort: 20000, TaskPort: 80}}
			_, _, err := n.StartTask(task)
			require.Error(t, err, "the engine creates nothing")
			if tt.says != "" {
				require.ErrorContains(t, err, tt.says)
				return
			}
			_, body, _ := strings.Cut(created(), " ")
			var got struct {
				Hostname     string
				ExposedPorts map[string]any
				HostConfig   struct {
					NetworkMode string
					Binds       []string
				}
			}
			require.NoError(t, json.Unmarshal([]byte(body), &got))
			require.Equal(t, tt.mode, got.HostConfig.NetworkMode)
			if tt.mode == "host" {
				return
			}
			require.Empty(t, got.ExposedPorts, "the node maps the group's ports")
			file := filepath.Join(task.Directories.Task, hostsName)
			require.Contains(t, got.HostConfig.Binds, file+":/etc/hosts")
			hosts, err := os.ReadFile(file)
			require.NoError(t, err)
			if name != "ports" {
				require.Contains(t, string(hosts), "10.0.0.2 b\n")
			}
			require.Equal(t, name != "Podman", strings.Contains(string(hosts), "10.0.0.9 h1\n"))
		})
	}
}

// aGroupsNetwork is one that Podman's containers have by its path; Docker's are in that of
// another container, see the tests of the node.
func aGroupsNetwork(t *testing.T, e *enginetest.Engine) {
	if e.Name != "podman" {
		t.Skip("its containers are not in a namespace by its path")
	}
	n := on(t, e)
	given, err := n.CreateNetwork("a", "h")
	require.NoError(t, err)
	require.Empty(t, given, "the node makes it")
	name := filepath.Base(filepath.Dir(e.Socket))
	out, err := exec.Command("ip", "netns", "add", name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	text := strings.Replace(job("wait"), `"network_mode": "host"`, `"extra_hosts": ["b:10.0.0.2"]`, 1)
	task := n.Task(text)
	task.Network = &wasmnodev1.TaskNetwork{Mode: "bridge", Namespace: "/run/netns/" + name, Ip: "10.0.0.9"}
	handle := started(t, n, task)
	want, err := os.Stat(task.Network.Namespace)
	require.NoError(t, err)
	pid := e.Pid(t, e.Containers(t)[0].ID)
	got, err := os.Stat(filepath.Join("/proc", pid, "ns/net"))
	require.NoError(t, err)
	require.True(t, os.SameFile(want, got))
	hosts, err := os.ReadFile(filepath.Join("/proc", pid, "root/etc/hosts"))
	require.NoError(t, err)
	require.Contains(t, string(hosts), "10.0.0.2 b\n")
	require.NoError(t, n.DestroyTask(task, handle, true))
	require.NoError(t, n.DestroyNetwork("a"))
}
