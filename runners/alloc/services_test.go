package alloc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/structs"
)

const servingJob = `
job "j" {
  group "g" {
    network {
      port "http" {}
    }
    service {
      name     = "front"
      provider = "nomad"
      port     = "http"
    }
    task "web" {
      driver = "mock"
      kill_timeout = "1s"
      service {
        name        = "api"
        provider    = "nomad"
        port        = "http"
        tags        = ["live"]
        canary_tags = ["canary"]
      }
    }
  }
}`

// registry is where services are registered. It notes each change, with the time since the
// test's begin and whether the task runs.
type registry struct {
	f     *fixture
	begun time.Time
	lost  bool // nothing is deregistered in time

	mu   sync.Mutex
	have map[structs.ServiceOwner][]*structs.ServiceRegistration
	log  []string
}

func (r *registry) Register(owner structs.ServiceOwner, services []*structs.ServiceRegistration) {
	r.set(owner, services)
}

func (r *registry) Deregister(ctx context.Context, owner structs.ServiceOwner) error {
	if r.lost {
		<-ctx.Done()
		return ctx.Err()
	}
	r.set(owner, nil)
	return nil
}

func (r *registry) set(owner structs.ServiceOwner, services []*structs.ServiceRegistration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(services) == 0 && len(r.have[owner]) == 0 {
		return
	}
	r.have[owner] = services
	what := fmt.Sprintf("%s %s:", time.Since(r.begun), owner.Workload)
	for _, s := range services {
		what += fmt.Sprintf(" %s %s:%d %v", s.ServiceName, s.Address, s.Port, s.Tags)
	}
	r.log = append(r.log, fmt.Sprintf("%s, running %v", what, r.f.world.Running()))
}

func (r *registry) changes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

func serving(t *testing.T, hcl string) (*fixture, *registry) {
	f := newFixture(t, hcl)
	f.alloc.Resources.Ports = []structs.AllocatedPort{{Label: "http", HostIP: "10.0.0.5", Value: 20000}}
	r := &registry{f: f, begun: time.Now(), have: map[structs.ServiceOwner][]*structs.ServiceRegistration{}}
	f.services = r
	return f, r
}

func TestServicesAreRegisteredWhileTheirTasksRun(t *testing.T) {
	begun := []string{
		"0s group-g: front 10.0.0.5:20000 [], running []",
		"0s web: api 10.0.0.5:20000 [live], running [web]",
	}
	ends := func(at string) []string {
		return []string{at + " group-g:, running [web]", at + " web:, running [web]"}
	}
	for name, c := range map[string]struct {
		change func(*nomad.TaskGroup)
		do     func(f *fixture)
		then   []string
	}{
		"a stop": {do: func(f *fixture) { time.Sleep(time.Minute); f.stop() }, then: ends("1m0s")},
		"a stop with the group's shutdown delay": {
			change: func(g *nomad.TaskGroup) { g.ShutdownDelay = new(5 * time.Second) },
			do:     func(f *fixture) { time.Sleep(time.Minute); f.stop() },
			then:   []string{"1m0s group-g:, running [web]", "1m5s web:, running [web]"},
		},
		"an update in place": {
			do: func(f *fixture) {
				time.Sleep(time.Minute)
				f.change(func(a *structs.Allocation) { a.DeploymentStatus = &structs.DeploymentStatus{Canary: true} })
				time.Sleep(time.Minute)
				f.stop()
			},
			then: append([]string{
				"1m0s group-g: front 10.0.0.5:20000 [], running [web]", "1m0s web: api 10.0.0.5:20000 [canary], running [web]",
			}, ends("2m0s")...),
		},
		"a restart of the agent": {
			do: func(f *fixture) {
				time.Sleep(time.Minute)
				f.restartAgent()
				time.Sleep(time.Minute)
				f.stop()
			},
			then: append([]string{
				"1m0s group-g: front 10.0.0.5:20000 [], running [web]", "1m0s web: api 10.0.0.5:20000 [live], running [web]",
			}, ends("2m0s")...),
		},
		"a restart": {
			do: func(f *fixture) {
				time.Sleep(time.Minute)
				require.NoError(f.t, f.r.RestartTask("web", "asked for"))
				time.Sleep(time.Minute)
				f.stop()
			},
			then: append([]string{"1m0s web:, running [web]", "1m0s web: api 10.0.0.5:20000 [live], running [web]"}, ends("2m0s")...),
		},
		"a failure, and the wait for the restart": {
			change: func(g *nomad.TaskGroup) {
				g.Tasks[0].RestartPolicy = &nomad.RestartPolicy{Attempts: new(1), Interval: new(time.Hour), Delay: new(15 * time.Second), Mode: new("fail")}
			},
			do: func(f *fixture) {
				time.Sleep(time.Minute)
				require.True(f.t, f.world.Exit("web", structs.ExitResult{ExitCode: 1}))
				time.Sleep(time.Minute)
				f.stop()
			},
			then: append([]string{"1m0s web:, running []", "1m15s web: api 10.0.0.5:20000 [live], running [web]"}, ends("2m0s")...),
		},
		"a failure for good": {
			change: func(g *nomad.TaskGroup) {
				g.Tasks[0].RestartPolicy = &nomad.RestartPolicy{Attempts: new(0), Interval: new(time.Hour), Delay: new(time.Second), Mode: new("fail")}
			},
			do: func(f *fixture) {
				time.Sleep(time.Minute)
				require.True(f.t, f.world.Exit("web", structs.ExitResult{ExitCode: 1}))
			},
			then: []string{"1m0s web:, running []", "1m0s group-g:, running []"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, r := serving(t, servingJob)
				if c.change != nil {
					c.change(f.group())
				}
				f.start()
				synctest.Wait()
				c.do(f)
				<-f.r.WaitCh()
				require.Equal(t, append(slices.Clone(begun), c.then...), r.changes())
				f.finish()
			})
		})
	}
}

