package agent_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
)

// BenchmarkServices has 1,000 allocations register a service each, with a check of TCP every
// ten seconds. It reports how long it takes until all are registered, what a service with
// its check takes of memory beyond its allocation, and how much of a processor all take as they
// are checked.
func BenchmarkServices(b *testing.B) {
	const count = 1000
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	perCount := map[bool]float64{}
	for _, served := range []bool{false, true} {
		b.Run(map[bool]string{false: "without", true: "checked"}[served], func(b *testing.B) {
			a := agenttest.Start(b, agenttest.Options{Drivers: []string{"mock"}, Kept: count})
			job := agenttest.Job("many", "mock_driver", map[string]any{"run_for": "1h"})
			group := job.TaskGroups[0]
			group.Count, group.Tasks[0].Resources.MemoryMB = new(count), new(10)
			if served {
				group.Services = []*nomad.Service{{Name: "many", Provider: "nomad", Address: "127.0.0.1", PortLabel: port, Checks: []nomad.ServiceCheck{
					{Type: "tcp", Interval: 10 * time.Second, Timeout: time.Second},
				}}}
			}
			before, start, cpu := heap(), time.Now(), processor()
			_, _, err := a.Client.Jobs().Register(job, nil)
			require.NoError(b, err)
			require.Eventually(b, func() bool {
				sum, _, err := a.Client.Jobs().Summary("many", nil)
				require.NoError(b, err)
				return sum.Summary["group"].Running == count && (!served || registered(b, a, "many") == count)
			}, 10*time.Minute, 100*time.Millisecond)
			took, work := time.Since(start), processor()-cpu
			b.ResetTimer()
			cpu = processor()
			for b.Loop() {
				time.Sleep(10 * time.Second) // each check runs once
			}
			b.ReportMetric(100*(processor()-cpu).Seconds()/b.Elapsed().Seconds(), "%-of-a-processor")
			b.ReportMetric(took.Seconds(), "s-to-all")
			b.ReportMetric(work.Seconds(), "s-cpu-to-all")
			perCount[served] = float64(heap()-before) / count / 1024
			if served {
				requireHealthy(b, a)
				b.ReportMetric(perCount[true]-perCount[false], "KiB/service")
			}
		})
	}
}

func registered(b *testing.B, a *agenttest.Agent, name string) int {
	b.Helper()
	list, _, err := a.Client.Services().Get(name, nil)
	require.NoError(b, err)
	return len(list)
}

// requireHealthy holds each allocation to a check that has succeeded.
func requireHealthy(b *testing.B, a *agenttest.Agent) {
	b.Helper()
	allocs, _, err := a.Client.Allocations().List(nil)
	require.NoError(b, err)
	for _, one := range allocs {
		checks, err := a.Client.Allocations().Checks(one.ID, nil)
		require.NoError(b, err)
		require.Len(b, checks, 1)
		for _, c := range checks {
			require.Equal(b, "success", c.Status, c.Output)
		}
	}
}

