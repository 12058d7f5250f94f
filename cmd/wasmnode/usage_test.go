package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cpuTolerance is what a measurement of processor time may differ by from two readings of
// /proc around it: /proc counts in hundredths of a second, and a program has run a little
// before it is the one that was started.
const cpuTolerance = 50 * time.Millisecond

// processOf finds the process that has a text among its arguments.
func processOf(t *testing.T, text string) procfs.Proc {
	t.Helper()
	var found procfs.Proc
	require.Eventually(t, func() bool {
		all, err := procfs.AllProcs()
		require.NoError(t, err)
		for _, p := range all {
			if line, err := p.CmdLine(); err == nil && len(line) > 0 && line[len(line)-1] == text {
				found = p
				return true
			}
		}
		return false
	}, testTimeout, tick)
	return found
}

func procUsage(t *testing.T, p procfs.Proc) (cpu time.Duration, memory float64) {
	t.Helper()
	stat, err := p.Stat()
	require.NoError(t, err)
	return timeOf(stat), float64(stat.ResidentMemory())
}

// TestUsageOfTasksIsWhatTheKernelSays compares what a task that spins one processor and
// holds 32 MiB is said to use with what /proc says of it: in the API, in both forms of the
// metrics, and on the command line.
func TestUsageOfTasksIsWhatTheKernelSays(t *testing.T) {
	n := startRawExec(t)
	token := "spins-" + filepath.Base(t.TempDir()) + strconv.Itoa(os.Getpid())
	script := `x=$(head -c 33554432 /dev/zero | tr '\0' x); while :; do :; done`
	text := strings.Replace(read(t, watchedJob(t, "spins", healthyAtOnce, script)), strconv.Quote(script)+"]", strconv.Quote(script)+", "+strconv.Quote(token)+"]", 1)
	n.out(t, "job", "run", write(t, filepath.Join(t.TempDir(), "spins.nomad.hcl"), text))
	alloc := n.await(t, "spins", "running")
	p := processOf(t, token)
	require.Eventually(t, func() bool {
		cpu, memory := procUsage(t, p)
		return cpu > time.Second && memory > 32<<20
	}, testTimeout, tick)

	least, held := procUsage(t, p)
	first := n.scrape(t)
	most, _ := procUsage(t, p)
	label := `{alloc_id="` + alloc.ID + `",job="spins",namespace="default",task="t",task_group="g"}`
	seconds := first["wasmnode_task_cpu_seconds_total"+label]
	assert.GreaterOrEqual(t, seconds, (least - cpuTolerance).Seconds())
	assert.LessOrEqual(t, seconds, (most + cpuTolerance).Seconds())
	host, err := os.Hostname()
	require.NoError(t, err)
	nomads := strings.Replace(label, ",job=", ",host="+strconv.Quote(host)+",job=", 1)
	assert.InDelta(t, held, first["nomad_client_allocs_memory_rss"+nomads], 2<<20)
	assert.Equal(t, float64(64<<20), first["nomad_client_allocs_memory_allocated"+nomads])

	// Once more, long enough after that it is measured anew: what it used in between.
	began := time.Now()
	require.Eventually(t, func() bool { now, _ := procUsage(t, p); return now > most+2*time.Second }, testTimeout, tick)
	second, _ := procUsage(t, p)
	want := 100 * (second - most).Seconds() / time.Since(began).Seconds()
	stats := n.stats(t, alloc.ID).Tasks["t"].ResourceUsage
	assert.InDelta(t, want, stats.CpuStats.Percent, 10, "percent of a processor")
	assert.InDelta(t, stats.CpuStats.Percent, stats.CpuStats.UserMode+stats.CpuStats.SystemMode, 2)
	assert.Greater(t, stats.CpuStats.UserMode, stats.CpuStats.SystemMode)
	assert.Subset(t, stats.CpuStats.Measured, []string{"Percent", "Total Ticks", "User Mode", "System Mode"})
	var self nomad.Node
	require.NoError(t, json.Unmarshal([]byte(n.get(t, "/v1/node/"+nodeID(t, n.out(t, "node", "status", "-json")))), &self))
	frequency, err := strconv.ParseFloat(self.Attributes["cpu.frequency"], 64)
	require.NoError(t, err)
	assert.InDelta(t, stats.CpuStats.Percent/100*frequency, stats.CpuStats.TotalTicks, frequency/100)

	shown := n.out(t, "alloc", "status", "-stats", alloc.ID)
	assert.Regexp(t, `\n\d+/10 MHz +3\d\.\d MiB/64 MiB +300 MiB\n`, shown)
	assert.Regexp(t, `\nCPU Percent +User +System +RSS`, shown)
	node := n.out(t, "node", "status", "-self")
	assert.Regexp(t, `\nUptime += \d`, node)
	assert.Regexp(t, `\nAllocation Resource Utilization\nCPU +Memory\n[1-9]\d+/\d+ MHz +3\d MiB/`, node)
	assert.Regexp(t, `\nHost Resource Utilization\nCPU +Memory +Disk\n\d+/\d+ MHz +[\d.]+ [GM]iB/`, node)
	assert.NotContains(t, node, "CPU Stats")
	assert.Regexp(t, `(?s)\nCPU Stats\nCPU += cpu0\nUser += [\d.]+%\n.*\nMemory Stats\nTotal .*\nDisk Stats\nDevice `, n.out(t, "node", "status", "-self", "-stats"))
	assert.NotContains(t, n.out(t, "node", "status", "-self", "-short"), "Utilization")
}

