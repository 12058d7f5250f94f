package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
	"github.com/wasmnode/wasmnode/internal/regularfile"
	"github.com/wasmnode/wasmnode/internal/slots"
)

// retryInterval is when a file that could not be read is tried again.
const retryInterval = 5 * time.Second

// loading is a load of a file.
type loading struct {
	cancel context.CancelFunc // nil: none is under way
	ended  chan struct{}      // closed when it has ended
}

// end cancels the load, if one is under way, and does not wait for it.
func (l loading) end() {
	if l.cancel != nil {
		l.cancel()
	}
}

// ErrShutdown ends what is under way when the node stops.
var ErrShutdown = errors.New("the node is shutting down")

// do starts the load, unless a later one is to take its place. One load of a file goes on
// at a time.
func (a loadFile) do(c *Catalog) {
	f := a.f
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil || f.lost || f.load != a.load {
		return
	}
	before := f.loading
	before.end()
	ctx, cancel := context.WithCancel(c.ctx)
	ended := make(chan struct{})
	f.loading = loading{cancel, ended}
	turn := c.loads.Join(f.wanted.Load) // in the order of the actions
	c.wg.Go(func() {
		defer close(ended)
		defer cancel()
		if before.ended != nil {
			<-before.ended
		}
		c.load(ctx, f, a.load, turn)
	})
}

func (a removeUnit) do(*Catalog) { a.u.Remove(a.why) }

func (a settle) do(*Catalog) { a.u.settle(a.what) }

func (tellLoading) do(c *Catalog) {
	if c.cfg.LoadingChanged != nil {
		c.cfg.LoadingChanged()
	}
}

func (a tellRefused) do(c *Catalog) {
	if c.cfg.Refused != nil {
		c.cfg.Refused(a.file, a.why)
	}
}

func (a logLine) do(c *Catalog) { c.cfg.Logger.Log(a.level, a.text, a.args...) }

// step changes what is known of the files, and does what follows from it. The change is
// made under mu, and so does nothing else.
func (c *Catalog) step(change func(t *files, now time.Time) []action) {
	c.mu.Lock()
	now := time.Now()
	actions := append(change(&c.files, now), c.files.retryKept(now)...)
	actions = append(actions, c.files.tellLoading()...)
	c.files.change()
	c.mu.Unlock()
	c.do(actions)
}

func (c *Catalog) do(actions []action) {
	for _, a := range actions {
		a.do(c)
	}
}

// load loads a file, when its turn has come: the whole way from its bytes to its plugin being in
// charge.
func (c *Catalog) load(ctx context.Context, f *file, load int, turn *slots.Ticket) {
	if turn.Wait(ctx) != nil {
		return
	}
	slot := turn.Leave
	src, err := c.read(f.name)
	if err != nil {
		slot()
		c.reject(ctx, f, load, identity{}, err)
		return
	}
	if err := c.checkLock(f.name, src.Digest()); err != nil {
		slot()
		c.reject(ctx, f, load, identity{digest: src.Digest()}, err)
		return
	}
	signer, err := c.checkSignature(f.name, src.Digest())
	if err != nil {
		slot()
		c.reject(ctx, f, load, identity{digest: src.Digest()}, err)
		return
	}
	if c.isInCharge(f, load, src.Digest(), signer) {
		slot()
		return
	}
	p, err := c.cfg.Loader.Load(ctx, src, f.wanted.Load)
	slot()
	if err != nil {
		c.reject(ctx, f, load, identity{digest: src.Digest()}, err)
		return
	}
	if err := c.admit(ctx, f, load, p, signer); err != nil {
		what := identityOf(p)
		what.granted, what.stats = nil, nil
		p.Close()
		c.reject(ctx, f, load, what, err)
	}
}