// processor is the time of processors that this process has had.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTemplates has 500 tasks follow one of 100 variables and one of 100 services each,
// and changes all of the variables, or all of the services. It reports the longest and the
// middle time until a change is in a task's file, and how much of a processor it takes to look
// at all of them when nothing changes, and while all do.
func BenchmarkTemplates(b *testing.B) {
	const count, followed = 500, 100
	a := agenttest.Start(b, agenttest.Options{Drivers: []string{"mock"}, Kept: 10 * count})
	setWords(b, a, followed, "zero")
	runBackends(b, a, followed, "zero")
	followers := agenttest.Job("followers", "mock_driver", map[string]any{"run_for": "1h"})
	group := followers.TaskGroups[0]
	group.Count, group.Tasks[0].Resources.MemoryMB = new(count), new(10)
	group.Tasks[0].Templates = []*nomad.Template{{
		EmbeddedTmpl: new(fmt.Sprintf(`{{ $n := env "NOMAD_ALLOC_INDEX" | parseInt | modulo %d -}}
{{ with nomadVar (printf "nomad/jobs/followers/%%d" $n) }}{{ .word }}{{ end }} {{ range nomadService (printf "backend-%%d" $n) }}{{ .Tags | join "," }}{{ end }}`, followed)),
		DestPath: new("local/x"), ChangeMode: new("noop"),
	}}
	_, _, err := a.Client.Jobs().Register(followers, nil)
	require.NoError(b, err)
	files := awaitFiles(b, a, count)
	b.Run("nothing-changes", func(b *testing.B) {
		cpu := processor()
		for b.Loop() {
			time.Sleep(5 * time.Second)
		}
		b.ReportMetric(100*(processor()-cpu).Seconds()/b.Elapsed().Seconds(), "%-of-a-processor")
	})
	changes := 0
	for name, change := range map[string]func(word string){
		"variables": func(word string) { setWords(b, a, followed, word) },
		"services":  func(word string) { runBackends(b, a, followed, word) },
	} {
		b.Run(name, func(b *testing.B) {
			var spans []time.Duration
			cpu := processor()
			for b.Loop() {
				changes++
				word := fmt.Sprintf("%s-%d", name, changes)
				change(word)
				spans = awaitWord(b, files, word)
			}
			b.ReportMetric(milliseconds(spans[len(spans)-1]), "ms-last-seen")
			b.ReportMetric(milliseconds(spans[len(spans)/2]), "ms-p50-seen")
			b.ReportMetric((processor()-cpu).Seconds()/float64(b.N), "s-cpu/change")
		})
	}
}

func setWords(b *testing.B, a *agenttest.Agent, count int, word string) {
	b.Helper()
	for i := range count {
		_, _, err := a.Client.Variables().Update(&nomad.Variable{Path: fmt.Sprint("nomad/jobs/followers/", i), Items: nomad.VariableItems{"word": word}}, nil)
		require.NoError(b, err)
	}
}

// runBackends registers so many services with a tag.
func runBackends(b *testing.B, a *agenttest.Agent, count int, tag string) {
	b.Helper()
	job := agenttest.Job("backends", "mock_driver", map[string]any{"run_for": "1h"})
	job.TaskGroups[0].Count, job.TaskGroups[0].Tasks[0].Resources.MemoryMB = &count, new(10)
	job.TaskGroups[0].Services = []*nomad.Service{{Name: "backend-${NOMAD_ALLOC_INDEX}", Provider: "nomad", Tags: []string{tag}}}
	_, _, err := a.Client.Jobs().Register(job, nil)
	require.NoError(b, err)
	require.Eventually(b, func() bool {
		for _, i := range []int{0, count - 1} {
			list, _, err := a.Client.Services().Get(fmt.Sprint("backend-", i), nil)
			require.NoError(b, err)
			if len(list) != 1 || list[0].Tags[0] != tag {
				return false
			}
		}
		return true
	}, 10*time.Minute, 10*time.Millisecond)
}

// awaitFiles waits until all tasks have rendered theirs, and returns their paths.
func awaitFiles(b *testing.B, a *agenttest.Agent, count int) (files []string) {
	b.Helper()
	require.Eventually(b, func() bool {
		var err error
		files, err = filepath.Glob(filepath.Join(a.Data, "alloc", "*", "task", "local", "x"))
		require.NoError(b, err)
		return len(files) == count
	}, 10*time.Minute, 100*time.Millisecond)
	return files
}

// awaitWord waits until all files have a word, and returns how long each took, sorted.
func awaitWord(b *testing.B, files []string, word string) (spans []time.Duration) {
	b.Helper()
	start := time.Now()
	waiting := files
	require.Eventually(b, func() bool {
		var left []string
		for _, path := range waiting {
			if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), word) {
				left = append(left, path)
				continue
			}
			spans = append(spans, time.Since(start))
		}
		waiting = left
		return len(left) == 0
	}, 10*time.Minute, 20*time.Millisecond)
	return spans
}