func TestATaskRunsOnForItsShutdownDelayWithoutItsServices(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, r := serving(t, servingJob)
		f.group().Tasks[0].ShutdownDelay = 7 * time.Second
		f.start()
		time.Sleep(time.Minute)
		f.stop()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"web"}, f.world.Running())
		require.Equal(t, "1m0s web:, running [web]", r.changes()[len(r.changes())-1])
		<-f.r.WaitCh()
		require.Equal(t, 67*time.Second, time.Since(r.begun))
		f.finish()
	})
}

// TestAKillDoesNotWaitForEverForTheRegistry has what cannot be deregistered end all the same.
func TestAKillDoesNotWaitForEverForTheRegistry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, r := serving(t, servingJob)
		r.lost = true
		f.start()
		time.Sleep(time.Minute)
		f.stop()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.NotContains(t, strings.Join(f.events("web"), "\n"), "Killing", "it is waited for the group's services")
		<-f.r.WaitCh()
		require.Empty(t, f.world.Running())
		f.finish()
	})
}

func TestAServiceWithoutAnAddressIsAFault(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, r := serving(t, servingJob)
		f.group().Tasks[0].Services[0].AddressMode = "driver"
		f.start()
		time.Sleep(time.Second)
		require.Contains(t, strings.Join(f.events("web"), "\n"), `services: unable to get address for service "api": cannot use address_mode="driver": no driver network exists`)
		require.Len(t, r.changes(), 1, "the group's")
		f.stop()
		<-f.r.WaitCh()
		f.finish()
	})
	bubble(t, func(t *testing.T) {
		f, r := serving(t, servingJob)
		f.group().Services[0].AddressMode = "alloc"
		f.start()
		<-f.r.WaitCh()
		require.Contains(t, strings.Join(f.events("web"), "\n"), `pre-run hook "group_services" failed: unable to get address for service "front"`)
		require.Empty(t, r.changes())
		f.finish()
	})
}

// What cannot be registered anywhere fails what it is a service of, and is sent to nobody.
func TestAServiceThatNoneCanHaveIsAFault(t *testing.T) {
	for name, put := range map[string]func(s *nomad.Service){
		"Service name must be valid per RFC 1123":   func(s *nomad.Service) { s.Name = "api-${NOMAD_META_long}" },
		"have more than 16384 bytes with what":      func(s *nomad.Service) { s.Tags = []string{"${NOMAD_META_longer}"} },
		"it has 257 tags, at most 256 are possible": func(s *nomad.Service) { s.Tags = make([]string, 257) },
	} {
		t.Run(name, func(t *testing.T) {
			begin := func(t *testing.T, put func(f *fixture)) *registry {
				f, r := serving(t, servingJob)
				f.alloc.Job.Meta = map[string]string{"long": strings.Repeat("a", 100), "longer": strings.Repeat("a", 40_000)}
				put(f)
				f.start()
				<-f.r.WaitCh()
				require.Equal(t, structs.ClientFailed, f.r.AllocState().ClientStatus)
				require.Contains(t, strings.Join(f.events("web"), "\n"), name)
				require.Empty(t, f.world.Running())
				f.finish()
				return r
			}
			bubble(t, func(t *testing.T) {
				r := begin(t, func(f *fixture) { put(f.group().Tasks[0].Services[0]) })
				require.Equal(t, []string{"0s group-g: front 10.0.0.5:20000 [], running []", "0s group-g:, running []"}, r.changes())
			})
			bubble(t, func(t *testing.T) {
				r := begin(t, func(f *fixture) { put(f.group().Services[0]) })
				require.Empty(t, r.changes())
			})
		})
	}
}

func TestATasksServiceHasTheAddressThatItsDriverGave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := serving(t, servingJob)
		f.group().Tasks[0].Config = map[string]any{"ip": "172.17.0.2"}
		f.group().Tasks[0].Services[0].AddressMode = "driver"
		f.group().Tasks[0].Services[0].PortLabel = "8080"
		f.start()
		synctest.Wait()
		require.Contains(t, strings.Join(r.changes(), "\n"), "web: api 172.17.0.2:8080 [live]")
		f.stop()
		<-f.r.WaitCh()
		f.finish()
	})
}

var _ alloc.Services = (*registry)(nil)
