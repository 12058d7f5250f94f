package task_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// from is a template of a file in the allocation's shared directory.
func from(name, dest, change string) *nomad.Template {
	t := &nomad.Template{SourcePath: ptr("alloc/data/" + name), DestPath: &dest, ChangeMode: &change, Splay: ptr(time.Duration(0))}
	t.Canonicalize()
	return t
}

func inline(data, dest string) *nomad.Template {
	t := &nomad.Template{EmbeddedTmpl: &data, DestPath: &dest}
	t.Canonicalize()
	return t
}

// env is the environment that the running task was started with.
func (f *fixture) env() map[string]string {
	f.t.Helper()
	local, _, err := f.db.Task("a1", "web")
	require.NoError(f.t, err)
	var cfg wasmnodev1.TaskConfig
	require.NoError(f.t, cfg.UnmarshalVT(local.Config))
	return cfg.GetEnv()
}

// put writes a file of the shared directory's.
func (f *fixture) put(name, content string) {
	f.t.Helper()
	path := filepath.Join(f.dir.Data(), name)
	require.NoError(f.t, os.WriteFile(path+".new", []byte(content), 0o644))
	require.NoError(f.t, os.Rename(path+".new", path))
}

const rerendered = "Restart Signaled: Template with change_mode restart re-rendered"

// settle passes the time in which a change is seen and acted on.
func settle() { time.Sleep(3 * time.Second); synctest.Wait() }

func TestTemplatesAreRenderedBeforeTheTaskStarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.put("web.tpl", `port {{ env "PORT" }}`)
		f.task.Env = map[string]string{"PORT": "80", "WHO": "task"}
		vars := inline("WHO=template\nPORT2={{ env \"PORT\" }}{{ env \"PORT2\" }}", "secrets/vars")
		vars.Envvars = ptr(true)
		f.task.Templates = []*nomad.Template{vars, from("web.tpl", "${NOMAD_TASK_DIR}/web.conf", "restart")}
		f.start()
		synctest.Wait()
		require.Equal(t, []string{received, setup, begun}, f.events())
		require.Equal(t, "port 80", f.read("web/local/web.conf"))
		env := f.env()
		require.Equal(t, "template", env["WHO"], "templates win")
		require.Equal(t, "80", env["PORT2"])
		f.restartAgent()
		settle()
		require.NoError(t, f.r.Restart(task.RestartRequest{}))
		settle()
		require.Equal(t, "80", f.env()["PORT2"], "a template does not see what templates add")
		require.NotContains(t, f.events(), rerendered)
		f.finish()
	})
}

func TestATemplateThatChanges(t *testing.T) {
	for _, c := range []struct {
		change string
		events []string
		log    string
	}{
		{change: "noop"},
		{change: "restart", events: []string{rerendered, exit0, "Restarting: Task restarting in 0s", begun}},
		{change: "signal", events: []string{"Signaling: Task being sent signal SIGHUP: Template re-rendered"}, log: "signal web SIGHUP"},
	} {
		bubble(t, func(t *testing.T) {
			f := newFixture(t, nil).service()
			f.put("a", "one")
			f.task.Templates = []*nomad.Template{from("a", "local/out", c.change)}
			f.start()
			settle()
			before := f.events()
			f.put("a", "two")
			settle()
			require.Equal(t, "two", f.read("web/local/out"))
			require.Equal(t, append(before, c.events...), f.events())
			require.Equal(t, c.log != "", strings.Contains(strings.Join(f.world.Log(), "\n"), "signal web SIGHUP"))
			f.put("a", "two") // another file, with the same content
			settle()
			require.Equal(t, append(before, c.events...), f.events())
			f.finish()
		})
	}
}

