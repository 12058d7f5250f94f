package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
)

// Replay makes the calls of a recording again, each in a new instance. Capabilities are answered
// with what was recorded, and so are files; none is real. The directory of a task is said to be
// below dir. Each call may take as long as timeout. A [*Difference] is the
// first that there is.
func (t *Trial) Replay(ctx context.Context, r *Recording, dir string, timeout time.Duration) error {
	if t.world == nil {
		return errUnrepeatable
	}
	_, err := t.replay(ctx, r, dir, timeout)
	return err
}

// replay is Replay. It returns the secrets that were known when each call began.
func (t *Trial) replay(ctx context.Context, r *Recording, dir string, timeout time.Duration) (known []masker, err error) {
	mask := newMasker(r.Secrets)
	for i, rec := range r.Calls {
		again, err := t.prepareAgain(rec, dir)
		if err != nil {
			return known, fmt.Errorf("call %d (line %d): %w", i+1, rec.Line, err)
		}
		known = append(known, mask.clone())
		p := rec.player(mask)
		now := t.play(ctx, again, p, rec, timeout, true)
		if d := p.difference(rec, now); d != nil {
			d.Call, d.Op = i+1, rec.Op
			return known, d
		}
		mask = p.mask
	}
	return known, nil
}

// played is what a plugin is granted whose capabilities are all played: all that it can import.
func played(fs host.FSGrant) host.Grants {
	return host.Grants{
		FS:      fs,
		Process: host.ProcessGrant{Commands: []string{"*"}},
		Net:     host.NetGrant{Addresses: []string{"localhost:*"}},
		HTTP:    host.HTTPGrant{Endpoints: []host.HTTPEndpoint{{Endpoint: "http://localhost", Paths: []string{"/"}}}},
		KV:      host.KVGrant{Enabled: true},
	}
}

// lastLine is that of the call's end.
func (c *RecordedCall) lastLine() int { return c.Line + len(c.Uses) + 1 }

// player answers what was recorded in a call, before which some secrets were known.
func (c *RecordedCall) player(known masker) *player {
	p := &player{op: c.Op, uses: c.Uses, lastLine: c.lastLine(), given: make([]bool, len(c.Uses)), mask: known.clone(), ends: context.DeadlineExceeded}
	if c.outcome.fault == givenUp {
		p.ends = context.Canceled
	}
	return p
}

// prepareAgain makes the call that was recorded. Its task's directories are not those of the
// recording, of which nothing on this machine is to be touched, but others.
func (t *Trial) prepareAgain(rec *RecordedCall, dir string) (Call, error) {
	if !t.plugin.Has(rec.Op) {
		return Call{}, fmt.Errorf("the plugin has no %s any more", rec.Op)
	}
	m, err := message(rec.Op, "Request")
	if err != nil {
		return Call{}, err
	}
	c := Call{Op: rec.Op}
	if c.Request, err = wire(OperationMessage(rec.Op, "Request"), rec.request); err != nil {
		return Call{}, err
	}
	fields := m.Descriptor().Fields()
	if fields.ByName("task") == nil && fields.ByName("task_id") == nil {
		return c, nil
	}
	c.Task, err = conform.Task(dir, 1, nil)
	return c, err
}

// play makes a call with the player's answers; fresh: in a new instance.
func (t *Trial) play(ctx context.Context, c Call, p *player, rec *RecordedCall, timeout time.Duration, fresh bool) outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, p.end = context.WithCancelCause(ctx)
	defer p.end(nil)
	p.answered = func(u *RecordedUse) { t.world.goOn(u.after) }
	if t.config = rec.config; len(t.config) == 0 {
		t.config = []byte("{}")
	}
	t.grants = played(rec.fs)
	t.world.begin(rec.began, rec.seed, fresh, false, p.file)
	defer t.world.end()
	// What a node's plugin said was recorded as the node shows it.
	r := t.observe(ctx, c, fresh, func(o *host.Observer) { o.Answers, o.Masked = p.answer, true })
	return outcomeOf(&p.mask, c.Op, r.Answer, r.Err)
}

// difference is the first between a recorded call and how it went now; nil: there is none.
func (p *player) difference(rec *RecordedCall, now outcome) *Difference {
	if p.differs != nil {
		return p.differs
	}
	if u := p.left(); u != nil {
		return &Difference{Use: p.next + 1, Line: u.Line, What: "the plugin does not ask for what it asked for", Recorded: quote(u.Capability), Now: now.show()}
	}
	d := rec.outcome.differs(now)
	if d != nil {
		d.Line = rec.lastLine()
	}
	return d
}

var _ error = (*Difference)(nil)

// CallRecorded is [Trial.Call] with what was recorded in place of real capabilities: each use is
// answered as the first recorded one that is the same and was not answered yet.
func (t *Trial) CallRecorded(ctx context.Context, c Call, r *Recording) *Result {
	p := &player{free: true, ends: context.DeadlineExceeded, answered: func(*RecordedUse) {}, mask: newMasker(r.Secrets)}
	for _, rec := range r.Calls {
		p.uses = append(p.uses, rec.Uses...)
	}
	p.given = make([]bool, len(p.uses))
	ctx, p.end = context.WithCancelCause(ctx)
	defer p.end(nil)
	return t.observe(ctx, c, true, func(o *host.Observer) { o.Answers = p.answer })
}

// ConfigurePlayed is [Trial.Configure] for [Trial.CallRecorded]: the plugin is granted all that
// it can import, none of which is real but the files that fs grants. It is configured with its
// calls.
func (t *Trial) ConfigurePlayed(fs host.FSGrant, config map[string]any) error {
	decoded, err := t.checkConfig(config)
	if err == nil {
		t.grants, t.config = played(fs), decoded
	}
	return err
}
