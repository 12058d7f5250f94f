package restart

import (
	"errors"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

var (
	noon    = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ok      = Event{Exit: &structs.ExitResult{}}
	failed  = Event{Exit: &structs.ExitResult{ExitCode: 1}}
	signal  = Event{Exit: &structs.ExitResult{Signal: 9}}
	unknown = Event{Exit: &structs.ExitResult{Err: "lost"}}
)

func policy(attempts int, wait, onSuccess bool) Policy {
	return Policy{Attempts: attempts, Interval: time.Minute, Delay: 10 * time.Second, Wait: wait, OnSuccess: onSuccess}
}

func TestDecisions(t *testing.T) {
	hard := Event{StartError: errors.New("no")}
	soft := Event{StartError: abi.NewRecoverableError(abi.Unavailable, "later")}
	used := state.RestartWindow{Count: 2, Start: noon.Add(-20 * time.Second).UnixNano()}
	for _, c := range []struct {
		name   string
		policy Policy
		window state.RestartWindow
		event  Event
		action Action
		delay  time.Duration
		reason string
	}{
		{"a kill wins over everything", policy(2, false, true), used, Event{Killed: true, Requested: true, Exit: failed.Exit}, Killed, 0, ""},
		{"a kill wins without attempts", policy(0, false, true), used, Event{Killed: true, Exit: ok.Exit}, Killed, 0, ""},
		{"a request restarts at once", policy(2, false, false), used, Event{Requested: true, Exit: ok.Exit}, Restarting, 0, ""},
		{"a request needs no attempts", policy(0, false, false), used, Event{Requested: true}, Restarting, 0, ""},
		{"no attempts, batch success", policy(0, false, false), used, ok, Terminated, 0, ReasonNoRestarts},
		{"no attempts, batch failure", policy(0, false, false), used, failed, NotRestarting, 0, ReasonNoRestarts},
		{"no attempts, service success", policy(0, false, true), used, ok, NotRestarting, 0, ReasonNoRestarts},
		{"no attempts, service failure", policy(0, false, true), used, failed, NotRestarting, 0, ReasonNoRestarts},
		{"no attempts, start error", policy(0, false, true), used, soft, NotRestarting, 0, ReasonNoRestarts},
		{"negative attempts are none", policy(-1, false, true), used, failed, NotRestarting, 0, ReasonNoRestarts},
		{"batch success", policy(2, false, false), state.RestartWindow{}, ok, Terminated, 0, ReasonUnnecessary},
		{"service success", policy(2, false, true), state.RestartWindow{}, ok, Restarting, 10 * time.Second, ReasonWithinPolicy},
		{"failure", policy(2, false, false), state.RestartWindow{}, failed, Restarting, 10 * time.Second, ReasonWithinPolicy},
		{"a signal is a failure", policy(2, false, false), state.RestartWindow{}, signal, Restarting, 10 * time.Second, ReasonWithinPolicy},
		{"an unknown end is a failure", policy(2, false, false), state.RestartWindow{}, unknown, Restarting, 10 * time.Second, ReasonWithinPolicy},
		{"nothing known is a failure", policy(2, false, false), state.RestartWindow{}, Event{}, Restarting, 10 * time.Second, ReasonWithinPolicy},
		{"recoverable start error", policy(2, false, false), state.RestartWindow{}, soft, Restarting, 10 * time.Second, ReasonWithinPolicy},
		{"recoverable start error, used up, fail", policy(2, false, false), used, soft, NotRestarting, 0, `Exceeded allowed attempts 2 in interval 1m0s and mode is "fail"`},
		{"recoverable start error, used up, delay", policy(2, true, false), used, soft, Restarting, 40 * time.Second, ReasonDelay},
		{"unrecoverable start error", policy(2, true, true), state.RestartWindow{}, hard, NotRestarting, 0, ReasonUnrecoverable},
		{"used up, fail", policy(2, false, true), used, failed, NotRestarting, 0, `Exceeded allowed attempts 2 in interval 1m0s and mode is "fail"`},
		{"used up, delay", policy(2, true, true), used, failed, Restarting, 40 * time.Second, ReasonDelay},
		{"success past the attempts, batch", policy(2, false, false), used, ok, Terminated, 0, ReasonUnnecessary},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.policy.Decide(c.window, c.event, noon, nil)
			require.Equal(t, c.action, d.Action, d.Action)
			require.Equal(t, c.delay, d.Delay)
			require.Equal(t, c.reason, d.Reason)
		})
	}
}