// TestWhatIsNotMeasuredIsNotZero: a WASI program's processor time is not known while it
// runs, and nothing says that it is none.
func TestWhatIsNotMeasuredIsNotZero(t *testing.T) {
	s := newSite(t, "wasi")
	n := s.start(t)
	n.out(t, "job", "run", writeJob(t, "program", "service", "wasi", "module = "+strconv.Quote(s.program(t, "spin"))))
	alloc := n.await(t, "program", "running")
	stats := n.stats(t, alloc.ID).Tasks["task"].ResourceUsage
	assert.NotContains(t, stats.CpuStats.Measured, "User Mode", "a program's time is not divided")
	assert.NotContains(t, stats.CpuStats.Measured, "System Mode")
	assert.Positive(t, stats.MemoryStats.RSS)
	for name := range n.scrape(t) {
		assert.NotRegexp(t, `^nomad_client_allocs_cpu_(user|system)`, name)
	}
}

// sumOf is that of a metric's series.
func sumOf(metrics map[string]float64, name string) (sum float64) {
	for series, value := range metrics {
		if strings.HasPrefix(series, name+"{") {
			sum += value
		}
	}
	return sum
}

// TestCountsOfWhatHappenedStayWhenItIsForgotten collects the garbage of a job that failed
// after a restart.
func TestCountsOfWhatHappenedStayWhenItIsForgotten(t *testing.T) {
	n := newSite(t, "mock").start(t)
	text := strings.Replace(read(t, writeJob(t, "fails", "batch", "mock_driver", "run_for = \"1ms\"\nexit_code = 1")), "restart {", "restart {\n attempts = 1\n mode = \"fail\"\n", 1)
	n.out(t, "job", "run", "-detach", write(t, filepath.Join(t.TempDir(), "fails.nomad.hcl"), text))
	n.await(t, "fails", "failed")
	n.out(t, "job", "stop", "-purge", "-detach", "fails")
	n.out(t, "system", "gc")
	m := n.scrape(t)
	assert.Equal(t, 1.0, m["wasmnode_task_restarts_total"])
	assert.Equal(t, 2.0, m[`wasmnode_task_exits_total{outcome="failure"}`])
	assert.Equal(t, 0.0, m[`wasmnode_task_exits_total{outcome="success"}`])
	assert.Equal(t, 1.0, m[`wasmnode_allocations_ended_total{status="failed"}`])
	assert.Equal(t, 1.0, m[`wasmnode_task_events_total{type="Not Restarting"}`])
	assert.Equal(t, 0.0, m["wasmnode_allocations_measured"])
	assert.Positive(t, sumOf(m, "nomad_client_host_memory_total"))
	assert.Positive(t, m[`wasmnode_http_request_seconds_count{route="PUT /v1/jobs"}`])
}

var sample = regexp.MustCompile(`(?m)^([^#\s][^\s]*(?:\{.*\})?) (\S+)$`)

// scrape reads the metrics, by name and labels. Those of JSON have the same numbers.
func (n *node) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, m := range sample.FindAllStringSubmatch(n.get(t, "/v1/metrics?format=prometheus"), -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		require.NoError(t, err, m[0])
		out[m[1]] = v
	}
	return out
}

// stats is what an allocation's tasks use.
func (n *node) stats(t *testing.T, alloc string) (usage nomad.AllocResourceUsage) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(n.get(t, "/v1/client/allocation/"+alloc+"/stats")), &usage))
	return usage
}

func (n *node) get(t *testing.T, path string) string {
	t.Helper()
	r, err := http.Get("http://" + n.address + path)
	require.NoError(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	http.DefaultClient.CloseIdleConnections()
	require.Equal(t, http.StatusOK, r.StatusCode, "%s", b)
	return string(b)
}
