package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/enginetest"
)

const bridgeJob = `job "web" {
  group "web" {
    network {
      mode = "bridge"
      port "http" { to = 8080 }
    }
    update {
      min_healthy_time = "0s"
    }
    service {
      name     = "web"
      port     = "http"
      provider = "nomad"
      check {
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "1s"
      }
    }
    task "server" {
      driver = "exec"
      template {
        data        = "hello"
        destination = "local/index.html"
        perms       = "644"
      }
      config {
        command = "busybox"
        args    = ["httpd", "-f", "-p", "${NOMAD_PORT_http}", "-h", "/local"]
      }
      resources {
        cpu    = 10
        memory = 32
      }
    }
  }
}
`

// TestANetworkOutlivesTheAgentAndGoesWithItsJob runs a service in a network of its own as a user
// would: with Debian's plugins of CNI, in a network that the test has for itself.
func TestANetworkOutlivesTheAgentAndGoesWithItsJob(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	needBridge(t)
	if !enginetest.InOwnNetwork(t) {
		return
	}
	s := newSite(t, "exec")
	s.grant(t, `plugin "exec" { grant { process {
  commands = ["/usr/bin/*", "/bin/*"]
  users    = ["nobody"]
} } }`)
	n := s.start(t)
	n.awaitDriver(t, "exec", true)
	r := n.run(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "web.nomad.hcl"), bridgeJob))
	require.Zero(t, r.code, r.stderr)
	n.awaitDeployment(t, "web", func(d nomad.Deployment) bool { return d.Status == "successful" }) // the check has passed
	stub := n.await(t, "web", "running")
	kept := filepath.Join("/run/netns", stub.ID)
	t.Cleanup(func() { // where the test fails
		_ = syscall.Unmount(kept, syscall.MNT_DETACH)
		_ = os.Remove(kept)
	})
	alloc := n.allocation(t, stub.ID)
	address := hostAddress(t, alloc)
	require.Equal(t, "hello", fetch(t, address))
	require.Equal(t, "hello", fetch(t, net.JoinHostPort(alloc.NetworkStatus.Address, "8080")))
	namespace := n.namespace(t, stub.ID)
	own, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	require.NotEqual(t, own, namespace)
	require.Len(t, peers(t), 1)

	n.signal(t, syscall.SIGKILL)
	require.Equal(t, "hello", fetch(t, address), "nobody needs the agent")
	n = s.start(t)
	n.awaitDriver(t, "exec", true)
	again := n.await(t, "web", "running")
	require.Equal(t, stub.ID, again.ID)
	require.Equal(t, taskEvents(stub), taskEvents(again), "nothing happened to it")
	require.Equal(t, namespace, n.namespace(t, stub.ID))
	require.Equal(t, "hello", fetch(t, address))

	n.out(t, "job", "stop", "web")
	n.await(t, "web", "complete")
	require.Eventually(t, func() bool {
		_, err := os.Stat(kept)
		return errors.Is(err, fs.ErrNotExist) && len(peers(t)) == 0
	}, testTimeout, tick)
	require.Empty(t, leases(t, stub.ID))
	rules, err := exec.Command("iptables-save").CombinedOutput()
	require.NoError(t, err, "%s", rules)
	require.NotContains(t, string(rules), stub.ID)
	require.NotContains(t, string(rules), alloc.NetworkStatus.Address)
}

// needBridge skips a test where a network of a group's own cannot be made.
func needBridge(t *testing.T) {
	t.Helper()
	for program, debian := range map[string]string{"/usr/lib/cni/portmap": "containernetworking-plugins", "iptables-save": "iptables", "busybox": "busybox-static"} {
		enginetest.Program(t, program, debian)
	}
}

// sharedJob is a group of two containers and a process, which reach each other on localhost.
const sharedJob = `job "shared" {
  group "g" {
    network {
      mode     = "bridge"
      hostname = "together"
      dns {
        servers  = ["10.99.99.1"]
        searches = ["example.internal"]
        options  = ["ndots:3"]
      }
      port "http" { to = 80 }
    }
    update {
      min_healthy_time = "0s"
    }
    service {
      name     = "web"
      port     = "http"
      provider = "nomad"
      check {
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "1s"
      }
    }
    task "server" {
      driver = "docker"
      template {
        data        = "hello"
        destination = "local/index.html"
        perms       = "644"
      }
      config {
        image       = "busybox:1"
        args        = ["httpd", "-f", "-p", "80", "-h", "/local"]
        ports       = ["http"]
        extra_hosts = ["other.example:10.9.8.7"]
      }
      resources {
        cpu    = 10
        memory = 32
      }
    }
    task "client" {
      driver = "docker"
      config {
        image   = "busybox:1"
        command = "sleep"
        args    = ["600"]
      }
      resources {
        cpu    = 10
        memory = 32
      }
    }
    task "process" {
      driver = "exec"
      config {
        command = "busybox"
        args    = ["sleep", "600"]
      }
      resources {
        cpu    = 10
        memory = 32
      }
    }
  }
}
`

