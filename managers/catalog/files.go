package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/wake"
)

// files is what is known of the plugin directory. It is stepped by what is seen of the
// files and by what becomes of loading them; what is to be done about that is returned
// as actions, so that none of it is done under the catalog's lock.
type files struct {
	byName map[string]*file
	claims map[claim]*file
	gone   []goneFile // versions in use whose files were removed

	looked bool
	waited map[string]*file // of the first look, not loaded or refused yet
	first  chan struct{}    // closed when the files of the first look are loaded or refused
}

// file is one file of the directory.
type file struct {
	name    string
	content identity // of the version in charge, or of what was rejected
	unit    *Unit    // in charge; nil: none

	// Of the content that was seen last.
	state      State // loading or rejected; "" when it is in charge
	reason     string
	since      time.Time
	nameTaken  *nameTakenError // why it was rejected, where that can change
	unreadable bool            // it could not be read, which can change
	lost       bool            // the file is gone

	described chan struct{} // closed when the first load has claimed its name or failed
	load      int           // counts loads, to detect a late one
	loading   loading       // the load under way
}

// goneFile is a version whose file was removed while tasks use it.
type goneFile struct {
	file    string
	content identity
	unit    *Unit
}

// claim is a name that only one file can have.
type claim struct {
	kind host.Kind
	name string
}

// nameTakenError: another file is in charge of a plugin's name.
type nameTakenError struct {
	claim
	by string // file
}

func (e *nameTakenError) Error() string {
	return fmt.Sprintf("the %s %q is already provided by %s; remove one of the two files", e.kind, e.name, e.by)
}

// action is what is to be done about a change of the files, with no lock held.
type action interface{ do(c *Catalog) }

type (
	// loadFile: load a file's content, in the place of a load under way.
	loadFile struct {
		f    *file
		load int
	}
	// removeUnit: take a plugin out of service whose file is gone.
	removeUnit struct{ u *Unit }
	// logLine: log what happened.
	logLine struct {
		level hclog.Level
		text  string
		args  []any
	}
)

func newFiles() files {
	return files{byName: map[string]*file{}, claims: map[claim]*file{}, first: make(chan struct{})}
}

// found takes what a look found: all files, those with new content, and those that
// are gone.
func (t *files) found(now time.Time, all, ready, gone []string) (actions []action) {
	t.firstScan(now, all)
	for _, name := range gone {
		actions = append(actions, t.removed(now, name)...)
	}
	for _, name := range ready {
		actions = append(actions, t.begin(now, name))
	}
	return actions
}

// firstScan notes, once, which files were there at the start.
func (t *files) firstScan(now time.Time, names []string) {
	if t.looked {
		return
	}
	t.looked, t.waited = true, map[string]*file{}
	for _, name := range names {
		t.waited[name] = t.file(now, name)
	}
	t.finishFirst("")
}

// finishFirst notes that a file of the first look is loaded, refused or gone.
func (t *files) finishFirst(name string) {
	if !t.looked || wake.IsClosed(t.first) {
		return
	}
	delete(t.waited, name)
	if len(t.waited) == 0 {
		close(t.first)
	}
}

// file returns the file of that name, a new one when there is none.
func (t *files) file(now time.Time, name string) *file {
	f := t.byName[name]
	if f == nil {
		f = &file{name: name, state: StateLoading, since: now, described: make(chan struct{})}
		t.byName[name] = f
	}
	return f
}

// begin has a file's content loaded, in the place of a load under way.
func (t *files) begin(now time.Time, name string) action {
	f := t.file(now, name)
	f.load++
	f.state, f.reason, f.nameTaken, f.unreadable = StateLoading, "", nil, false
	if f.unit == nil {
		f.since = now
	}
	return loadFile{f, f.load}
}

// removed takes a file that is gone out of service.
func (t *files) removed(now time.Time, name string) []action {
	f := t.byName[name]
	if f == nil {
		return nil
	}
	delete(t.byName, name)
	f.lost = true
	// Before its name is given up: what the load would put in charge must not replace the
	// plugin of a file that has the name by then.
	f.loading.end()
	var actions []action
	if f.unit != nil {
		actions = append(actions, logLine{hclog.Info, "a plugin's file was removed", []any{"file", name, "plugin", f.content.name}})
		actions = append(actions, t.retire(now, f)...)
	}
	f.endDescribe()
	t.finishFirst(name)
	return actions
}