// A template that waits is rendered when what it depends on has been quiet for min, and at the
// latest max after the first change.
func TestATemplateWaitsForQuiet(t *testing.T) {
	cases := map[string]struct {
		min, max       *time.Duration
		every, changes time.Duration // how often the file changes, and for how long
		from, to       time.Duration // when it is rendered
	}{
		"once":     {ptr(10 * time.Second), ptr(time.Minute), time.Minute, time.Second, 10 * time.Second, 12 * time.Second},
		"often":    {ptr(10 * time.Second), ptr(time.Minute), 5 * time.Second, 20 * time.Second, 25 * time.Second, 27 * time.Second},
		"always":   {ptr(10 * time.Second), ptr(time.Minute), 5 * time.Second, time.Hour, 60 * time.Second, 62 * time.Second},
		"no-max":   {ptr(10 * time.Second), nil, 5 * time.Second, time.Hour, 40 * time.Second, 42 * time.Second},
		"max-only": {nil, ptr(time.Minute), 500 * time.Millisecond, time.Hour, 60 * time.Second, 62 * time.Second},
	}
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil).service()
		for name, c := range cases {
			f.put(name, "first")
			tmpl := from(name, "local/"+name, "noop")
			tmpl.Wait = &nomad.WaitConfig{Min: c.min, Max: c.max}
			f.task.Templates = append(f.task.Templates, tmpl)
		}
		f.start()
		synctest.Wait()
		rendered := map[string]time.Duration{}
		for name := range cases {
			require.Equal(t, "first", f.read("web/local/"+name), "the first time it does not wait")
		}
		begun := time.Now()
		for len(rendered) < len(cases) && time.Since(begun) < 2*time.Minute {
			now := time.Since(begun)
			for name, c := range cases {
				if now < c.changes && now%c.every == 0 {
					f.put(name, now.String())
				}
				if rendered[name] == 0 && f.read("web/local/"+name) != "first" {
					rendered[name] = now
				}
			}
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
		}
		for name, c := range cases {
			require.GreaterOrEqual(t, rendered[name], c.from, name)
			require.LessOrEqual(t, rendered[name], c.to, name)
		}
		f.finish()
	})
}

func TestChangesOfSeveralTemplatesAreOneRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil).service()
		f.put("a", "one")
		once := from("a", "local/once", "restart")
		once.Once = ptr(true)
		f.task.Templates = []*nomad.Template{
			from("a", "local/1", "signal"), from("a", "local/2", "restart"), from("a", "local/3", "restart"), once,
			inline(`{{ file "alloc/data/a" }}`, "local/4"),
		}
		f.task.Templates[4].Splay = ptr(time.Minute)
		f.start()
		settle()
		f.put("a", "two")
		time.Sleep(time.Second)
		f.put("a", "three") // somebody is still writing
		time.Sleep(70 * time.Second)
		synctest.Wait()
		require.Equal(t, 2, f.world.Started("web"))
		for _, name := range []string{"1", "2", "3", "4", "once"} {
			require.Equal(t, "three", f.read("web/local/"+name))
		}
		require.NotContains(t, strings.Join(f.world.Log(), "\n"), "signal web")
		f.finish()
	})
}

func TestAFileThatGoesOnChangingIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil).service()
		f.put("a", "0")
		f.task.Templates = []*nomad.Template{from("a", "local/out", "restart")}
		f.start()
		for n := range 5 {
			time.Sleep(time.Second)
			synctest.Wait()
			f.put("a", strconv.Itoa(n+1))
		}
		require.Equal(t, []string{received, setup, begun}, f.events())
		settle()
		require.Equal(t, "5", f.read("web/local/out"))
		require.Equal(t, 2, f.world.Started("web"))
		f.finish()
	})
}

func TestATemplateThatRendersOnceIsNotWatched(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil).service()
		f.put("a", "one")
		once := from("a", "local/once", "restart")
		once.Once = ptr(true)
		f.task.Templates = []*nomad.Template{once, inline("{{ timestamp }}", "local/now")}
		f.start()
		settle()
		f.put("a", "two")
		f.restartAgent()
		settle()
		require.Equal(t, "one", f.read("web/local/once"))
		require.Equal(t, 1, f.world.Started("web"))
		f.finish()
	})
}

func TestAChangeWhileTheAgentWasAwayIsSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil).service()
		f.cfg.Hooks = []task.Hook{&deviceHook{}}
		f.put("a", `one {{ env "GPU" }}`)
		f.task.Templates = []*nomad.Template{from("a", "local/out", "signal")}
		f.start()
		settle()
		f.r.Shutdown()
		<-f.r.WaitCh()
		f.put("a", `one {{ env "GPU" }}`) // another file, with the same content
		r := f.build()
		require.NoError(t, r.Restore())
		go r.Run()
		settle()
		require.Equal(t, []string{received, setup, begun}, f.events())
		f.r.Shutdown()
		<-f.r.WaitCh()
		f.put("a", `two {{ env "GPU" }}`)
		r = f.build()
		require.NoError(t, r.Restore())
		go r.Run()
		settle()
		require.Equal(t, "two 0", f.read("web/local/out"))
		require.Contains(t, f.events(), "Signaling: Task being sent signal SIGHUP: Template re-rendered")
		f.finish()
	})
}

