package clustertest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/allocdir/allocdirtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// patience is how long anything that is waited for may take.
const patience = 2 * time.Minute

// binaries are those of the servers.
func binaries(t *testing.T) []string {
	t.Helper()
	list := filepath.SplitList(os.Getenv("NOMAD_BINS"))
	if one := os.Getenv("NOMAD_BIN"); one != "" {
		list = append(list, one)
	}
	if len(list) == 0 {
		t.Skip("neither NOMAD_BIN nor NOMAD_BINS names a stock nomad")
	}
	return list
}

// eventually waits for something, and says what it was that did not come.
func eventually(t *testing.T, what string, is func() (bool, string)) {
	t.Helper()
	last := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ok, state := is()
		if ok {
			return
		}
		last = state
	}
	require.FailNow(t, "waited for "+what, last)
}

// process is one that is started and ended again, with what it has said.
type process struct {
	args []string
	cmd  *exec.Cmd
	mu   sync.Mutex
	said bytes.Buffer
}

// Write implements io.Writer.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func newProcess(t *testing.T, args ...string) *process {
	p := &process{args: args}
	p.start(t)
	t.Cleanup(func() {
		p.end(syscall.SIGINT)
		if t.Failed() {
			t.Log(filepath.Base(args[0]) + " has said:\n" + p.log())
		}
	})
	return p
}

func (p *process) start(t *testing.T) {
	t.Helper()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.WaitDelay = time.Second // what it leaves running has its output, too
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "AWS_") || strings.HasPrefix(v, "NOMAD_") // nomad would not start with some of them
	})
	require.NoError(t, p.cmd.Start())
}

func (p *process) end(with os.Signal) {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(with)
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// freePorts are ports that nobody has now.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// server is a real server.
type server struct {
	*process
	client *nomad.Client
	rpc    string
}

// startServers starts servers of one region, with more of a configuration, and waits until they have a leader.
// Each is reached through the proxy of its place, where there is one, by nodes and by the other servers.
func startServers(t *testing.T, binary string, n int, more string, behind ...*proxy) (list []*server) {
	t.Helper()
	ports := freePorts(t, 3*n)
	spec := serverSpec{binary: binary, more: more}
	for i := range n {
		spec.join = append(spec.join, fmt.Sprintf("127.0.0.1:%d", ports[3*i+2]))
	}
	for i := range n {
		spec.name = fmt.Sprintf("server-%d", i)
		if i < len(behind) {
			spec.advertised = behind[i].address()
			behind[i].leads(fmt.Sprintf("127.0.0.1:%d", ports[3*i+1]))
		}
		list = append(list, spec.launch(t, ports[3*i:]))
	}
	for _, s := range list {
		s.awaitLeader(t)
	}
	return list
}

// serverSpec is a server that is to be started.
type serverSpec struct {
	name       string
	binary     string
	more       string   // of its configuration
	join       []string // the addresses of all
	advertised string   // where its RPC is said to be; empty: where it is
}

// launch starts a server with ports for HTTP, RPC and the other servers.
func (spec serverSpec) launch(t *testing.T, ports []int) *server {
	t.Helper()
	dir := t.TempDir()
	join, err := json.Marshal(spec.join)
	require.NoError(t, err)
	config := filepath.Join(dir, "nomad.hcl")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
name                 = %q
data_dir             = %q
bind_addr            = "127.0.0.1"
disable_update_check = true
advertise {
  http = "127.0.0.1"
  rpc  = %q
  serf = "127.0.0.1"
}
ports {
  http = %d
  rpc  = %d
  serf = %d
}
server {
  enabled          = true
  bootstrap_expect = %d
  server_join {
    retry_join = %s
  }
}
%s
`, cmp.Or(spec.name, "server"), filepath.Join(dir, "data"), cmp.Or(spec.advertised, "127.0.0.1"), ports[0], ports[1], ports[2],
		len(spec.join), join, spec.more), 0o600))
	client, err := nomad.NewClient(&nomad.Config{Address: fmt.Sprintf("http://127.0.0.1:%d", ports[0])})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &server{newProcess(t, spec.binary, "agent", "-config", config), client, fmt.Sprintf("127.0.0.1:%d", ports[1])}
}

func (s *server) awaitLeader(t *testing.T) {
	t.Helper()
	eventually(t, "a leader", func() (bool, string) {
		leader, err := s.client.Status().Leader()
		return err == nil && leader != "", fmt.Sprint(err)
	})
}

var building sync.Once

// wasmnode builds the agent once, and returns its path.
func wasmnode(t *testing.T) string {
	t.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("wasmnode-clustertest-%d", os.Getpid()))
	building.Do(func() {
		out, err := exec.Command("go", "build", "-o", path, "github.com/wasmnode/wasmnode/cmd/wasmnode").CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	return path
}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.Remove(filepath.Join(os.TempDir(), fmt.Sprintf("wasmnode-clustertest-%d", os.Getpid())))
	os.Exit(code)
}

// startNode starts a node that joins servers.
func startNode(t *testing.T, name, more string, servers ...*server) *process {
	t.Helper()
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, s.rpc)
	}
	return nodeSpec{name: name, more: more, servers: addresses}.start(t)
}

// nodeSpec is a node that is to be started.
type nodeSpec struct {
	name    string
	more    string   // of its configuration
	client  string   // of its client block
	servers []string // their RPC addresses
	plugins []string // their folders, besides that of raw_exec
}

func (n nodeSpec) start(t *testing.T) *process {
	t.Helper()
	dir := t.TempDir()
	allocdirtest.Unmount(t, dir)
	plugins := filepath.Join(dir, "plugins")
	require.NoError(t, os.Mkdir(plugins, 0o755))
	for _, folder := range append([]string{"guest-examples/drivers/raw_exec"}, n.plugins...) {
		require.NoError(t, os.WriteFile(filepath.Join(plugins, filepath.Base(folder)+".wasm"), guestbuild.Plugin(t, folder), 0o600))
	}
	servers, err := json.Marshal(append([]string{}, n.servers...)) // none is an empty list
	require.NoError(t, err)
	config := filepath.Join(dir, "node.hcl")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
name       = %q
data_dir   = %q
plugin_dir = %q
ports { http = 0 }
client {
  servers                 = %s
  gc_disk_usage_threshold = 100
  %s
}
plugin "raw_exec" { grant { process { commands = ["*"] } } }
%s
`, n.name, filepath.Join(dir, "data"), plugins, servers, n.client, n.more), 0o600))
	t.Cleanup(func() { endSupervisor(filepath.Join(dir, "data")) })
	return newProcess(t, wasmnode(t), "agent", "-config", config)
}

// endSupervisor ends what owns a node's tasks and outlives its agent.
func endSupervisor(data string) {
	pid, err := os.ReadFile(filepath.Join(data, "supervisor", "lock"))
	if err != nil {
		return
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	exe, gone := os.Readlink(fmt.Sprintf("/proc/%d/exe", n))
	if err == nil && gone == nil && strings.HasPrefix(filepath.Base(exe), "wasmnode-clustertest-") {
		_ = syscall.Kill(n, syscall.SIGKILL)
	}
}