// read reads a file within the limit.
func (c *Catalog) read(name string) (src host.Source, err error) {
	info, err := os.Stat(filepath.Join(c.cfg.Dir, name))
	if err != nil {
		return src, &unreadableError{err}
	}
	if !info.Mode().IsRegular() {
		return src, fmt.Errorf("not a regular file but %s", kindOf(info.Mode()))
	}
	limit := c.cfg.Loader.MaxFileBytes()
	if info.Size() > limit {
		return src, fmt.Errorf("the file has %d bytes, the limit is %d", info.Size(), limit)
	}
	opened, _, err := regularfile.Open(filepath.Join(c.cfg.Dir, name))
	if err != nil {
		return src, &unreadableError{err}
	}
	defer opened.Close()
	var b bytes.Buffer
	b.Grow(int(info.Size()) + bytes.MinRead)
	if _, err := io.Copy(&b, io.LimitReader(opened, limit+1)); err != nil {
		return src, &unreadableError{err}
	}
	return host.NewSource(b.Bytes()), nil // one byte too many is the loader's to refuse
}

// unreadableError: a file could not be read, which can change without it
// looking any different.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string { return "cannot be read: " + e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

func kindOf(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&os.ModeSymlink != 0:
		return "a symbolic link that leads nowhere"
	}
	return "a device, pipe or socket"
}

// isInCharge reports whether a content is in charge already. Writing or touching
// the file is then how an operator has it tried again.
func (c *Catalog) isInCharge(f *file, load int, digest string, signer pluginsign.PublicKey) bool {
	var u *Unit
	c.step(func(t *files, _ time.Time) (actions []action) {
		u, actions = t.isInCharge(f, load, digest, signer)
		return actions
	})
	if u != nil {
		u.Revive()
	}
	return u != nil
}

// admit has a loaded plugin taken into service, if its name is its file's.
func (c *Catalog) admit(ctx context.Context, f *file, load int, p Plugin, signer pluginsign.PublicKey) error {
	what := identityOf(p)
	what.signer = signer
	c.mu.Lock()
	r := c.registries[what.kind]
	c.mu.Unlock()
	if r == nil {
		return fmt.Errorf("a plugin of type %s, which this node does not support", what.kind)
	}
	d, err := c.claim(ctx, f, load, what)
	if err != nil {
		return err
	}
	u, err := r.Take(ctx, Candidate{Plugin: p, Grants: d.given.grants, Config: d.given.config, File: f.name}, d.replaces)
	c.step(func(t *files, now time.Time) []action {
		if err != nil {
			t.unclaim(f, load)
			return nil
		}
		return t.loaded(now, f, load, u, what, d.replaces)
	})
	return err
}

// claim returns when it is decided whether a content gets its name.
func (c *Catalog) claim(ctx context.Context, f *file, load int, what identity) (d decision, err error) {
	for described := false; ; described = true {
		c.mu.Lock()
		d, err = c.files.claim(time.Now(), f, load, what)
		if !described || !d.wait {
			c.files.change() // waiting on is none: those who wait would wake each other
		}
		changed := c.files.changed
		c.mu.Unlock()
		c.do(d.actions)
		if err != nil || !d.wait {
			return d, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return d, ctx.Err()
		}
	}
}

// reject notes why a content is not in charge.
func (c *Catalog) reject(ctx context.Context, f *file, load int, what identity, err error) {
	c.step(func(t *files, now time.Time) []action {
		if ctx.Err() != nil {
			return nil // another load reports
		}
		return t.rejected(now, f, load, what, err)
	})
}

// retryUnreadable tries files that could not be read again.
func (c *Catalog) retryUnreadable(interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
			c.step((*files).retryUnreadable)
		}
	}
}

func identityOf(p Plugin) identity {
	d, spec := p.Description(), p.Spec()
	return identity{
		digest: p.Digest(), name: d.GetName(), version: d.GetVersion(), kind: spec.Kind,
		imported: spec.Capabilities, granted: p.Granted, stats: p.Stats,
	}
}