// TestATaskIsToldOfWhatAnAgentRenderedThatDied has the next agent do what the change mode asks for,
// once, and not again.
func TestATaskIsToldOfWhatAnAgentRenderedThatDied(t *testing.T) {
	for mode, told := range map[string]string{
		"signal": "Signaling: Task being sent signal SIGHUP: Template re-rendered",
		"script": "Task hook message: Template successfully ran script reload with arguments: []. Exit code: 0",
	} {
		bubble(t, func(t *testing.T) {
			f := scripted(t, exits(0, "1ms"), &nomad.ChangeScript{Command: ptr("reload")})
			f.task.Templates[0].ChangeMode = ptr(mode)
			if mode != "script" {
				f.task.Templates[0].ChangeScript = nil
			}
			f.start()
			settle()
			again := func(before func()) (times int) {
				f.r.Shutdown()
				<-f.r.WaitCh()
				before()
				f.restartAgent()
				settle()
				return strings.Count(strings.Join(f.events(), "\n"), told)
			}
			out := filepath.Join(f.dir.Path(), "web/local/out")
			rendered := func(content string) func() { // as an agent left it that died before it told
				return func() {
					f.put("a", content)
					require.NoError(t, os.WriteFile(out, []byte(content), 0o644))
				}
			}
			require.Equal(t, 0, again(func() {}), mode)
			require.Equal(t, 1, again(rendered("two")), mode)
			require.Equal(t, 1, again(func() {}), mode)
			f.put("a", "three")
			settle()
			require.Equal(t, 2, again(func() {}), "%s: it was told by the agent that rendered", mode)
			require.Equal(t, 3, again(rendered("four")), mode)
			require.Equal(t, 1, f.world.Started("web"))
			f.finish()
		})
	}
}

func TestATaskIsRestartedForWhatAnAgentRenderedThatDied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil).service()
		f.put("a", "one")
		f.task.Templates = []*nomad.Template{from("a", "local/out", "restart")}
		f.start()
		settle()
		f.r.Shutdown()
		<-f.r.WaitCh()
		f.put("a", "two")
		out := filepath.Join(f.dir.Path(), "web/local/out")
		require.NoError(t, os.WriteFile(out, []byte("two"), 0o644)) // as the agent left it
		r := f.build()
		require.NoError(t, r.Restore())
		go r.Run()
		settle()
		require.Contains(t, f.events(), rerendered)
		before := f.world.Started("web")

		// That was for all that there is now.
		r.Shutdown()
		<-r.WaitCh()
		require.NoError(t, os.WriteFile(out, []byte("the task's own"), 0o644))
		r = f.build()
		require.NoError(t, r.Restore())
		go r.Run()
		settle()
		require.Equal(t, before, f.world.Started("web"))
		f.finish()
	})
}

// It starts with the new files anyway, when it is its time.
func TestAChangeBetweenTwoRunsEndsNoDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"run_for": "1s", "exit_code": 1})
		f.put("a", "one")
		f.task.Templates = []*nomad.Template{from("a", "local/out", "restart")}
		f.start()
		time.Sleep(1500 * time.Millisecond)
		f.put("a", "two")
		settle()
		require.Equal(t, []string{received, setup, begun, exit1, "Restarting: Task restarting in 10s"}, f.events())
		f.finish()
	})
}

func TestAChangeIsActedOnAtARandomTimeOfItsSplay(t *testing.T) {
	for _, change := range []string{"restart", "signal"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil).service()
			f.put("a", "one")
			splayed := from("a", "local/out", change)
			splayed.Splay = ptr(1000 * time.Hour)
			f.task.Templates = []*nomad.Template{splayed}
			f.start()
			settle()
			f.put("a", "two")
			settle()
			require.Equal(t, "two", f.read("web/local/out"))
			require.Equal(t, []string{received, setup, begun}, f.events(), "not at once, but for one in a million times")
			f.finish()
		})
	}
}

