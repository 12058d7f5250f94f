package agent_test

import (
	"context"
	"fmt"
	"net"
	"os"
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
// middle time from the write of what a task follows until that is in its file, and how much of a
// processor it takes to look at all of them when nothing changes, and while all do.
func BenchmarkTemplates(b *testing.B) {
	const count, things = 500, 100
	a := agenttest.Start(b, agenttest.Options{Drivers: []string{"mock"}, Kept: 10 * count})
	setWords(b, a, things, "zero", newWrites())
	runBackends(b, a, things, "zero", newWrites())
	followers := agenttest.Job("followers", "mock_driver", map[string]any{"run_for": "1h"})
	group := followers.TaskGroups[0]
	group.Count, group.Tasks[0].Resources.MemoryMB = new(count), new(10)
	group.Tasks[0].Templates = []*nomad.Template{{
		EmbeddedTmpl: new(fmt.Sprintf(`{{ $n := env "NOMAD_ALLOC_INDEX" | parseInt | modulo %d -}}
{{ with nomadVar (printf "nomad/jobs/followers/%%d" $n) }}{{ .word }}{{ end }} {{ range nomadService (printf "backend-%%d" $n) }}{{ .Tags | join "," }}{{ end }}`, things)),
		DestPath: new("local/x"), ChangeMode: new("noop"),
	}}
	_, _, err := a.Client.Jobs().Register(followers, nil)
	require.NoError(b, err)
	files := awaitFiles(b, a, count, things)
	b.Run("nothing-changes", func(b *testing.B) {
		cpu := processor()
		for b.Loop() {
			time.Sleep(5 * time.Second)
		}
		b.ReportMetric(100*(processor()-cpu).Seconds()/b.Elapsed().Seconds(), "%-of-a-processor")
	})
	changes := 0
	for name, change := range map[string]func(word string, w *writes){
		"variables": func(word string, w *writes) { setWords(b, a, things, word, w) },
		"services":  func(word string, w *writes) { runBackends(b, a, things, word, w) },
	} {
		b.Run(name, func(b *testing.B) {
			var spans []time.Duration
			cpu := processor()
			for b.Loop() {
				changes++
				word, w := fmt.Sprintf("%s-%d", name, changes), newWrites()
				var changed sync.WaitGroup
				changed.Go(func() { change(word, w) })
				seen := awaitWord(b, files, word)
				changed.Wait()
				spans = w.until(b, seen)
			}
			b.ReportMetric(milliseconds(spans[len(spans)-1]), "ms-last-seen")
			b.ReportMetric(milliseconds(spans[len(spans)*99/100]), "ms-p99-seen")
			b.ReportMetric(milliseconds(spans[len(spans)/2]), "ms-p50-seen")
			b.ReportMetric((processor()-cpu).Seconds()/float64(b.N), "s-cpu/change")
		})
	}
}

// writes are when what is followed was written, by its number.
type writes struct {
	mu sync.Mutex
	at map[int]time.Time
}

func newWrites() *writes { return &writes{at: map[int]time.Time{}} }

func (w *writes) note(i int, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.at[i]; !known {
		w.at[i] = at
	}
}

func (w *writes) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.at)
}

// until returns how long after the write of what it follows each file was seen to have it, sorted.
func (w *writes) until(b *testing.B, seen map[followed]time.Time) (spans []time.Duration) {
	b.Helper()
	for file, at := range seen {
		written, known := w.at[file.follows]
		require.True(b, known)
		spans = append(spans, max(0, at.Sub(written)))
	}
	slices.Sort(spans)
	return spans
}

// setWords writes variables, whose writes begin when they are asked for.
func setWords(b *testing.B, a *agenttest.Agent, count int, word string, w *writes) {
	b.Helper()
	for i := range count {
		w.note(i, time.Now())
		_, _, err := a.Client.Variables().Update(&nomad.Variable{Path: fmt.Sprint("nomad/jobs/followers/", i), Items: nomad.VariableItems{"word": word}}, nil)
		if err != nil {
			b.Error(err)
			return
		}
	}
}

// runBackends registers so many services with a tag. One is written when the stream of events has it.
func runBackends(b *testing.B, a *agenttest.Agent, count int, tag string, w *writes) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	events, err := a.Client.EventStream().Stream(ctx, map[nomad.Topic][]string{nomad.TopicService: {"*"}}, 0, nil)
	if err != nil {
		b.Error(err)
		return
	}
	job := agenttest.Job("backends", "mock_driver", map[string]any{"run_for": "1h"})
	job.TaskGroups[0].Count, job.TaskGroups[0].Tasks[0].Resources.MemoryMB = &count, new(10)
	job.TaskGroups[0].Services = []*nomad.Service{{Name: "backend-${NOMAD_ALLOC_INDEX}", Provider: "nomad", Tags: []string{tag}}}
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		b.Error(err)
		return
	}
	for w.len() < count {
		some, open := <-events
		if !open || some.Err != nil {
			b.Errorf("the stream of events has ended: %v", some)
			return
		}
		for i := range some.Events {
			s, err := some.Events[i].Service()
			number, is := 0, false
			if err == nil && s != nil && slices.Contains(s.Tags, tag) {
				number, err = strconv.Atoi(strings.TrimPrefix(s.ServiceName, "backend-"))
				is = err == nil
			}
			if is {
				w.note(number, time.Now())
			}
		}
	}
}

// followed is a task's file, and the number of what it follows.
type followed struct {
	path    string
	follows int
}

// awaitFiles waits until all tasks have rendered theirs, and returns them.
func awaitFiles(b *testing.B, a *agenttest.Agent, count, things int) (files []followed) {
	b.Helper()
	require.Eventually(b, func() bool {
		paths, err := filepath.Glob(filepath.Join(a.Data, "alloc", "*", "task", "local", "x"))
		require.NoError(b, err)
		return len(paths) == count
	}, 10*time.Minute, 100*time.Millisecond)
	allocs, _, err := a.Client.Jobs().Allocations("followers", false, nil)
	require.NoError(b, err)
	for _, alloc := range allocs {
		var index int
		_, err := fmt.Sscanf(alloc.Name, "followers.group[%d]", &index)
		require.NoError(b, err)
		files = append(files, followed{filepath.Join(a.Data, "alloc", alloc.ID, "task", "local", "x"), index % things})
	}
	require.Len(b, files, count)
	return files
}

// awaitWord waits until all files have a word, and returns when each was seen to have it.
func awaitWord(b *testing.B, files []followed, word string) map[followed]time.Time {
	b.Helper()
	seen := map[followed]time.Time{}
	require.Eventually(b, func() bool {
		for _, file := range files {
			if !seen[file].IsZero() {
				continue
			}
			if text, err := os.ReadFile(file.path); err == nil && strings.Contains(string(text), word) {
				seen[file] = time.Now()
			}
		}
		return len(seen) == len(files)
	}, 10*time.Minute, 10*time.Millisecond)
	return seen
}
