package bench

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/allocdir/allocdirtest"
)

const (
	clusterTasks = 200
	// clusterNodes are the nodes of one server, which have a job of so many tasks.
	clusterNodes, spreadTasks = 50, 500
	// knownTasks are those of a node whose server is restarted.
	knownTasks = 1000
	// summarised is the time that a server's summary of its metrics is of.
	summarised = 10 * time.Second
)

// needsServer skips a benchmark where there is no Nomad whose servers could be joined.
func needsServer(b *testing.B) {
	b.Helper()
	if os.Getenv(nomadEnv) == "" {
		b.Skip(nomadEnv + " names no Nomad")
	}
}

// servers is a Nomad that is a server only, and said to be elsewhere if told so.
func servers(rpc, advertised string) product {
	return product{
		name: "server", binary: nomads.binary,
		install: func(b *testing.B, a *agent, address string) []string {
			return configured(b, a, fmt.Sprintf(`
data_dir  = %q
bind_addr = "127.0.0.1"
disable_update_check = true
advertise {
  http = "127.0.0.1"
  rpc  = %q
  serf = "127.0.0.1"
}
ports {
  http = %s
  rpc  = %s
  serf = %s
}
server {
  enabled          = true
  bootstrap_expect = 1
}
`, filepath.Join(a.dir, "data"), advertised, port(b, address), port(b, rpc), port(b, freeAddress(b))))
		},
	}
}

// startServer starts a server below a directory, and waits until it leads.
func startServer(b *testing.B, dir, rpc, advertised string) *agent {
	b.Helper()
	a := servers(rpc, advertised).below(dir).launch(b)
	a.awaitLeader(b)
	return a
}

func (a *agent) awaitLeader(b *testing.B) {
	b.Helper()
	a.await(b, "there is a leader", func() bool {
		leader, err := a.client.Status().Leader()
		return err == nil && leader != ""
	})
}

// joining is us as clients of a server, by their names. They share a binary, and what is compiled,
// as they do where they are installed.
func joining(b *testing.B, rpc string) func(name string) product {
	b.Helper()
	binary, cache := ours.binary(b), b.TempDir()
	sleep := filepath.Join(b.TempDir(), "sleep") // which all may run
	copyFile(b, sleep, "/bin/sleep")
	return func(name string) product {
		p := ours
		p.name = name
		p.binary = func(*testing.B) string { return binary }
		p.install = func(b *testing.B, a *agent, address string) []string {
			require.NoError(b, os.Mkdir(filepath.Join(a.dir, "data"), 0o700))
			require.NoError(b, os.Symlink(cache, filepath.Join(a.dir, "data", "cache")))
			a.sleep = sleep
			args := ours.install(b, a, address)
			file, err := os.OpenFile(filepath.Join(a.dir, "node.hcl"), os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(b, err)
			_, err = fmt.Fprintf(file, "name = %q\nclient { servers = [%q] }\n", name, rpc)
			require.NoError(b, err)
			require.NoError(b, file.Close())
			return args
		}
		return p
	}
}

// nomadsClient is Nomad's own client of a server.
func nomadsClient(rpc string) product {
	p := nomads
	p.install = func(b *testing.B, a *agent, address string) []string {
		return configured(b, a, fmt.Sprintf(`
data_dir  = %q
bind_addr = "127.0.0.1"
disable_update_check = true
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
ports {
  http = %s
  rpc  = %s
  serf = %s
}
client {
  enabled = true
  servers = [%q]
  options { "fingerprint.denylist" = "env_aws,env_azure,env_digitalocean,env_gce" }
}
plugin "raw_exec" {
  config { enabled = true }
}
`, filepath.Join(a.dir, "data"), port(b, address), port(b, freeAddress(b)), port(b, freeAddress(b)), rpc))
	}
	return p
}

// join starts a client of a server, which tells of it.
func (p product) join(b *testing.B, server *agent) *agent {
	b.Helper()
	a := p.launch(b)
	a.client = server.client
	a.await(b, "the node is ready", a.ready)
	return a
}

// BenchmarkClusterTasks is [BenchmarkTasks] through a server of Nomad, whose own cost is in
// none of the figures but the rates.
func BenchmarkClusterTasks(b *testing.B) {
	needsServer(b)
	dir := b.TempDir()
	allocdirtest.Unmount(b, dir)
	measure := func(b *testing.B, client func(rpc string) product) *starting {
		rpc := freeAddress(b)
		below := filepath.Join(dir, filepath.Base(b.Name()))
		require.NoError(b, os.Mkdir(below, 0o700))
		server := startServer(b, below, rpc, rpc)
		return client(rpc).below(below).join(b, server).measureStarting(b, clusterTasks)
	}
	var theirs *starting
	b.Run("nomad", func(b *testing.B) { theirs = measure(b, nomadsClient) })
	b.Run("wasmnode", func(b *testing.B) {
		own := measure(b, func(rpc string) product { return joining(b, rpc)("wasmnode") })
		if theirs == nil {
			return // it was not asked for
		}
		b.ReportMetric(own.starts/theirs.starts, "times-nomads-start-rate")
		b.ReportMetric(own.stops/theirs.stops, "times-nomads-stop-rate")
		b.ReportMetric(float64(own.cpu)/float64(theirs.cpu), "of-nomads-start-cpu")
		b.ReportMetric(own.memory/theirs.memory, "of-nomads-memory")
	})
}

// BenchmarkClusterNodes has many of us be clients of one server, and a job spread over them. An
// operation is from the job's registration to the last task's being seen as running.
func BenchmarkClusterNodes(b *testing.B) {
	needsServer(b)
	dir := b.TempDir()
	allocdirtest.Unmount(b, dir)
	rpc := freeAddress(b)
	server := startServer(b, dir, rpc, rpc)
	_, _, err := server.client.Operator().SchedulerSetConfiguration(&nomad.SchedulerConfiguration{SchedulerAlgorithm: nomad.SchedulerAlgorithmSpread}, nil)
	require.NoError(b, err)
	named := joining(b, rpc)
	nodes := []*agent{named("node-0").below(dir).join(b, server)} // which has compiled its plugin
	begin := time.Now()
	for i := 1; i < clusterNodes; i++ {
		nodes = append(nodes, named(fmt.Sprint("node-", i)).below(dir).launch(b))
	}
	server.await(b, "all nodes are ready", func() bool { return server.readyNodes(b) == clusterNodes })
	joined := time.Since(begin)
	idle := privateOf(b, nodes)
	time.Sleep(settled)
	busy := cpuTime(b, running(b, server.binary))
	watched := time.Now()
	time.Sleep(window)
	share := 100 * (cpuTime(b, running(b, server.binary)) - busy).Seconds() / time.Since(watched).Seconds()
	beats := server.heartbeats(b)
	require.Equal(b, clusterNodes, server.readyNodes(b))
	most, used := idle, 0
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint("job-", i)
		_, _, err := server.client.Jobs().Register(nodes[0].job(id, spreadTasks), nil)
		require.NoError(b, err)
		server.await(b, "all tasks run", func() bool { return server.summary(b, id).Running == spreadTasks })
		b.StopTimer()
		time.Sleep(settled)
		most = max(most, privateOf(b, nodes))
		used = server.nodesOf(b, id)
		_, _, err = server.client.Jobs().Deregister(id, false, nil)
		require.NoError(b, err)
		server.await(b, "all tasks have ended", func() bool { return server.summary(b, id).Complete == spreadTasks })
		b.StartTimer()
	}
	b.ReportMetric(joined.Seconds(), "s-until-all-are-ready")
	b.ReportMetric(beats, "heartbeats/s")
	b.ReportMetric(share, "%-of-a-core-of-the-idle-server")
	b.ReportMetric(float64(used), "nodes-with-tasks")
	b.ReportMetric(idle/clusterNodes/1e6, "MB-private/node-before")
	b.ReportMetric(most/clusterNodes/1e6, "MB-private/node")
}