func TestATemplateThatBreaksLaterLeavesTheTaskAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil).service()
		f.put("a", "one")
		f.task.Templates = []*nomad.Template{from("a", "local/out", "restart")}
		f.start()
		settle()
		f.put("a", "{{ nosuch }}")
		settle()
		f.put("a", "{{ nosuch }} ")
		settle()
		reported := `Task hook failed: template: "local/out": local/out:1: function "nosuch" not defined; the task keeps what was rendered before`
		require.Equal(t, []string{received, setup, begun, reported}, f.events(), "once")
		require.NoError(t, os.Remove(filepath.Join(f.dir.Data(), "a")))
		settle()
		require.Equal(t, []string{
			received, setup, begun, reported,
			`Task hook failed: template: "local/out": source: file "alloc/data/a": no such file or directory; the task keeps what was rendered before`,
		}, f.events())
		require.Equal(t, "one", f.read("web/local/out"))
		f.put("a", "two")
		settle()
		require.Contains(t, f.events(), rerendered)
		require.Equal(t, "two", f.read("web/local/out"))
		f.finish()
	})
}

func TestATemplateThatCannotBeRenderedFailsTheTask(t *testing.T) {
	gaveUp := `Not Restarting: Exceeded allowed attempts 1 in interval 1m0s and mode is "fail"`
	for name, c := range map[string]struct {
		template *nomad.Template
		want     string
		again    bool
	}{
		"bad template":   {inline("{{ if }}", "local/x"), `"local/x": local/x:1: missing value for if`, false},
		"Consul":         {inline(`{{ key "a" }}`, "local/x"), `"local/x": function "key" is not supported: it reads from Consul, which there is none of here`, false},
		"script":         {from("a", "local/x", "script"), `"local/x": change_script: it has to have a command when change_mode is "script"`, false},
		"escape":         {inline("x", "../../x"), `"../../x": destination: "../../x" is outside the task's directories`, false},
		"unknown signal": {&nomad.Template{EmbeddedTmpl: ptr("x"), DestPath: ptr("x"), ChangeMode: ptr("signal"), ChangeSignal: ptr("SIGNO")}, `"x": change_signal: unknown signal "SIGNO"`, false},
		"missing source": {from("a", "local/x", "restart"), `"local/x": source: file "alloc/data/a": no such file or directory`, true},
		"no directory":   {inline("x", "local/f/x"), `"local/x": `, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.task.Templates = []*nomad.Template{c.template}
				if name == "no directory" {
					require.NoError(t, os.MkdirAll(filepath.Join(f.dir.Path(), "web/local"), 0o755))
					require.NoError(t, os.WriteFile(filepath.Join(f.dir.Path(), "web/local/f"), nil, 0o600))
					c.want = `"local/f/x": file "local/f/x": make its directory: file exists`
				}
				f.start()
				f.untilDead()
				failed := "Task hook failed: template: " + c.want
				want := []string{received, setup, failed, "Not Restarting: Error was unrecoverable"}
				if c.again {
					want = []string{received, setup, failed, "Restarting: Task restarting in 10s", failed, gaveUp}
				}
				require.Equal(t, want, f.events())
				require.Zero(t, f.world.Started("web"))
				f.finish()
			})
		})
	}
}

func TestATaskThatCannotBeSignalledOfAChangeIsEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"signal_error": "no signals here"}).service()
		f.put("a", "one")
		f.task.Templates = []*nomad.Template{from("a", "local/out", "signal")}
		f.start()
		settle()
		f.put("a", "two")
		settle()
		require.Equal(t, structs.TaskDead, f.r.State().State)
		require.True(t, f.r.State().Failed)
		require.Contains(t, f.events(), "Killing: Template failed to send signals [SIGHUP]: no signals here")
		f.finish()
	})
}

func TestAKillEndsARendering(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.task.Templates = []*nomad.Template{inline("{{ range 1000000000000 }}{{ end }}", "local/out")}
		f.start()
		began := func(e *structs.TaskEvent) bool { return e.Type == structs.EventTaskSetup }
		for !slices.ContainsFunc(f.r.State().Events, began) {
			runtime.Gosched() // a rendering at work keeps the bubble's time from going on
		}
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Equal(t, []string{received, setup, killing, killed}, f.events())
		f.finish()
	})
}

// registered are the registrations of one service.
type registered struct {
	mu   sync.Mutex
	list []*structs.ServiceRegistration
}

func (r *registered) FindServices(_ context.Context, namespace, name string) ([]*structs.ServiceRegistration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if namespace != "default" || name != "api" {
		return nil, nil
	}
	return r.list, nil
}

// set registers the service at some addresses.
func (r *registered) set(index uint64, addresses ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = nil
	for _, a := range addresses {
		r.list = append(r.list, &structs.ServiceRegistration{ID: a, ServiceName: "api", Address: a, ModifyIndex: index})
	}
}

