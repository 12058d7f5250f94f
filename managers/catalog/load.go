package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/wasmnode/wasmnode/host"
)

const (
	// retryInterval is when a file that could not be read is tried again.
	retryInterval = 5 * time.Second
	// orderPatience is how long a file of the first look, once described, waits for
	// those before it, so that of two with one name the same wins at every start.
	orderPatience = 3 * time.Second
)

// file is one file of the directory. The catalog's mu guards it.
type file struct {
	name    string
	content identity // of the version in charge, or of what was rejected
	unit    *Unit    // in charge; nil: none

	// Of the content that was seen last.
	state  State // loading or rejected; "" when it is in charge
	reason string
	since  time.Time
	taken  *takenError // why it was rejected, where that can change
	unread bool        // it could not be read, which can change
	lost   bool        // the file is gone

	described chan struct{}      // closed when the first load has claimed its name or failed
	cancel    context.CancelFunc // of the load under way
	loaded    chan struct{}      // closed when it has ended
	load      int                // counts loads, to tell a late one
}

// claim is a name that only one file can have.
type claim struct {
	kind PluginType
	name string
}

// takenError says that another file is in charge of a plugin's name.
type takenError struct {
	claim
	by string // file
}

func (e *takenError) Error() string {
	return fmt.Sprintf("the %s %q is already provided by %s; remove one of the two files", e.kind, e.name, e.by)
}

// ErrShutdown ends what is under way when the node stops.
var ErrShutdown = errors.New("the node is shutting down")

// found takes what a look found: all files, those with new content, and those that
// are gone.
func (c *Catalog) found(all, ready, gone []string) {
	c.firstLook(all)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range gone {
		c.lose(name)
	}
	for _, name := range ready {
		c.begin(name)
	}
}

// firstLook notes, once, which files were there at the start.
func (c *Catalog) firstLook(names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looked {
		return
	}
	c.looked, c.waited = true, map[string]*file{}
	for _, name := range names {
		c.waited[name] = c.file(name)
	}
	c.waitNoMore("")
}

// waitNoMore notes that a file of the first look is loaded, refused or gone. The
// caller holds mu.
func (c *Catalog) waitNoMore(name string) {
	if !c.looked || isClosed(c.first) {
		return
	}
	delete(c.waited, name)
	if len(c.waited) == 0 {
		close(c.first)
	}
}

// file returns the file of that name, a new one when there is none. The caller
// holds mu.
func (c *Catalog) file(name string) *file {
	f := c.files[name]
	if f == nil {
		f = &file{name: name, state: StateLoading, since: time.Now(), described: make(chan struct{})}
		c.files[name] = f
	}
	return f
}

// begin starts to load a file's content, in the place of a load under way. The
// caller holds mu.
func (c *Catalog) begin(name string) {
	if c.ctx.Err() != nil {
		return
	}
	f := c.file(name)
	before := f.loaded
	if f.cancel != nil {
		f.cancel()
	}
	ctx, cancel := context.WithCancel(c.ctx)
	f.load++
	f.cancel, f.loaded = cancel, make(chan struct{})
	f.state, f.reason, f.taken, f.unread = StateLoading, "", nil, false
	if f.unit == nil {
		f.since = time.Now()
	}
	load, loaded := f.load, f.loaded
	c.wg.Go(func() {
		defer close(loaded)
		defer cancel()
		if before != nil {
			<-before // one load of a file at a time
		}
		c.run(ctx, f, load)
	})
}

// lose takes a file that is gone out of service. The caller holds mu.
func (c *Catalog) lose(name string) {
	f := c.files[name]
	if f == nil {
		return
	}
	delete(c.files, name)
	f.lost = true
	if f.cancel != nil {
		f.cancel()
	}
	if f.unit != nil {
		c.cfg.Logger.Info("a plugin's file was removed", "file", name, "plugin", f.content.name)
		c.retire(f)
	}
	f.endDescribe()
	c.waitNoMore(name)
}

// retire removes a file's version and its claim. The caller holds mu.
func (c *Catalog) retire(f *file) {
	f.unit.Remove()
	if !isClosed(f.unit.Closed()) {
		c.gone = append(c.gone, goneFile{f.name, f.content, f.unit})
	}
	c.release(f.content.claim(), f)
	f.unit = nil
}

// release gives a name up, and has the files that wanted it try again. The caller
// holds mu.
func (c *Catalog) release(name claim, f *file) {
	if c.claims[name] != f {
		return
	}
	delete(c.claims, name)
	for _, other := range slices.Sorted(maps.Keys(c.files)) {
		if t := c.files[other].taken; t != nil && t.claim == name {
			c.begin(other)
		}
	}
}

func (f *file) endDescribe() {
	if !isClosed(f.described) {
		close(f.described)
	}
}

// run loads a file: the whole way from its bytes to its plugin being in charge.
func (c *Catalog) run(ctx context.Context, f *file, load int) {
	select {
	case c.loads <- struct{}{}:
	case <-ctx.Done():
		return
	}
	slot := func() { <-c.loads }
	source, err := c.read(f.name)
	if err != nil {
		slot()
		c.reject(ctx, f, load, identity{}, err)
		return
	}
	digest := source.Digest()
	if c.isInCharge(f, load, digest) {
		slot()
		return
	}
	p, err := c.cfg.Loader.Load(ctx, source)
	slot()
	if err != nil {
		c.reject(ctx, f, load, identity{digest: digest}, err)
		return
	}
	if err := c.admit(ctx, f, load, Candidate{p, f.name, digest}); err != nil {
		what := identityOf(p, digest)
		what.granted, what.stats = nil, nil
		p.Close()
		c.reject(ctx, f, load, what, err)
	}
}