// TestContainersShareTheNetworkOfTheirGroup runs containers beside a process in one network, which
// a container that does nothing holds, as with Nomad.
func TestContainersShareTheNetworkOfTheirGroup(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts containers")
	}
	needBridge(t)
	if !enginetest.InOwnNetwork(t) {
		return
	}
	e := enginetest.NetworkedDocker(t, map[string]string{"pause:1": `CMD ["sleep", "100000"]`})
	s := newSite(t, "docker", "exec")
	s.grantDocker(t, e)
	s.grant(t, `plugin "exec" { grant { process { commands = ["/usr/bin/*", "/bin/*"] users = ["nobody"] } } }`)
	n := s.start(t)
	n.awaitDriver(t, "docker", true)
	n.awaitDriver(t, "exec", true)
	r := n.run(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "shared.nomad.hcl"), sharedJob))
	require.Zero(t, r.code, r.stderr)
	n.awaitDeployment(t, "shared", func(d nomad.Deployment) bool { return d.Status == "successful" })
	stub := n.await(t, "shared", "running")
	kept := filepath.Join("/run/netns", stub.ID)
	t.Cleanup(func() { // where the test fails
		_ = syscall.Unmount(kept, syscall.MNT_DETACH)
		_ = os.Remove(kept)
	})
	in := func(task string, command ...string) string {
		return n.out(t, append([]string{"alloc", "exec", "-t=false", "-i=false", "-task", task, stub.ID}, command...)...)
	}
	address := hostAddressOf(t, n.allocation(t, stub.ID), 80)
	require.Equal(t, "hello", fetch(t, address), "the node's port leads into the network")
	require.Equal(t, "hello", in("client", "wget", "-qO-", "http://127.0.0.1/"))
	require.Equal(t, "hello", in("process", "busybox", "wget", "-qO-", "http://127.0.0.1/"))
	require.Equal(t, "together\n", in("client", "hostname"))
	for _, task := range []string{"server", "client", "process"} {
		require.Equal(t, "nameserver 10.99.99.1\nsearch example.internal\noptions ndots:3\n", in(task, "cat", "/etc/resolv.conf"), task)
	}
	hosts := in("server", "cat", "/etc/hosts")
	require.Contains(t, hosts, "10.9.8.7 other.example\n")
	require.Contains(t, hosts, n.allocation(t, stub.ID).NetworkStatus.Address+" together\n")

	n.signal(t, syscall.SIGKILL)
	require.Equal(t, "hello", fetch(t, address), "nobody needs the agent")
	n = s.start(t)
	n.awaitDriver(t, "docker", true)
	again := n.await(t, "shared", "running")
	require.Equal(t, taskEvents(stub), taskEvents(again), "nothing happened to it")
	n.out(t, "alloc", "restart", stub.ID, "server")
	require.Eventually(t, func() bool {
		states := n.await(t, "shared", "running").TaskStates["server"]
		return states.Restarts == 1 && states.State == "running" &&
			n.run(t, "alloc", "exec", "-t=false", "-i=false", "-task", "client", stub.ID, "wget", "-qO-", "http://127.0.0.1/").stdout == "hello"
	}, testTimeout, tick, "the network is the same")

	n.out(t, "job", "stop", "shared")
	require.Eventually(t, func() bool {
		_, err := os.Stat(kept)
		return errors.Is(err, fs.ErrNotExist) && len(e.Containers(t)) == 0
	}, testTimeout, tick, "the container that held it is gone, too")
}

// allocation asks for all of an allocation.
func (n *node) allocation(t *testing.T, id string) (a nomad.Allocation) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(n.get(t, "/v1/allocation/"+id)), &a))
	return a
}

// namespace is the network namespace that a command in an allocation has.
func (n *node) namespace(t *testing.T, id string) string {
	t.Helper()
	return strings.TrimSpace(n.out(t, "alloc", "exec", "-t=false", "-i=false", id, "readlink", "/proc/self/ns/net"))
}

// hostAddress is where an allocation's only port is on the node.
func hostAddress(t *testing.T, a nomad.Allocation) string { return hostAddressOf(t, a, 8080) }

// hostAddressOf is where its port is that leads to one in its network.
func hostAddressOf(t *testing.T, a nomad.Allocation, to int) string {
	t.Helper()
	ports := a.AllocatedResources.Shared.Ports
	require.Len(t, ports, 1)
	require.Equal(t, to, ports[0].To)
	return net.JoinHostPort(ports[0].HostIP, fmt.Sprint(ports[0].Value))
}

func fetch(t *testing.T, address string) string {
	t.Helper()
	response, err := (&http.Client{Timeout: testTimeout, Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + address)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

// peers are the interfaces of the node that lead into allocations' networks.
func peers(t *testing.T) (names []string) {
	t.Helper()
	all, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range all {
		if strings.HasPrefix(i.Name, "veth") {
			names = append(names, i.Name)
		}
	}
	return names
}

// leases are the files by which an allocation has addresses.
func leases(t *testing.T, id string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir("/run/wasmnode/networks", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), id) || strings.Contains(d.Name(), id) {
			files = append(files, path)
		}
		return err
	}))
	return files
}
