package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/managers/catalog"
)

// A first start is promised to take this long on two idle cores: until the API answers, until all
// plugins are in service, and until they are once they have been compiled. A test holds it to the
// processor time that two cores have meanwhile, which other work on the machine changes little; and
// to ten times as much time that passes.
const (
	answersWithin = time.Second
	coldWithin    = 8 * time.Second
	warmWithin    = time.Second
	cores         = 2
	patience      = 10

	// mostAtRest is what an agent with five plugins may have written to and share with nobody.
	mostAtRest = 40 << 20
)

// firstPlugins are those that the agent has then, by their directories.
var firstPlugins = []string{"docker", "exec", "mock", "raw_exec", "wasi"}

// TestAFirstStart is of agent -dev with plugins that are compiled; in make check-full it is, before
// that, of the same where nothing is.
func TestAFirstStart(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits until an agent is at rest")
	}
	plugins, cache := pluginsOfAFirstStart(t), t.TempDir()
	if os.Getenv("WASMNODE_FIRST_START") != "" {
		startFirst(t, plugins, cache).holds(t, coldWithin)
	} else {
		require.NoError(t, os.Mkdir(filepath.Join(cache, "wasmnode"), 0o700))
		require.NoError(t, os.Symlink(codeCache, filepath.Join(cache, "wasmnode", "code")))
		t.Setenv("XDG_CACHE_HOME", cache)
		r := command(t, "", "plugin", "compile", plugins)
		require.Zero(t, r.code, r.stderr)
	}
	s := startFirst(t, plugins, cache)
	s.holds(t, warmWithin)
	require.LessOrEqual(t, s.private, mostAtRest, "private memory at rest, in bytes")
}

// BenchmarkFirstStart is of what a person waits for: of both starts, how long until the API answers
// and until all plugins are in service, and what the agent has for itself then.
func BenchmarkFirstStart(b *testing.B) {
	plugins := pluginsOfAFirstStart(b)
	var all [2]firstStart
	for b.Loop() {
		cache := b.TempDir()
		for i := range all {
			all[i].add(startFirst(b, plugins, cache))
		}
	}
	for i, name := range []string{"cold", "warm"} {
		s, n := all[i], time.Duration(b.N)
		for what, took := range map[string]time.Duration{"answers": s.answers, "answers-cpu": s.answersCPU, "ready": s.ready, "ready-cpu": s.readyCPU} {
			b.ReportMetric((took / n).Seconds(), name+"-"+what+"-s")
		}
		b.ReportMetric(float64(s.private)/float64(b.N)/1e6, name+"-private-MB")
	}
}

// pluginsOfAFirstStart is a directory with them.
func pluginsOfAFirstStart(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range firstPlugins {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".wasm"), driver(t, name), 0o600))
	}
	return dir
}

// firstStart is what a start took: the time that passed, and that of processors.
type firstStart struct {
	answers, ready       time.Duration
	answersCPU, readyCPU time.Duration
	private              int // bytes at rest
}

func (s *firstStart) add(o firstStart) {
	s.answers, s.ready = s.answers+o.answers, s.ready+o.ready
	s.answersCPU, s.readyCPU = s.answersCPU+o.answersCPU, s.readyCPU+o.readyCPU
	s.private += o.private
}

// holds checks what is promised of a start.
func (s firstStart) holds(t *testing.T, ready time.Duration) {
	t.Helper()
	t.Logf("%+v", s)
	require.LessOrEqual(t, s.answersCPU, cores*answersWithin, "processor time until the API answers")
	require.LessOrEqual(t, s.answers, patience*answersWithin, "until the API answers")
	require.LessOrEqual(t, s.readyCPU, cores*ready, "processor time until the plugins are in service")
	require.LessOrEqual(t, s.ready, patience*ready, "until the plugins are in service")
}

// startFirst starts an agent that keeps compiled code in a directory, and ends it when it is at rest.
func startFirst(t testing.TB, plugins, cache string) (s firstStart) {
	t.Helper()
	cmd := exec.Command(binary, "agent", "-http-addr", "127.0.0.1:0", "-dev", "-plugin-dir", plugins)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache, "TMPDIR="+t.TempDir())
	began := time.Now()
	n := launchProcess(t, cmd)
	n.address = n.log.await(t, answersLine, n.exited)[1]
	n.read(t, "/v1/agent/health", &struct{}{})
	s.answers, s.answersCPU = time.Since(began), n.processorTime(t)
	require.Eventually(t, func() bool { return n.serves(t, len(firstPlugins)) }, patience*coldWithin, tick, "%s", n.log)
	s.ready, s.readyCPU = time.Since(began), n.processorTime(t)
	require.Eventually(t, func() bool { // it gives back what loading took
		before := s.private
		s.private = n.privateMemory(t)
		return before != 0 && s.private >= before
	}, testTimeout, time.Second)
	require.Zero(t, n.signal(t, syscall.SIGTERM), n.log)
	return s
}

// read decodes what the API answers.
func (n *node) read(t testing.TB, path string, into any) {
	t.Helper()
	r, err := http.Get("http://" + n.address + path)
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.NoError(t, json.NewDecoder(r.Body).Decode(into))
}

// serves reports whether so many plugins are in service; whether one can do its work on this
// machine, such as with an engine of containers, is another question.
func (n *node) serves(t testing.TB, count int) bool {
	t.Helper()
	var all []catalog.PluginStatus
	n.read(t, "/v1/agent/plugins", &all)
	for _, p := range all {
		require.NotEqual(t, catalog.StateRejected, p.State, "%s: %s", p.File, p.Reason)
		if p.State == catalog.StateHealthy || p.State == catalog.StateUnhealthy {
			count--
		}
	}
	return count == 0
}

// processorTime is what the agent has used, with the processes that compile for it and have ended.
func (n *node) processorTime(t testing.TB) time.Duration {
	t.Helper()
	p, err := procfs.NewProc(n.cmd.Process.Pid)
	require.NoError(t, err)
	stat, err := p.Stat()
	require.NoError(t, err)
	return timeOf(stat)
}

// timeOf is the processor time of a process, and of those that it has started and waited for.
func timeOf(stat procfs.ProcStat) time.Duration {
	ticks := int(stat.UTime+stat.STime) + stat.CUTime + stat.CSTime
	return time.Duration(ticks) * time.Second / 100 // Linux never changes that
}

// privateMemory is how many bytes the agent has written to and shares with nobody.
func (n *node) privateMemory(t testing.TB) int {
	t.Helper()
	p, err := procfs.NewProc(n.cmd.Process.Pid)
	require.NoError(t, err)
	memory, err := p.ProcSMapsRollup()
	require.NoError(t, err)
	return int(memory.Anonymous) // a file's pages that were written to count, too
}