// retire releases a file's version and its claim.
func (t *files) retire(now time.Time, f *file) []action {
	t.gone = append(t.inUse(), goneFile{f.name, f.content, f.unit})
	actions := append([]action{removeUnit{f.unit}}, t.release(now, f.content.claim(), f)...)
	f.unit = nil
	return actions
}

// inUse returns the versions whose files were removed and that are still used; others are
// forgotten.
func (t *files) inUse() []goneFile {
	t.gone = slices.DeleteFunc(t.gone, func(g goneFile) bool { return wake.IsClosed(g.unit.Closed()) })
	return t.gone
}

// release gives a name up, and has the files that wanted it try again.
func (t *files) release(now time.Time, name claim, f *file) (actions []action) {
	if t.claims[name] != f {
		return nil
	}
	delete(t.claims, name)
	for _, other := range slices.Sorted(maps.Keys(t.byName)) {
		if taken := t.byName[other].nameTaken; taken != nil && taken.claim == name {
			actions = append(actions, t.begin(now, other))
		}
	}
	return actions
}

func (f *file) endDescribe() {
	if !wake.IsClosed(f.described) {
		close(f.described)
	}
}

// isInCharge returns the unit of a content that is in charge already, else nil.
func (t *files) isInCharge(f *file, load int, digest string) *Unit {
	if f.unit == nil || f.content.digest != digest {
		return nil
	}
	if f.load == load {
		f.state, f.reason = "", ""
	}
	f.endDescribe()
	t.finishFirst(f.name)
	return f.unit
}

// before returns the files of the first look before f, if f is one of them.
func (t *files) before(f *file) (before []*file) {
	if t.waited[f.name] != f {
		return nil
	}
	for name, other := range t.waited {
		if name < f.name {
			before = append(before, other)
		}
	}
	return before
}

// claim gives f a name, or returns which file has it. It reports whether a version of f has the
// name now.
func (t *files) claim(f *file, name claim) (replaces bool, err error) {
	defer f.endDescribe()
	if f.lost {
		return false, ErrShutdown
	}
	if owner := t.claims[name]; owner != nil && owner != f {
		return false, &nameTakenError{claim: name, by: owner.name}
	}
	t.claims[name] = f
	return f.unit != nil && f.content.claim() == name, nil
}

// unclaim gives a name up that a content of f claimed, unless the version in charge has
// it.
func (t *files) unclaim(now time.Time, f *file, name claim) []action {
	if f.unit != nil && f.content.claim() == name {
		return nil
	}
	return t.release(now, name, f)
}

// loaded notes that a content of f is in charge.
func (t *files) loaded(now time.Time, f *file, load int, u *Unit, what identity, replaces bool) (actions []action) {
	if f.unit != nil && !replaces {
		// The file has another plugin in it now.
		actions = t.retire(now, f)
	}
	f.unit, f.content = u, what
	if f.load == load {
		f.state, f.reason = "", ""
	}
	if f.lost {
		actions = append(actions, t.retire(now, f)...)
	}
	t.finishFirst(f.name)
	return append(actions, logLine{hclog.Info, "plugin loaded", []any{"file", f.name, "plugin", what.name, "version", what.version, "digest", what.digest[:12]}})
}

// rejected notes why a content is not in charge.
func (t *files) rejected(now time.Time, f *file, load int, what identity, err error) []action {
	f.endDescribe()
	if f.lost || f.load != load {
		return nil // another load reports
	}
	f.state, f.reason = StateRejected, OneLine(err)
	if f.unit == nil {
		f.content, f.since = what, now
	}
	var unreadable *unreadableError
	f.unreadable = errors.As(err, &unreadable)
	errors.As(err, &f.nameTaken)
	// The file that had the name may have released it meanwhile.
	if f.nameTaken != nil && t.claims[f.nameTaken.claim] == nil {
		return []action{t.begin(now, f.name)}
	}
	t.finishFirst(f.name)
	return []action{logLine{hclog.Warn, "plugin file not taken", []any{"file", f.name, "reason", f.reason}}}
}

// retryUnreadable has the files loaded again that could not be read.
func (t *files) retryUnreadable(now time.Time) (actions []action) {
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		if t.byName[name].unreadable {
			actions = append(actions, t.begin(now, name))
		}
	}
	return actions
}

func (i identity) claim() claim { return claim{i.kind, i.name} }