func TestD22_ExactlyTheAllowedAttemptsInEachInterval(t *testing.T) {
	p := policy(3, false, true)
	var w state.RestartWindow
	now := noon
	for interval := range 3 {
		for attempt := range 3 {
			d := p.Decide(w, failed, now, nil)
			require.Equal(t, Restarting, d.Action, "interval %d attempt %d", interval, attempt)
			w = d.Window
			now = now.Add(time.Second)
		}
		require.Equal(t, NotRestarting, p.Decide(w, failed, now, nil).Action)
		now = time.Unix(0, w.Start).Add(p.Interval) // the edge belongs to the next one
	}
}

func TestAfterTheDelayTheNextIntervalBegins(t *testing.T) {
	p := policy(1, true, true)
	d := p.Decide(state.RestartWindow{}, failed, noon, nil)
	d = p.Decide(d.Window, failed, noon.Add(15*time.Second), nil)
	require.Equal(t, 45*time.Second, d.Delay)
	d = p.Decide(d.Window, failed, noon.Add(time.Minute), nil)
	require.Equal(t, ReasonWithinPolicy, d.Reason)
	require.Equal(t, 1, d.Window.Count)
}

func TestAClockThatWentBackwardsOpensANewWindow(t *testing.T) {
	p := policy(1, true, true)
	w := state.RestartWindow{Count: 1, Start: noon.Add(time.Hour).UnixNano()}
	d := p.Decide(w, failed, noon, nil)
	require.Equal(t, ReasonWithinPolicy, d.Reason)
}

func TestWithoutAnIntervalTheAttemptsAreNeverRenewed(t *testing.T) {
	p := Policy{Attempts: 1, Wait: true}
	d := p.Decide(state.RestartWindow{}, failed, noon, nil)
	require.Equal(t, Restarting, d.Action)
	require.Equal(t, NotRestarting, p.Decide(d.Window, failed, noon.Add(1000*time.Hour), nil).Action)
}

func TestJitterAddsAtMostAQuarter(t *testing.T) {
	require.Zero(t, Jitter(0))
	for range 1000 {
		d := Jitter(time.Second)
		require.GreaterOrEqual(t, d, time.Second)
		require.LessOrEqual(t, d, 1250*time.Millisecond)
	}
	d := policy(1, false, true).Decide(state.RestartWindow{}, failed, noon, func(d time.Duration) time.Duration { return d * 2 })
	require.Equal(t, 20*time.Second, d.Delay)
}

func TestPolicyOf(t *testing.T) {
	p := func(s string) *string { return &s }
	job := func(kind string) *nomad.Job { return &nomad.Job{Type: &kind} }
	restarts := func(n int) *nomad.RestartPolicy {
		return &nomad.RestartPolicy{Attempts: &n, Mode: p("delay")}
	}
	hook := func(h string, sidecar bool) *nomad.TaskLifecycle {
		return &nomad.TaskLifecycle{Hook: h, Sidecar: sidecar}
	}
	group := &nomad.TaskGroup{RestartPolicy: restarts(5)}
	for _, c := range []struct {
		name string
		job  string
		task *nomad.Task
		want Policy
	}{
		{"the task's own", "service", &nomad.Task{RestartPolicy: restarts(1)}, Policy{Attempts: 1, Wait: true, OnSuccess: true}},
		{"the group's", "system", &nomad.Task{}, Policy{Attempts: 5, Wait: true, OnSuccess: true}},
		{"batch", "batch", &nomad.Task{}, Policy{Attempts: 5, Wait: true}},
		{"sysbatch", "sysbatch", &nomad.Task{}, Policy{Attempts: 5, Wait: true}},
		{"prestart", "service", &nomad.Task{Lifecycle: hook("prestart", false)}, Policy{Attempts: 5, Wait: true}},
		{"prestart sidecar of a batch job", "batch", &nomad.Task{Lifecycle: hook("prestart", true)}, Policy{Attempts: 5, Wait: true, OnSuccess: true}},
		{"poststart", "service", &nomad.Task{Lifecycle: hook("poststart", false)}, Policy{Attempts: 5, Wait: true}},
		{"poststop", "service", &nomad.Task{Lifecycle: hook("poststop", true)}, Policy{Attempts: 5, Wait: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, PolicyOf(job(c.job), group, c.task))
		})
	}
	require.Equal(t, Policy{OnSuccess: true}, PolicyOf(job("service"), &nomad.TaskGroup{}, &nomad.Task{}))
}
