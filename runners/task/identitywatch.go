package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// What a job asks for when an identity has another token, with Nomad's words.
const (
	changeRestart = "restart"
	changeSignal  = "signal"
)

// minRenewal is the least time between two tokens of an identity, however short its ttl is.
const minRenewal = time.Second

// renewAt is when a token is to be renewed that expires at a time: when between a half and three
// quarters of what is left are over, so that not all of a node are at once.
func renewAt(now, expires time.Time) time.Time {
	half := expires.Sub(now) / 2
	if half <= 0 {
		return now
	}
	return now.Add(half + rand.N(half/2+1))
}

// renewal is an identity whose token is renewed.
type renewal struct {
	*nomad.WorkloadIdentity
	at      time.Time
	pause   backoff.BackOff // nil: it did not fail last time
	failure string          // that was reported
}

// identityWatch renews the tokens of a running task, in a goroutine of its own.
type identityWatch struct {
	r      *Runner
	signer Identities
	to     owner
	all    []*renewal
	cancel context.CancelFunc
	done   chan struct{}
}

// watchIdentities begins to renew. It goes on when ctx, which starts it, has ended.
func watchIdentities(ctx context.Context, r *Runner, signer Identities, to owner, all []*renewal) *identityWatch {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &identityWatch{r: r, signer: signer, to: to, all: all, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
	return w
}

// end ends the watch and waits for that: at most for a file to be written.
func (w *identityWatch) end() {
	w.cancel()
	<-w.done
}

func (w *identityWatch) run(ctx context.Context) {
	for {
		next := w.all[0]
		for _, one := range w.all {
			if one.at.Before(next.at) {
				next = one
			}
		}
		if !sleep(ctx, time.Until(next.at)) {
			return
		}
		err := w.renew(ctx, next)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			next.pause, next.failure = nil, ""
			w.apply(ctx, next)
		default:
			next.retry(w.r, err)
		}
	}
}

// renew gives the task a new token.
func (w *identityWatch) renew(ctx context.Context, one *renewal) error {
	alloc, task := w.r.current()
	token, err := w.signer.SignIdentity(ctx, structs.TaskIdentity{AllocID: alloc.ID, Task: task.Name}, structs.IdentityName(one.WorkloadIdentity))
	if err != nil {
		return err
	}
	now := time.Now()
	one.at = renewAt(now, token.Expires)
	if soonest := now.Add(minRenewal); one.at.Before(soonest) {
		one.at = soonest
	}
	if !one.File {
		return nil // its change has the task started again, which gives it a token
	}
	return w.to.writeToken(w.r.cfg.Dir, tokenFile(one.WorkloadIdentity), token.JWT)
}

// retry tells of a failure, once as long as it stays the same, and has it tried again.
func (one *renewal) retry(r *Runner, err error) {
	if one.pause == nil {
		one.pause = newBackoff()
	}
	one.at = time.Now().Add(max(minRenewal, one.pause.NextBackOff()))
	if one.failure != err.Error() {
		one.failure = err.Error()
		r.emit(structs.NewTaskEvent(structs.EventHookFailed).
			WithMessage(fmt.Sprintf("identity: %q is not renewed yet, and is tried again: %v", structs.IdentityName(one.WorkloadIdentity), err)))
	}
}

// apply does what the job asks for when there is another token.
func (w *identityWatch) apply(ctx context.Context, one *renewal) {
	name := structs.IdentityName(one.WorkloadIdentity)
	switch one.ChangeMode {
	case changeRestart:
		// A task that does not run any more, or not yet, starts with a new token.
		_ = w.r.Restart(RestartRequest{Reason: fmt.Sprintf("Identity[%s]: new token acquired", name)})
	case changeSignal:
		err := w.r.Signal(ctx, one.ChangeSignal, fmt.Sprintf("Identity[%s]: new Identity token acquired", name))
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrNotRunning) {
			return
		}
		// It would go on with the token that expires.
		w.r.Kill(structs.NewTaskEvent(structs.EventKilling).Fails().
			WithKillReason(fmt.Sprintf("Identity[%s]: failed to send signal: %v", name, err)))
	}
}
