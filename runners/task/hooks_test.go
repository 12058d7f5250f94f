package task_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

// hookLog is what hooks wrote, in order.
type hookLog struct {
	mu    sync.Mutex
	lines []string
}

func (d *hookLog) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// read returns what was written since the last time.
func (d *hookLog) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

// writingHook is every kind of hook; it writes that it was called.
type writingHook struct {
	name string
	d    *hookLog
	err  error // of all but Prestart
}

func (h writingHook) Name() string { return h.name }
func (h writingHook) Prestart(_ context.Context, req *task.PrestartRequest) (*task.PrestartResult, error) {
	h.d.write("%s prestart %s", h.name, req.Previous["runs"])
	return &task.PrestartResult{Data: map[string]string{"runs": req.Previous["runs"] + "+"}}, nil
}
func (h writingHook) Poststart(_ context.Context, req *task.PoststartRequest) error {
	port, _ := req.Env().Get("NOMAD_PORT_http")
	h.d.write("%s poststart %s", h.name, port)
	return h.err
}
func (h writingHook) PreKill(context.Context) error { h.d.write("%s prekill", h.name); return h.err }
func (h writingHook) Exited(context.Context) error  { h.d.write("%s exited", h.name); return h.err }
func (h writingHook) Stop(context.Context) error    { h.d.write("%s stop", h.name); return h.err }
func (h writingHook) Shutdown()                     { h.d.write("%s shutdown", h.name) }
func (h writingHook) Update(_ context.Context, _ *structs.Allocation, t *nomad.Task) error {
	h.d.write("%s update %s", h.name, t.Env["V"])
	return h.err
}

func TestTaskHooksRunInTheOrderOfTheLifecycle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		d := &hookLog{}
		f.cfg.Hooks = []task.Hook{writingHook{"a", d, nil}, writingHook{"b", d, nil}}
		f.start()
		synctest.Wait()
		require.Equal(t, []string{"a prestart ", "b prestart ", "a poststart ", "b poststart "}, d.read())
		require.NoError(t, f.r.Restart(task.RestartRequest{}))
		synctest.Wait()
		require.Equal(t, []string{
			"a prekill", "b prekill", "a exited", "b exited",
			"a prestart +", "b prestart +", "a poststart ", "b poststart ",
		}, d.read())
		f.r.Update(f.alloc.Copy())
		synctest.Wait()
		require.Equal(t, []string{"a update ", "b update "}, d.read())
		f.restartAgent()
		synctest.Wait()
		require.Equal(t, []string{"a shutdown", "b shutdown", "a poststart ", "b poststart "}, d.read())
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Equal(t, []string{"a prekill", "b prekill", "a exited", "b exited", "a stop", "b stop"}, d.read())
		f.finish()
	})
}

func TestAHookThatFailsAfterTheStartIsReportedAndStopsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		d := &hookLog{}
		f.cfg.Hooks = []task.Hook{writingHook{"a", d, errors.New("no")}, writingHook{"b", d, nil}}
		f.start()
		synctest.Wait()
		f.r.Update(f.alloc.Copy())
		synctest.Wait()
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Equal(t, []string{
			"a prestart ", "b prestart ", "a poststart ", "b poststart ", "a update ", "b update ",
			"a prekill", "b prekill", "a exited", "b exited", "a stop", "b stop",
		}, d.read())
		failed := 0
		for _, e := range f.events() {
			if e == "Task hook failed: a: no" {
				failed++
			}
		}
		require.Equal(t, 5, failed)
		require.False(t, f.r.State().Failed)
		f.finish()
	})
}

func TestStopHooksRunThoughNoOtherHookDid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		d := &hookLog{}
		f.cfg.Hooks = []task.Hook{writingHook{"a", d, nil}}
		r := f.build()
		r.Kill(nil)
		r.Run()
		require.Equal(t, []string{"a stop"}, d.read())
		f.finish()
	})
}

func TestTheDriversAddressIsKnownAfterTheStartAndToTheNextAgent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"ip": "172.17.0.2"})
		f.alloc.Resources.Ports = []structs.AllocatedPort{{Label: "http", HostIP: "10.0.0.1", Value: 25000}}
		d := &hookLog{}
		f.cfg.Hooks = []task.Hook{writingHook{"a", d, nil}}
		f.start()
		synctest.Wait()
		require.Equal(t, []string{"a prestart ", "a poststart 8080"}, d.read())
		f.restartAgent()
		synctest.Wait()
		require.Equal(t, []string{"a shutdown", "a poststart 8080"}, d.read())
		f.finish()
	})
}

func TestAKillAtAnyMomentEndsTheTask(t *testing.T) {
	for name, c := range map[string]struct {
		config  map[string]any
		prepare func(*fixture)
		after   time.Duration
		// meanwhile happens a second after the start.
		meanwhile func(*task.Runner)
	}{
		"its gate is closed":        {nil, func(f *fixture) { f.cfg.Gate = func() <-chan struct{} { return nil } }, 0, nil},
		"a hook prepares it":        {nil, func(f *fixture) { f.cfg.Hooks = []task.Hook{blockingHook{}} }, 0, nil},
		"its driver is missing":     {nil, func(f *fixture) { f.world.Missing(errUnavailable) }, time.Second, nil},
		"its driver starts it":      {map[string]any{"start_for": "1m"}, nil, time.Second, nil},
		"it runs":                   {nil, nil, time.Second, nil},
		"it waits for its restart":  {map[string]any{"run_for": "1s", "exit_code": 1}, nil, 5 * time.Second, nil},
		"it has ended":              {map[string]any{"run_for": "1s"}, nil, 5 * time.Second, nil},
		"it has failed":             {map[string]any{"start_error": "no"}, nil, time.Second, nil},
		"it is being killed":        {map[string]any{"kill_after": "3s"}, nil, 2 * time.Second, func(r *task.Runner) { r.Kill(nil) }},
		"it is being restarted":     {map[string]any{"kill_after": "3s"}, nil, 2 * time.Second, func(r *task.Runner) { _ = r.Restart(task.RestartRequest{}) }},
		"it is in a shutdown delay": {nil, func(f *fixture) { f.task.ShutdownDelay = 10 * time.Second }, 2 * time.Second, func(r *task.Runner) { r.Kill(nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, c.config)
				if c.prepare != nil {
					c.prepare(f)
				}
				r := f.start()
				if c.meanwhile != nil {
					time.AfterFunc(time.Second, func() { c.meanwhile(r) })
				}
				time.Sleep(c.after)
				at := time.Now()
				f.r.Kill(nil)
				f.r.Kill(nil)
				<-f.r.WaitCh()
				require.LessOrEqual(t, time.Since(at), 10*time.Second)
				require.Equal(t, structs.TaskDead, f.r.State().State)
				events := f.events()
				count := map[string]int{}
				for _, e := range events {
					count[e]++
				}
				if last := events[len(events)-1]; count[killing] > 0 {
					require.Equal(t, killed, last)
					require.Equal(t, 1, count[killing], "a kill is announced once")
				} else {
					require.NotContains(t, last, "Kill", "what was dead has no event of it")
				}
				f.finish()
			})
		})
	}
}
