package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
)

const (
	// pluginLook is how often it is looked whether the node has a plugin.
	pluginLook = 50 * time.Millisecond
	// reasonStays is how long a plugin is not in service for a reason before that is said: while
	// it is loaded there is one, too.
	reasonStays = time.Second
	// placementWait is how long it may take to place a job before it is said why it is not.
	placementWait = 2 * time.Second
	// seeLogs is what the event of a fault says to type, for a node at the usual address.
	seeLogs = "wasmnode plugin logs "
)

// following is one run of the job, as it is shown.
type following struct {
	*dev
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup   // what follows the job, and each task's output
	seen   map[string]int64 // when the last event was that was shown, by allocation and task
	output map[string]bool
}

// startFollowing waits until the node has a plugin's file with that digest, runs the job, and
// shows what becomes of it until it is stopped.
func startFollowing(ctx context.Context, d *dev, file, digest string) *following {
	f := &following{dev: d, seen: map[string]int64{}, output: map[string]bool{}}
	f.ctx, f.cancel = context.WithCancel(ctx)
	f.tasks.Go(func() {
		err := f.awaitPlugin(file, digest)
		if err == nil {
			f.tasks.Go(func() { f.watchPlugin(file) })
		}
		if err == nil && f.jobFile != "" {
			err = f.runJob()
		}
		if err != nil && f.ctx.Err() == nil {
			f.out.say("dev", err.Error())
		}
	})
	return f
}

// stop ends it.
func (f *following) stop() {
	f.cancel()
	f.tasks.Wait()
}

// awaitPlugin waits until a plugin is healthy, and says what keeps it from that.
func (f *following) awaitPlugin(file, digest string) error {
	name := filepath.Base(file)
	began, heard, said := time.Now(), "", ""
	for since := began; ; {
		var plugins []catalog.PluginStatus
		if _, err := f.client.Raw().Query("/v1/agent/plugins", &plugins, (&nomad.QueryOptions{}).WithContext(f.ctx)); err != nil {
			return err
		}
		var lacks refusal
		reason := "the node does not have it: is its plugin directory " + filepath.Dir(file) + "?"
		if i := slices.IndexFunc(plugins, func(p catalog.PluginStatus) bool { return filepath.Base(p.File) == name }); i >= 0 {
			p := plugins[i]
			if p.Digest == digest && p.State == catalog.StateHealthy {
				f.out.say("plugin", fmt.Sprintf("%s %s is healthy, in %s", p.Name, p.Version, brief(time.Since(began))))
				return nil
			}
			lacks = refusal{p.Name, p.Reason, p.WouldGrant}
			reason = strings.TrimSuffix(fmt.Sprintf("%s: %s", p.State, p.Reason), ": ")
			if p.State == catalog.StateHealthy { // it is the build before that is
				reason = p.Reason
			}
		}
		if reason != heard {
			heard, since = reason, time.Now()
		}
		if heard != said && time.Since(since) > reasonStays {
			said = heard
			f.out.say("plugin", name+" is not in service yet: "+said)
			if lacks.grant != "" {
				f.grants.refused(f.ctx, lacks)
			}
		}
		select {
		case <-f.ctx.Done():
			return f.ctx.Err()
		case <-time.After(pluginLook):
		}
	}
}

// stillRunning says of calls that they have not returned: once when they are told of at first, and
// whenever they have taken twice as long as when that was said.
func stillRunning(calls []host.RunningCall, told map[runningKey]time.Duration, now time.Time) (lines []string) {
	running := map[runningKey]bool{}
	for _, c := range calls {
		key := runningKey{c.Operation, c.AllocID, c.Task, c.Began.UnixNano()}
		running[key] = true
		took := now.Sub(c.Began)
		if before, known := told[key]; known && took < 2*before {
			continue
		}
		told[key] = took
		of := ""
		if c.Task != "" {
			of = " of task " + c.Task
		}
		lines = append(lines, fmt.Sprintf(" has been in %s%s for %v: it is ended in %v unless it returns",
			c.Operation, of, took.Round(time.Second), c.Ends.Sub(now).Round(time.Second)))
	}
	maps.DeleteFunc(told, func(key runningKey, _ time.Duration) bool { return !running[key] })
	return lines
}