// read reads a file within the limit.
func (c *Catalog) read(name string) (source host.Source, err error) {
	info, err := os.Stat(filepath.Join(c.cfg.Dir, name))
	if err != nil {
		return source, &unreadError{err}
	}
	if !info.Mode().IsRegular() {
		return source, fmt.Errorf("not a regular file but %s", kindOf(info.Mode()))
	}
	limit := c.cfg.Loader.MaxFileBytes()
	if info.Size() > limit {
		return source, fmt.Errorf("the file has %d bytes, the limit is %d", info.Size(), limit)
	}
	opened, err := os.Open(filepath.Join(c.cfg.Dir, name))
	if err != nil {
		return source, &unreadError{err}
	}
	defer opened.Close()
	var b bytes.Buffer
	b.Grow(int(info.Size()) + bytes.MinRead)
	if _, err := io.Copy(&b, io.LimitReader(opened, limit+1)); err != nil {
		return source, &unreadError{err}
	}
	return host.NewSource(b.Bytes()), nil // one byte too many is the loader's to refuse
}

// unreadError says that a file could not be read, which can change without it
// looking any different.
type unreadError struct{ err error }

func (e *unreadError) Error() string { return "cannot be read: " + e.err.Error() }
func (e *unreadError) Unwrap() error { return e.err }

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
func (c *Catalog) isInCharge(f *file, load int, digest string) bool {
	c.mu.Lock()
	u := f.unit
	if u == nil || f.content.digest != digest {
		c.mu.Unlock()
		return false
	}
	if f.load == load {
		f.state, f.reason = "", ""
	}
	f.endDescribe()
	c.waitNoMore(f.name)
	c.mu.Unlock()
	u.Revive()
	return true
}

// admit has a loaded plugin claim its name and taken into service.
func (c *Catalog) admit(ctx context.Context, f *file, load int, p Candidate) error {
	what := identityOf(p.Plugin, p.Digest)
	c.mu.Lock()
	r := c.registries[what.kind]
	c.mu.Unlock()
	if r == nil {
		return fmt.Errorf("a plugin of type %s, which this node has no use for", what.kind)
	}
	c.awaitTurn(ctx, f)
	replaces, err := c.claim(f, what.claim())
	if err != nil {
		return err
	}
	u, err := r.Take(ctx, p, replaces)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if f.unit == nil || f.content.claim() != what.claim() {
			c.release(what.claim(), f) //nolint:contextcheck // the next load lives as long as the catalog, not as this one
		}
		return err
	}
	if f.unit != nil && !replaces {
		// The file has another plugin in it now.
		c.retire(f) //nolint:contextcheck // the next load lives as long as the catalog, not as this one
	}
	f.unit, f.content = u, what
	if f.load == load {
		f.state, f.reason = "", ""
	}
	if f.lost {
		c.retire(f) //nolint:contextcheck // the next load lives as long as the catalog, not as this one
	}
	c.waitNoMore(f.name)
	c.cfg.Logger.Info("plugin loaded", "file", f.name, "plugin", what.name, "version", what.version, "digest", what.digest[:12])
	return nil
}

// awaitTurn waits for the files of the first look before f to have claimed their
// names.
func (c *Catalog) awaitTurn(ctx context.Context, f *file) {
	var before []*file
	c.mu.Lock()
	if c.waited[f.name] == f {
		for name, other := range c.waited {
			if name < f.name {
				before = append(before, other)
			}
		}
	}
	c.mu.Unlock()
	timer := time.NewTimer(orderPatience)
	defer timer.Stop()
	for _, other := range before {
		select {
		case <-other.described:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// claim gives f a name, or says who has it. It reports whether a version of f has the
// name now.
func (c *Catalog) claim(f *file, name claim) (replaces bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer f.endDescribe()
	if f.lost {
		return false, ErrShutdown
	}
	if owner := c.claims[name]; owner != nil && owner != f {
		return false, &takenError{claim: name, by: owner.name}
	}
	c.claims[name] = f
	return f.unit != nil && f.content.claim() == name, nil
}

// reject notes why a content is not in charge.
func (c *Catalog) reject(ctx context.Context, f *file, load int, what identity, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.endDescribe()
	if f.lost || f.load != load || ctx.Err() != nil {
		return // another load tells
	}
	f.state, f.reason = StateRejected, OneLine(err)
	if f.unit == nil {
		f.content, f.since = what, time.Now()
	}
	var unread *unreadError
	f.unread = errors.As(err, &unread)
	errors.As(err, &f.taken)
	// Whoever had the name may have given it up meanwhile.
	if f.taken != nil && c.claims[f.taken.claim] == nil {
		c.begin(f.name) //nolint:contextcheck // the next load lives as long as the catalog, not as this one
		return
	}
	c.waitNoMore(f.name)
	c.cfg.Logger.Warn("plugin file not taken", "file", f.name, "reason", f.reason)
}

// retryUnread tries files that could not be read again.
func (c *Catalog) retryUnread(interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		c.mu.Lock()
		for _, name := range slices.Sorted(maps.Keys(c.files)) {
			if c.files[name].unread {
				c.begin(name)
			}
		}
		c.mu.Unlock()
	}
}

func identityOf(p Plugin, digest string) identity {
	d := p.Description()
	return identity{
		digest: digest, name: d.GetName(), version: d.GetVersion(), kind: p.Type(),
		imported: p.CapabilitiesImported(), granted: p.CapabilitiesGranted, stats: p.Stats,
	}
}

func (i identity) claim() claim { return claim{i.kind, i.name} }
