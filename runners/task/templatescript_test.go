package task_test

import (
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

// scripted is a task whose template runs a script on each change of the file a.
func scripted(t *testing.T, config map[string]any, script *nomad.ChangeScript) *fixture {
	f := newFixture(t, config).service()
	f.put("a", "one")
	tmpl := from("a", "local/out", "script")
	tmpl.ChangeScript = script
	f.task.Templates = []*nomad.Template{tmpl}
	return f
}

// exits has commands end so, after a time.
func exits(code int, after string) map[string]any {
	return map[string]any{"run_for": "100h", "exec_command": []map[string]any{{"exit_code": code, "run_for": after}}}
}

func TestAScriptIsRunOnAChange(t *testing.T) {
	reload := &nomad.ChangeScript{Command: ptr("/bin/reload"), Args: []string{"-a", "b"}}
	must := &nomad.ChangeScript{Command: ptr("/bin/reload"), FailOnError: ptr(true)}
	hang := &nomad.ChangeScript{Command: ptr("hang"), Timeout: ptr(time.Minute)}
	for name, c := range map[string]struct {
		config map[string]any
		script *nomad.ChangeScript
		want   string
		ends   bool
	}{
		"well":              {exits(0, "1ms"), reload, "Task hook message: Template successfully ran script /bin/reload with arguments: [-a b]. Exit code: 0", false},
		"not well":          {exits(4, "1ms"), reload, "Task hook failed: Template ran script /bin/reload with arguments [-a b] on change but it exited with code: 4", false},
		"not well, and has": {exits(4, "1ms"), must, "Killing: Template script failed, task is being killed", true},
		"for too long":      {exits(0, "2h"), hang, "Task hook failed: Template failed to run script hang with arguments [] on change: it has not ended within 1m0s", false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := scripted(t, c.config, c.script)
				f.start()
				settle()
				require.Equal(t, []string{received, setup, begun}, f.events(), "not before a change")
				f.put("a", "two")
				time.Sleep(2 * time.Minute)
				settle()
				require.Contains(t, f.events(), c.want)
				require.Equal(t, "two", f.read("web/local/out"))
				require.Equal(t, c.ends, f.r.State().State == structs.TaskDead)
				require.Equal(t, c.ends, f.r.State().Failed)
				f.finish()
			})
		})
	}
}

// TestAScriptIsRunOnTheFirstRendering has the next agent not run it again.
func TestAScriptIsRunOnTheFirstRendering(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := scripted(t, exits(0, "1ms"), &nomad.ChangeScript{Command: ptr("reload"), RunOnFirstRender: ptr(true)})
		f.start()
		settle()
		ran := func() int {
			return strings.Count(strings.Join(f.events(), "\n"), "Template successfully ran script reload")
		}
		require.Equal(t, 1, ran())
		f.r.Shutdown()
		<-f.r.WaitCh()
		f.restartAgent()
		settle()
		require.Equal(t, 1, ran())
		require.NoError(t, f.r.Restart(task.RestartRequest{Reason: "test"}))
		settle()
		require.Equal(t, 1, ran(), "nor when the task starts again")
		f.put("a", "two")
		settle()
		settle()
		require.Equal(t, 2, ran())
		f.finish()
	})
}

func TestAKillEndsAScript(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := scripted(t, exits(0, "2h"), &nomad.ChangeScript{Command: ptr("hang"), Timeout: ptr(time.Hour), FailOnError: ptr(true), RunOnFirstRender: ptr(true)})
		f.start()
		time.Sleep(time.Minute)
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.False(t, f.r.State().Failed)
		require.NotContains(t, strings.Join(f.events(), "\n"), "script")
		f.finish()
	})
}

// TestAScriptEndsWithTheAgent has the task live on, whatever the script was to do.
func TestAScriptEndsWithTheAgent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := scripted(t, exits(0, "2h"), &nomad.ChangeScript{Command: ptr("hang"), Timeout: ptr(time.Hour), FailOnError: ptr(true), RunOnFirstRender: ptr(true)})
		f.start()
		time.Sleep(time.Minute)
		f.r.Shutdown()
		<-f.r.WaitCh()
		f.restartAgent()
		settle()
		require.Equal(t, structs.TaskRunning, f.r.State().State)
		require.Equal(t, []string{received, setup, begun}, f.events())
		f.finish()
	})
}

// TestNobodyWaitsForAScript has other templates rendered and acted on while a script runs, and the
// script run once more for all changes of its own meanwhile.
func TestNobodyWaitsForAScript(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := scripted(t, exits(0, "4m"), &nomad.ChangeScript{Command: ptr("slow"), Timeout: ptr(time.Hour)})
		f.put("b", "one")
		f.task.Templates = append(f.task.Templates, from("b", "local/b", "signal"))
		f.start()
		settle()
		ran := func() int {
			return strings.Count(strings.Join(f.events(), "\n"), "Template successfully ran script slow")
		}
		for _, content := range []string{"two", "three", "four"} {
			f.put("a", content)
			f.put("b", content)
			settle()
			require.Equal(t, content, f.read("web/local/out"))
			require.Equal(t, content, f.read("web/local/b"))
		}
		require.Equal(t, 3, strings.Count(strings.Join(f.events(), "\n"), "Template re-rendered"))
		require.Zero(t, ran())
		time.Sleep(6 * time.Minute)
		settle()
		require.Equal(t, 1, ran())
		time.Sleep(time.Hour)
		settle()
		require.Equal(t, 2, ran())
		f.finish()
	})
}