// TestATemplateFollowsAService has a change seen within a second, also one that came while no
// agent was there, and what renders to the same do nothing.
func TestATemplateFollowsAService(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil).service()
		api := &registered{}
		f.cfg.Services = api
		f.alloc.Namespace = "default"
		addresses := inline(`{{ range nomadService "api" }}{{ .Address }} {{ end }}`, "local/api")
		addresses.Splay = ptr(time.Duration(0))
		f.task.Templates = []*nomad.Template{addresses, inline("of nothing", "local/plain")}
		f.start()
		synctest.Wait()
		require.Empty(t, f.read("web/local/api"))

		api.set(1, "10.0.0.1")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "10.0.0.1 ", f.read("web/local/api"))
		require.Contains(t, f.events(), rerendered)
		started := f.world.Started("web")
		require.Equal(t, 2, started)

		api.set(2, "10.0.0.1") // registered again, and the same
		settle()
		require.Equal(t, started, f.world.Started("web"))

		f.r.Shutdown()
		<-f.r.WaitCh()
		api.set(3, "10.0.0.1", "10.0.0.2")
		f.restartAgent()
		settle()
		require.Equal(t, "10.0.0.1 10.0.0.2 ", f.read("web/local/api"))
		require.Equal(t, started+1, f.world.Started("web"))
		f.finish()
	})
}

// held are variables of the namespace default, by path.
type held struct {
	mu   sync.Mutex
	vars map[string]*nomad.Variable
	// sealed: none can be opened.
	sealed bool
}

func (h *held) TaskVariable(_ context.Context, by structs.TaskIdentity, _, path string) (*nomad.Variable, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if by.AllocID == "" || by.Task != "web" || path == "denied" {
		return nil, errdefs.New(errdefs.PermissionDenied, "Permission denied: %s", path)
	}
	if h.sealed {
		return nil, errdefs.New(errdefs.FailedPrecondition, "its key is lost")
	}
	return h.vars[path], nil
}

func (h *held) TaskVariableIndex(_ context.Context, _ structs.TaskIdentity, _, path string) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.vars[path]; v != nil { // no key is needed for that
		return v.ModifyIndex, nil
	}
	return 0, nil
}

func (h *held) TaskVariables(context.Context, structs.TaskIdentity, string, string) ([]*nomad.VariableMetadata, error) {
	return nil, nil
}

func (h *held) TaskVariablesStamp(context.Context, structs.TaskIdentity, string, string) (uint64, error) {
	return 0, nil
}

// seal has none opened until it is called again.
func (h *held) seal(sealed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sealed = sealed
}

func (h *held) purge(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.vars, path)
}

func (h *held) put(path string, index uint64, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.vars[path] = &nomad.Variable{Namespace: "default", Path: path, ModifyIndex: index, Items: nomad.VariableItems{"v": value}}
}

// reading is a task whose template reads two variables.
func reading(t *testing.T, data string) (*fixture, *held) {
	f := newFixture(t, nil).service()
	vars := &held{vars: map[string]*nomad.Variable{}}
	f.cfg.Variables = vars
	f.alloc.Namespace = "default"
	reads := inline(data, "secrets/v")
	reads.Splay = ptr(time.Duration(0))
	f.task.Templates = []*nomad.Template{reads}
	return f, vars
}

const readsTwo = `{{ with nomadVar "a" }}{{ .v }}{{ end }} {{ with nomadVar "b" }}{{ .v }}{{ end }}`

// TestATaskWaitsForItsVariables has one event for each set of them that is missing, and no restart
// charged; a change is seen within a second, also one that came while no agent was there.
func TestATaskWaitsForItsVariables(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, vars := reading(t, readsTwo)
		f.start()
		time.Sleep(time.Hour)
		require.Equal(t, structs.TaskPending, f.r.State().State)
		require.Equal(t, []string{received, setup, "Template: Missing: nomad.var.block(a@default.), nomad.var.block(b@default.)"}, f.events())
		vars.put("b", 1, "two")
		time.Sleep(time.Minute)
		require.Equal(t, "Template: Missing: nomad.var.block(a@default.)", f.events()[3])
		vars.put("a", 2, "one")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, structs.TaskRunning, f.r.State().State)
		require.Equal(t, "one two", f.read("web/secrets/v"))
		require.Len(t, f.events(), 5)

		vars.put("a", 3, "new")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "new two", f.read("web/secrets/v"))
		require.Contains(t, f.events(), rerendered)
		started := f.world.Started("web")
		require.Equal(t, 2, started)

		f.r.Shutdown()
		<-f.r.WaitCh()
		vars.put("b", 4, "later")
		f.restartAgent()
		settle()
		require.Equal(t, "new later", f.read("web/secrets/v"))
		require.Equal(t, started+1, f.world.Started("web"))
		f.finish()
	})
}

