package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

var containers = flag.Int("containers", 20, "how many containers BenchmarkContainers has at once, 1 to 100")

// watched is how long a node is watched while containers write.
const watched = 5 * time.Second

// containing is what containers cost a node.
type containing struct {
	starts float64       // a second
	cpu    time.Duration // of a start
	memory float64       // bytes a container
	busy   float64       // share of a core, while all write
}

// BenchmarkContainers has both nodes' drivers run containers on the same engine, each of which
// writes 50 lines a second to both of its streams. An operation is from the job's registration
// to the last one's being seen as running. The engine's own cost is in no measure but that rate.
func BenchmarkContainers(b *testing.B) {
	require.True(b, *containers > 0 && *containers <= 100, "-containers: 1 to 100")
	e := enginetest.Docker(b)
	productsSideBySide(b, nomadsDocker(e), oursDocker(e),
		func(b *testing.B, p product) *containing { return p.start(b).measureContaining(b, *containers) },
		func(b *testing.B, nomad, own *containing) {
			b.ReportMetric(own.starts/nomad.starts, "times-nomads-start-rate")
			b.ReportMetric(float64(own.cpu)/float64(nomad.cpu), "of-nomads-start-cpu")
			b.ReportMetric(own.memory/nomad.memory, "of-nomads-memory")
			b.ReportMetric(own.busy/nomad.busy, "of-nomads-cpu-with-logs")
		})
}

func nomadsDocker(e *enginetest.Engine) product {
	p := nomads
	p.driver = "docker"
	p.install = func(b *testing.B, a *agent, address string) []string {
		return configured(b, a, nomadsConfig(b, a, address)+fmt.Sprintf(`
plugin "docker" {
  config {
    endpoint = "unix://%s"
    gc { image = false }
  }
}
`, e.Socket))
	}
	return p
}

func oursDocker(e *enginetest.Engine) product {
	p := ours
	p.driver = "docker"
	p.install = func(b *testing.B, a *agent, address string) []string {
		plugins := filepath.Join(a.dir, "plugins")
		require.NoError(b, os.Mkdir(plugins, 0o700))
		wasm := guestbuild.Plugin(b, "../../guest-examples/drivers/docker")
		require.NoError(b, os.WriteFile(filepath.Join(plugins, "docker.wasm"), wasm, 0o600))
		return configured(b, a, fmt.Sprintf(`
data_dir   = %q
plugin_dir = %q
ports { http = %s }
plugin "docker" {
  config {
    endpoint = "unix://%[4]s"
    gc { image = false }
  }
  grant {
    kv { enabled = true }
    http { endpoint "unix:%[4]s" {
      methods = ["GET", "POST", "DELETE"]
      paths   = ["/version", "/info", "/containers/", "/images/"]
    } }
  }
}
`, filepath.Join(a.dir, "data"), plugins, port(b, address), e.Socket))
	}
	return p
}

func (a *agent) measureContaining(b *testing.B, n int) *containing {
	b.Helper()
	m := &containing{}
	idle := privateMemory(b, running(b, a.binary))
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint("containers-", i)
		job := a.job(id, n)
		task, cpu, memory := job.TaskGroups[0].Tasks[0], 10, 20 // the engine's least are 2 and 6
		task.Driver, task.Resources.CPU, task.Resources.MemoryMB = a.driver, &cpu, &memory
		task.Config = map[string]any{
			"image": enginetest.Image, "network_mode": "host", "command": "/program", "args": []string{"count", "1000000000", "1"},
		}
		b.StopTimer()
		busy := cpuTime(b, running(b, a.binary))
		b.StartTimer()
		_, _, err := a.client.Jobs().Register(job, nil)
		require.NoError(b, err)
		a.await(b, "all containers run", func() bool { return a.summary(b, id).Running == n })
		b.StopTimer()
		started := cpuTime(b, running(b, a.binary))
		m.cpu += started - busy
		time.Sleep(watched)
		m.busy += float64(cpuTime(b, running(b, a.binary))-started) / float64(watched)
		m.memory = max(m.memory, (privateMemory(b, running(b, a.binary))-idle)/float64(n))
		_, _, err = a.client.Jobs().Deregister(id, false, nil)
		require.NoError(b, err)
		a.await(b, "all containers have ended", func() bool { return a.summary(b, id) == nomad.TaskGroupSummary{Complete: n} })
		b.StartTimer()
	}
	m.starts = float64(b.N*n) / b.Elapsed().Seconds()
	m.cpu /= time.Duration(b.N * n)
	m.busy /= float64(b.N)
	b.ReportMetric(m.starts, "starts/s")
	b.ReportMetric(float64(m.cpu.Microseconds())/1000, "ms-cpu/start")
	b.ReportMetric(m.memory/1e6, "MB-private/container")
	b.ReportMetric(idle/1e6, "MB-private-before")
	b.ReportMetric(100*m.busy, "percent-of-a-core-with-logs")
	return m
}