// runningKey tells a call from others.
type runningKey struct {
	op, allocID, task string
	began             int64
}

// runJob runs the job from its beginning, and follows it.
func (f *following) runJob() error {
	var file jobFile
	job, submission, err := file.read(f.jobFile)
	if err != nil {
		return err
	}
	write := (&nomad.WriteOptions{}).WithContext(f.ctx)
	if err := f.purge(*job.ID, write); err != nil {
		return err
	}
	f.jobID = *job.ID
	registered, _, err := f.client.Jobs().RegisterOpts(job, &nomad.RegisterOptions{Submission: submission}, write)
	if err != nil {
		return err
	}
	f.out.say("job", f.jobID+" runs")
	return f.allocations(*job.ID, registered)
}

// allocations shows what becomes of a job's allocations that were made since it was registered.
func (f *following) allocations(jobID string, registered *nomad.JobRegisterResponse) error {
	q := (&nomad.QueryOptions{WaitTime: placementWait}).WithContext(f.ctx)
	for {
		stubs, answer, err := f.client.Jobs().Allocations(jobID, true, q)
		if err != nil {
			return err
		}
		stubs = slices.DeleteFunc(stubs, func(s *nomad.AllocationListStub) bool { return s.CreateIndex < registered.JobModifyIndex })
		if len(stubs) == 0 && q.WaitIndex == answer.LastIndex && q.WaitTime == placementWait {
			if err := f.placement(registered.EvalID); err != nil {
				return err
			}
		}
		if len(stubs) > 0 || q.WaitIndex == answer.LastIndex {
			q.WaitTime = pollWait
		}
		for _, s := range stubs {
			for name, state := range s.TaskStates {
				f.task(s.ID, name, state)
			}
		}
		q.WaitIndex = answer.LastIndex
	}
}

// placement says why a job was not placed.
func (f *following) placement(evalID string) error {
	if evalID == "" {
		return nil // of a job that is launched at times, or on demand
	}
	eval, _, err := f.client.Evaluations().Info(evalID, (&nomad.QueryOptions{}).WithContext(f.ctx))
	if err != nil {
		return err
	}
	(&monitor{meta: f.meta, client: f.client, flags: f.shown}).placementFailures(eval)
	return nil
}

// task shows the events of a task that are new, and follows its output once it has started.
func (f *following) task(allocID, name string, state *nomad.TaskState) {
	key := allocID + "/" + name
	for _, e := range state.Events {
		if e.Time <= f.seen[key] {
			continue
		}
		f.seen[key] = e.Time
		f.out.say(name, e.Type+": "+strings.Replace(e.DisplayMessage, seeLogs, seeLogs+"-address="+f.client.Address()+" ", 1))
		if log := e.Details["plugin_log"]; log != "" {
			f.out.say(name, "the last lines of the call:\n  "+strings.ReplaceAll(log, "\n", "\n  "))
		}
		if stack := e.Details["plugin_stack"]; stack != "" {
			f.out.say(name, stackTitle+"\n  "+strings.ReplaceAll(stack, "\n", "\n  "))
		}
	}
	if state.StartedAt.IsZero() || f.output[key] {
		return
	}
	f.output[key] = true
	for _, stream := range []string{"stdout", "stderr"} {
		f.tasks.Go(func() { f.copyOutput(allocID, name, stream) })
	}
}

// copyOutput shows what a task writes.
func (f *following) copyOutput(allocID, name, stream string) {
	alloc, _, err := f.client.Allocations().Info(allocID, (&nomad.QueryOptions{}).WithContext(f.ctx))
	if err == nil {
		out := &labelled{to: f.out, label: name + " |"}
		defer out.end()
		frames, errs := f.client.AllocFS().Logs(alloc, true, name, stream, nomad.OriginStart, 0, f.ctx.Done(), nil)
		err = copyFrames(f.ctx, out, frames, errs, -1)
	}
	if err != nil && f.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		f.out.say(name, fmt.Sprintf("its %s cannot be read: %s", stream, err))
	}
}