func TestATaskThatWaitsForAVariableCanBeKilled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _ := reading(t, `{{ nomadVar "a" }}{{ nomadVar "b" }}{{ nomadVar "c" }}{{ nomadVar "d" }}{{ nomadVar "e" }}`)
		f.start()
		time.Sleep(time.Minute)
		require.Contains(t, f.events(), "Template: Missing: nomad.var.block(a@default.), nomad.var.block(b@default.), nomad.var.block(c@default.), and 2 more")
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Equal(t, killed, f.events()[len(f.events())-1])
		f.finish()
	})
}

func TestATaskThatMayNotReadAVariableFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _ := reading(t, `{{ nomadVar "denied" }}`)
		f.start()
		settle()
		require.Equal(t, structs.TaskDead, f.r.State().State)
		require.True(t, f.r.State().Failed)
		require.Contains(t, strings.Join(f.events(), "\n"), "Permission denied: denied")
		f.finish()
	})
}

// TestWhatCannotBeReadForAWhileIsFollowed has a variable change while it cannot be opened, and
// again later.
func TestWhatCannotBeReadForAWhileIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, vars := reading(t, `{{ (nomadVar "a").v }}`)
		f.task.Templates[0].ChangeMode = ptr("noop")
		vars.put("a", 1, "one")
		f.start()
		settle()
		vars.seal(true)
		vars.put("a", 2, "two")
		time.Sleep(time.Minute)
		require.Equal(t, "one", f.read("web/secrets/v"))
		require.Len(t, f.events(), 4, "one event of it")
		require.Contains(t, f.events()[3], `variable "a": its key is lost; the task keeps what was rendered before`)
		vars.seal(false)
		settle()
		require.Equal(t, "two", f.read("web/secrets/v"))
		vars.put("a", 3, "three")
		settle()
		require.Equal(t, "three", f.read("web/secrets/v"))
		f.finish()
	})
}

// TestATemplateIsNotStaleBecauseAnotherWaited has the first of two change while the second waits.
func TestATemplateIsNotStaleBecauseAnotherWaited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, vars := reading(t, `{{ (nomadVar "a").v }}`)
		f.task.Templates[0].Once = ptr(true)
		f.task.Templates = append(f.task.Templates, inline(`{{ (nomadVar "b").v }}`, "secrets/w"))
		vars.put("a", 1, "old")
		f.start()
		time.Sleep(time.Minute)
		vars.put("a", 2, "new")
		time.Sleep(time.Minute)
		vars.put("b", 3, "b")
		settle()
		require.Equal(t, structs.TaskRunning, f.r.State().State)
		require.Equal(t, "new", f.read("web/secrets/v"))
		f.finish()
	})
}

// TestAWaitSeesFiles has a file name another variable while one is waited for.
func TestAWaitSeesFiles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, vars := reading(t, `{{ (nomadVar (file "alloc/data/which")).v }}`)
		f.put("which", "none")
		vars.put("b", 1, "found")
		f.start()
		time.Sleep(time.Minute)
		require.Equal(t, structs.TaskPending, f.r.State().State)
		f.put("which", "b")
		settle()
		require.Equal(t, structs.TaskRunning, f.r.State().State)
		require.Equal(t, "found", f.read("web/secrets/v"))
		f.finish()
	})
}

