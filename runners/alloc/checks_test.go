package alloc_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

const checkedJob = `
job "j" {
  group "g" {
    network {
      port "http" {}
    }
    task "web" {
      driver = "mock"
      service {
        provider = "nomad"
        port     = "http"
        check {
          name     = "alive"
          type     = "http"
          path     = "/"
          interval = "1s"
          timeout  = "1h"
        }
      }
    }
  }
}`

// serve gives the allocation a port where a server outside of any bubble answers.
func serve(t *testing.T, answer http.HandlerFunc) structs.AllocatedPort {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	return structs.AllocatedPort{Label: "http", HostIP: host, Value: n}
}

func (f *fixture) check() structs.CheckResult {
	f.t.Helper()
	for _, c := range f.r.CheckResults() {
		return c
	}
	f.t.Fatal("no check")
	return structs.CheckResult{}
}

func TestAStopEndsACheckThatWaitsForAnAnswer(t *testing.T) {
	asked, over := make(chan struct{}, 1), make(chan struct{})
	port := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})
	defer close(over)
	for name, stop := range map[string]func(*fixture){
		"stop":     func(f *fixture) { f.stop(); <-f.r.WaitCh() },
		"shutdown": func(f *fixture) { f.r.Shutdown(); <-f.r.ShutdownCh() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, checkedJob)
				f.alloc.Resources.Ports = append(f.alloc.Resources.Ports, port)
				f.start()
				<-asked
				stop(f)
				require.Equal(t, structs.CheckPending, f.check().Status)
				f.finish()
			})
		})
	}
}

func TestAnUpdateReplacesTheChecks(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
		}
	})
	bubble(t, func(t *testing.T) {
		f := newFixture(t, checkedJob)
		f.alloc.Resources.Ports = append(f.alloc.Resources.Ports, port)
		f.start()
		time.Sleep(1500 * time.Millisecond)
		before := f.check()
		require.Equal(t, structs.CheckSuccess, before.Status)
		f.change(func(a *structs.Allocation) { a.Job = checked(a.Job, "/") })
		synctest.Wait()
		require.Equal(t, before, f.check(), "the same check goes on")
		f.change(func(a *structs.Allocation) { a.Job = checked(a.Job, "/missing") })
		time.Sleep(1500 * time.Millisecond)
		after := f.check()
		require.NotEqual(t, before.ID, after.ID)
		require.Equal(t, structs.CheckFailure, after.Status)
		require.Equal(t, 404, after.StatusCode)
		f.restartAgent()
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, structs.CheckFailure, f.check().Status, "and goes on after an agent restart")
		f.finish()
	})
}

// checked is the job with another path in its check.
func checked(job *nomad.Job, path string) *nomad.Job {
	next, group, task := *job, *job.TaskGroups[0], *job.TaskGroups[0].Tasks[0]
	service := *task.Services[0]
	service.Checks = append([]nomad.ServiceCheck{}, service.Checks...)
	service.Checks[0].Path = path
	task.Services = []*nomad.Service{&service}
	group.Tasks = []*nomad.Task{&task}
	next.TaskGroups = []*nomad.TaskGroup{&group}
	return &next
}

// A check of a group that names no task is of all: it restarts those that run.
func TestAGroupsCheckRestartsAllItsTasks(t *testing.T) {
	port := serve(t, http.NotFound)
	bubble(t, func(t *testing.T) {
		f := newFixture(t, `
job "j" {
  group "g" {
    network {
      port "http" {}
    }
    service {
      provider = "nomad"
      port     = "http"
      check {
        name     = "alive"
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "1h"
        check_restart { limit = 3 }
      }
    }
    task "web" { driver = "mock" }
    task "db" { driver = "mock" }
    task "init" {
      driver = "mock"
      lifecycle { hook = "prestart" }
      config { run_for = "1s" }
    }
  }
}`)
		f.alloc.Resources.Ports = append(f.alloc.Resources.Ports, port)
		f.start()
		time.Sleep(10 * time.Second)
		for name, restarted := range map[string]bool{"web": true, "db": true, "init": false} {
			types := ""
			for _, e := range f.r.AllocState().TaskStates[name].Events {
				types += e.Type + ";"
			}
			require.Equal(t, restarted, strings.Contains(types, structs.EventRestartSignaled), "%s: %s", name, types)
		}
		f.finish()
	})
}