// privateOf is the private memory of nodes, with what looks after their tasks.
func privateOf(b *testing.B, nodes []*agent) (bytes float64) {
	b.Helper()
	for _, n := range nodes {
		bytes += privateMemory(b, running(b, n.binary))
	}
	return bytes
}

// readyNodes is how many nodes could start a task.
func (a *agent) readyNodes(b *testing.B) (ready int) {
	b.Helper()
	list, _, err := a.client.Nodes().List(nil)
	require.NoError(b, err)
	for _, n := range list {
		if d := n.Drivers[ours.driver]; n.Status == nomad.NodeStatusReady && d != nil && d.Healthy {
			ready++
		}
	}
	return ready
}

// heartbeats is how many a server got a second, lately.
func (a *agent) heartbeats(b *testing.B) float64 {
	b.Helper()
	metrics, _, err := a.client.Operator().MetricsSummary(nil)
	require.NoError(b, err)
	for _, s := range metrics.Samples {
		if s.Name == "nomad.nomad.client.update_status" {
			return float64(s.Count) / summarised.Seconds()
		}
	}
	return 0
}

// nodesOf is how many nodes have allocations of a job.
func (a *agent) nodesOf(b *testing.B, id string) int {
	b.Helper()
	list, _, err := a.client.Jobs().Allocations(id, false, nil)
	require.NoError(b, err)
	nodes := map[string]bool{}
	for _, alloc := range list {
		nodes[alloc.NodeID] = true
	}
	return len(nodes)
}

// BenchmarkClusterRestart kills and starts the server of a node that has many allocations. An
// operation is from the new server's leading to a new task's running; the bytes are what node
// and server have told each other until then.
func BenchmarkClusterRestart(b *testing.B) {
	needsServer(b)
	dir := b.TempDir()
	allocdirtest.Unmount(b, dir)
	rpc := freeAddress(b)
	relay := startRelay(b, rpc)
	server := startServer(b, dir, rpc, relay.address())
	node := joining(b, relay.address())("wasmnode").below(dir).join(b, server)
	node.run(b, "known", knownTasks)
	var told int64
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		server.kill(b)
		before := relay.bytes.Load()
		server.launch(b)
		server.awaitLeader(b)
		b.StartTimer()
		id := fmt.Sprint("new-", i)
		_, _, err := server.client.Jobs().Register(node.job(id, 1), nil)
		require.NoError(b, err)
		server.await(b, "a new task runs", func() bool { return server.summary(b, id).Running == 1 })
		told += relay.bytes.Load() - before
		require.Equal(b, knownTasks, server.summary(b, "known").Running)
	}
	require.Len(b, running(b, node.sleep), knownTasks+b.N)
	b.ReportMetric(float64(told)/float64(b.N)/1e3, "kB-until-in-step")
}

// relay passes on what a node and its server tell each other, and counts it.
type relay struct {
	listener net.Listener
	bytes    atomic.Int64
}

func startRelay(b *testing.B, to string) *relay {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	r := &relay{listener: l}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = from.Close()
				continue
			}
			go r.pass(from, server)
			go r.pass(server, from)
		}
	}()
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

// pass passes on what one side says, until either ends.
func (r *relay) pass(from, to net.Conn) {
	_, _ = io.Copy(to, io.TeeReader(from, count{&r.bytes}))
	_, _ = from.Close(), to.Close()
}

// count counts the bytes that are written to it.
type count struct{ n *atomic.Int64 }

// Write implements [io.Writer].
func (c count) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}