// TestItsDriverIsToldWhichVariablesAreSecrets has a template that reads a variable, whatever it calls what
// it makes of it, and others that do not; the next agent tells the same, and so does a start without the variable.
func TestItsDriverIsToldWhichVariablesAreSecrets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, vars := reading(t, "URL=postgres://u:{{ (nomadVar `a`).v }}@db\nPORT=5432")
		f.task.Templates = append(f.task.Templates, inline("COLOR=blue", "secrets/color"), inline(`{{ (nomadVar "a").v }}`, "secrets/file"))
		for _, t := range f.task.Templates[:2] {
			t.Envvars = ptr(true)
		}
		vars.put("a", 1, "kept")
		f.start()
		settle()
		want := []string{"secrets PORT URL"}
		require.Equal(t, want, f.told())
		f.r.Shutdown()
		<-f.r.WaitCh()
		f.restartAgent()
		settle()
		want = append(want, want[0])
		require.Equal(t, want, f.told())
		vars.purge("a")
		settle()
		require.NoError(t, f.r.Restart(task.RestartRequest{Reason: "test"}))
		settle()
		require.Equal(t, append(want, want[0]), f.told())
		f.finish()
	})
}

// TestAHandoverTellsNothingOfSecrets has the driver be replaced by a version that does not take the task
// at first, while hooks leave something: what they leave is not for the goroutine that hands over. The old
// version was told for all of them, and what a handover said that is abandoned would never be taken back.
func TestAHandoverTellsNothingOfSecrets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, vars := reading(t, `V={{ (nomadVar "a").v }}`)
		f.task.Templates[0].Envvars = ptr(true)
		signalled := inline(`{{ (nomadVar "a").v }}`, "secrets/file")
		signalled.ChangeMode, signalled.ChangeSignal, signalled.Splay = ptr("signal"), ptr("SIGHUP"), ptr(time.Duration(0))
		f.task.Templates[0].ChangeMode = ptr("noop")
		f.task.Templates = append(f.task.Templates, signalled)
		vars.put("a", 1, "kept")
		f.start()
		settle()
		require.Len(t, f.told(), 1)
		faults := 4
		f.world.Fail("recover", func() error {
			if faults--; faults >= 0 {
				return errUnavailable
			}
			return nil
		})
		f.world.Upgrade()
		vars.put("a", 2, "new")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 5, f.world.Count("recover web with version 1"))
		require.Equal(t, 1, f.world.Count("signal web"))
		require.Len(t, f.told(), 1)
		f.finish()
	})
}

// TestADriverIsToldOfSecretsBeforeItDestroysWhatIsLeft has an agent die before the end of a run is decided
// on: the next one's driver may say something of the task, too.
func TestADriverIsToldOfSecretsBeforeItDestroysWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, vars := reading(t, `V={{ (nomadVar "a").v }}`)
		f.task.Templates[0].Envvars = ptr(true)
		vars.put("a", 1, "kept")
		died := state.NewMem()
		destroyed := 0
		f.world.Fail("destroy", func() error {
			local, shown, err := f.db.Task("a1", "web")
			require.NoError(t, err)
			require.NoError(t, died.PutTask("a1", "web", local, shown))
			f.world.Fail("destroy", func() error {
				if destroyed++; destroyed == 1 {
					require.Len(t, f.told(), 2)
				}
				return nil
			})
			return errors.New("the agent died")
		})
		f.start()
		settle()
		require.True(t, f.world.Exit("web", structs.ExitResult{ExitCode: 1}))
		synctest.Wait()
		f.r.Shutdown()
		<-f.r.WaitCh()
		f.db = died
		f.build()
		require.NoError(t, f.r.Restore())
		go f.r.Run()
		settle()
		require.NotZero(t, destroyed)
		f.finish()
	})
}

// told is what the driver was told of secrets.
func (f *fixture) told() (all []string) {
	for _, line := range f.world.Log() {
		if strings.HasPrefix(line, "secrets ") {
			all = append(all, line)
		}
	}
	return all
}

// TestATaskGoesOnWithoutItsVariable has one go while the task runs, which then starts again, also
// with the next agent.
func TestATaskGoesOnWithoutItsVariable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, vars := reading(t, `V={{ (nomadVar "a").v }}`)
		f.task.Templates[0].Envvars = ptr(true)
		vars.put("a", 1, "kept")
		f.start()
		settle()
		vars.purge("a")
		settle()
		const keeps = `Task hook failed: template: "secrets/v": Missing: nomad.var.block(a@default.); the task keeps what was rendered before`
		require.Equal(t, keeps, f.events()[3])
		for range 2 {
			require.NoError(t, f.r.Restart(task.RestartRequest{Reason: "test"}))
			settle()
			require.Equal(t, structs.TaskRunning, f.r.State().State)
			require.Equal(t, "kept", f.env()["V"])
			f.r.Shutdown()
			<-f.r.WaitCh()
			f.restartAgent()
			settle()
		}
		f.finish()
	})
}
