package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
	"github.com/wasmnode/wasmnode/internal/wake"
)

// files is what is known of the plugin directory. It is stepped by what is seen of the
// files and by what becomes of loading them; what is to be done about that is returned
// as actions, so that none of it is done under the catalog's lock.
type files struct {
	settings Settings
	locked   locked
	byName   map[string]*file
	gone     []goneFile      // versions in use that are not in charge of any name now
	changed  chan struct{}   // closed and replaced with each change
	wanted   map[string]bool // files that somebody waits for, there or not
	told     []string        // the files that are loading, as it was told last

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
	wants      *claim          // the name that the content gives itself; nil: not known yet
	nameTaken  *nameTakenError // why it was rejected, where that can change
	notMeant   bool            // it was rejected for the operator's settings, which can change
	unreadable bool            // it could not be read, which can change
	lost       bool            // the file is gone
	told       string          // why a content was not taken, as it was told last

	wanted  *atomic.Bool // somebody waits for it
	load    int          // counts loads, to detect a late one
	loading loading      // the load under way
}

// goneFile is a version that tasks use though its file was removed, or must not have its
// name any more.
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

// nameTakenError: another file has, or is about to have, a plugin's name.
type nameTakenError struct {
	claim
	file string // which wanted it
	by   string // file
}

func (e *nameTakenError) Error() string {
	return fmt.Sprintf("the %s %q is already provided by %s; remove one of the two files, or name the one that is meant: plugin %q { file = %q }", e.kind, e.name, e.by, e.name, e.file)
}

// action is what is to be done about a change of the files, with no lock held.
type action interface{ do(c *Catalog) }

type (
	// loadFile: load a file's content, in the place of a load under way.
	loadFile struct {
		f    *file
		load int
	}
	// removeUnit: take a plugin out of service whose file is gone, or must not have its name
	// any more.
	removeUnit struct {
		u   *Unit
		why string
	}
	// tellLoading: tell that other files are loading than before.
	tellLoading struct{}
	// settle: give a plugin what its operator decided.
	settle struct {
		u    *Unit
		what given
	}
	// tellRefused: tell why a file is not taken.
	tellRefused struct{ file, why string }
	// logLine: log what happened.
	logLine struct {
		level hclog.Level
		text  string
		args  []any
	}
)

func newFiles(s Settings) files {
	return files{settings: s, byName: map[string]*file{}, wanted: map[string]bool{}, changed: make(chan struct{}), first: make(chan struct{})}
}

// change wakes who waits for a change.
func (t *files) change() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// found takes what a look found: all files, those with new content, and those that
// are gone.
func (t *files) found(now time.Time, all, ready, gone []string) (actions []action) {
	t.firstScan(now, all)
	for _, name := range gone {
		actions = append(actions, t.removed(now, name)...)
	}
	first, rest := []action{}, []action{}
	for _, name := range ready {
		if load := t.begin(now, name); t.byName[name].wanted.Load() {
			first = append(first, load)
		} else {
			rest = append(rest, load)
		}
	}
	return slices.Concat(actions, first, rest)
}

// maxWanted bounds the files that are remembered to be waited for before they are seen.
const maxWanted = maxPluginFiles

// want notes that somebody waits for the plugin of a name.
func (t *files) want(name string) {
	file := cmp.Or(t.settings.Plugins[name].File, name+pluginSuffix)
	if f := t.byName[file]; f != nil {
		f.wanted.Store(true)
	} else if len(t.wanted) < maxWanted {
		t.wanted[file] = true
	}
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

// loadingFiles are those that are being loaded and not in service with an earlier content, sorted.
func (t *files) loadingFiles() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		if f := t.byName[name]; f.unit == nil && f.state == StateLoading {
			names = append(names, name)
		}
	}
	return names
}

// tellLoading has it told when other files are loading than was told.
func (t *files) tellLoading() (actions []action) {
	if now := t.loadingFiles(); !slices.Equal(now, t.told) {
		t.told = now
		return []action{tellLoading{}}
	}
	return nil
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
		f = &file{name: name, state: StateLoading, since: now, wanted: &atomic.Bool{}}
		f.wanted.Store(t.wanted[name])
		t.byName[name] = f
	}
	return f
}

// begin has a file's content loaded, in the place of a load under way. That one is ended at
// once: what it would put in charge must not replace the plugin of a file that has the name
// by then.
func (t *files) begin(now time.Time, name string) action {
	f := t.file(now, name)
	f.loading.end()
	f.load++
	f.state, f.reason, f.wants, f.nameTaken, f.notMeant, f.unreadable = StateLoading, "", nil, nil, false, false
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
	f.loading.end() // at once, as in begin
	var actions []action
	if f.unit != nil {
		actions = append(actions, logLine{hclog.Info, "a plugin's file was removed", []any{"file", name, "plugin", f.content.name}})
		actions = append(actions, t.retire(f, fileRemoved))
	}
	t.finishFirst(name)
	return actions
}

// fileRemoved is why a plugin is not in service whose file is gone.
const fileRemoved = "its file was removed"

// retire releases a file's version, and with it its name.
func (t *files) retire(f *file, why string) action {
	t.gone = append(t.inUse(), goneFile{f.name, f.content, f.unit})
	u := f.unit
	f.unit = nil
	return removeUnit{u, why}
}

// inUse returns the versions that are retired and still used; others are forgotten.
func (t *files) inUse() []goneFile {
	t.gone = slices.DeleteFunc(t.gone, func(g goneFile) bool { return wake.IsClosed(g.unit.Closed()) })
	return t.gone
}

// has reports whether a version of f is in charge of a name.
func (f *file) has(name claim) bool { return f.unit != nil && f.content.claim() == name }

// asks reports whether a content of f that is not in charge yet may have a name.
func (f *file) asks(name claim) bool {
	return f.state == StateLoading && f.wants != nil && *f.wants == name
}

// keeps reports whether others have to do without a name that f has, or is about to.
func (f *file) keeps(name claim) bool { return f.has(name) || f.asks(name) }

// retryKept has the files try again whose name another had that does not keep it.
func (t *files) retryKept(now time.Time) (actions []action) {
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		taken := t.byName[name].nameTaken
		if taken == nil {
			continue
		}
		if by := t.byName[taken.by]; by == nil || !by.keeps(taken.claim) {
			actions = append(actions, t.begin(now, name))
		}
	}
	return actions
}

// isInCharge returns the unit of a content that is in charge already, else nil.
func (t *files) isInCharge(f *file, load int, digest string, signer pluginsign.PublicKey) (u *Unit, actions []action) {
	if f.unit == nil || f.content.digest != digest {
		return nil, nil
	}
	if t.isUntrusted(f) { // until now
		f.content.signer = signer
		actions = append(actions, t.provide(f))
	}
	f.content.signer = signer
	if f.load == load {
		f.state, f.reason = "", ""
	}
	t.finishFirst(f.name)
	return f.unit, actions
}

// decision is what comes of asking for a name.
type decision struct {
	wait     bool // and ask again when something has changed
	replaces bool // a version of the file has the name now
	given    given
	actions  []action
}

// claim decides whether f gets the name that its content gives itself. The settings decide,
// and which files are there, but not which of them was loaded first: f waits while a file that
// would have the name before it is not described yet.
func (t *files) claim(now time.Time, f *file, load int, what identity) (d decision, err error) {
	if f.lost || f.load != load {
		return d, ErrShutdown
	}
	name := what.claim()
	f.wants, f.reason = &name, ""
	if err := t.refusal(name, f.name, what.digest); err != nil {
		return d, err
	}
	d.replaces, d.given = f.has(name), t.settings.of(name.name)
	for _, other := range slices.Sorted(maps.Keys(t.byName)) {
		o := t.byName[other]
		switch {
		case o == f || !t.settings.before(name.name, other, f.name):
		case o.keeps(name):
			return d, &nameTakenError{claim: name, file: f.name, by: other}
		case o.state == StateLoading && o.wants == nil && !d.replaces:
			f.reason = fmt.Sprintf("waiting for %s, which may have the name %q before it", other, name.name)
			d.wait = true
		}
	}
	if d.wait {
		return d, nil
	}
	// What another is about to put in charge must not replace what f will.
	for _, other := range slices.Sorted(maps.Keys(t.byName)) {
		if o := t.byName[other]; o != f && o.asks(name) {
			d.actions = append(d.actions, t.begin(now, other))
		}
	}
	return d, nil
}

// refusal returns why a file of that content must not have a name, as a [*notMeantError]; nil:
// it may.
func (t *files) refusal(c claim, file, digest string) error {
	if err := t.settings.refusal(c, file, digest); err != nil {
		return err
	}
	return t.unlocked(file, digest)
}

// unclaim notes that what wanted a name will not have it.
func (t *files) unclaim(f *file, load int) {
	if f.load == load {
		f.wants = nil
	}
}

// loaded notes that a content of f is in charge, or was until another took its place.
func (t *files) loaded(now time.Time, f *file, load int, u *Unit, what identity, replaces bool) (actions []action) {
	name := what.claim()
	if f.unit != nil && !replaces {
		actions = append(actions, t.retire(f, "its file has another plugin in it"))
	}
	f.unit, f.content, f.told = u, what, ""
	if f.load == load {
		f.state, f.reason = "", ""
	}
	said := []any{"file", f.name, "plugin", what.name, "version", what.version, "digest", what.digest[:12]}
	if what.signer.ID != "" {
		said = append(said, "signed_by", what.signer.String())
	}
	actions = append(actions, logLine{hclog.Info, "plugin loaded", said})
	t.finishFirst(f.name)
	actions = append(actions, t.retryReplaced(now, name)...)
	switch {
	case f.unit == nil:
	case f.lost:
		actions = append(actions, t.retire(f, fileRemoved))
	default:
		actions = append(actions, t.misspelt(what.name)...)
		actions = append(actions, t.review(now, f)...)
		if t.isUnlocked(f) || t.isUntrusted(f) { // by what came while it was loaded
			actions = append(actions, t.begin(now, f.name))
		}
	}
	return actions
}

// retryReplaced has the files try again that were in charge of a name until another was. They
// are refused then, for a reason, unless the name is theirs and the other was first to be
// put in charge.
func (t *files) retryReplaced(now time.Time, name claim) (actions []action) {
	for _, other := range slices.Sorted(maps.Keys(t.byName)) {
		if o := t.byName[other]; o.has(name) && wake.IsClosed(o.unit.replaced) {
			o.unit = nil
			actions = append(actions, t.begin(now, other))
		}
	}
	return actions
}

// rejected notes why a content is not in charge.
func (t *files) rejected(now time.Time, f *file, load int, what identity, err error) []action {
	if f.lost || f.load != load {
		return nil // another load reports
	}
	f.state, f.reason = StateRejected, OneLine(err)
	actions := append(t.retireUnlocked(f), t.retireUntrusted(f)...)
	if f.unit == nil {
		f.content, f.since = what, now
	}
	var unreadable *unreadableError
	f.unreadable = errors.As(err, &unreadable)
	errors.As(err, &f.nameTaken)
	var notMeant *notMeantError
	f.notMeant = errors.As(err, &notMeant)
	t.finishFirst(f.name)
	if f.told != f.reason { // what is tried again is told once
		f.told = f.reason
		actions = append(actions, tellRefused{f.name, f.reason})
	}
	return append(actions, logLine{hclog.Warn, "plugin file not taken", []any{"file", f.name, "reason", f.reason}})
}

// expects reports whether a file that is being loaded may yet have a name.
func (t *files) expects(c claim) bool {
	meant := t.settings.meant(c.name)
	switch {
	case t.settings.refused(c) != "":
		return false
	case meant == "" || !t.looked:
		return !wake.IsClosed(t.first)
	}
	f := t.byName[meant]
	return f != nil && f.state == StateLoading
}

// missing returns what is wrong with the one file that may have a name; "": any may.
func (t *files) missing(c claim) string {
	meant := t.settings.meant(c.name)
	switch f := t.byName[meant]; {
	case t.settings.refused(c) != "":
		return t.settings.refused(c)
	case meant == "":
		return ""
	case f == nil:
		return meant + ", which the configuration means by that name, is not there"
	case f.unit != nil:
		return fmt.Sprintf("%s, which the configuration means by that name, calls itself %q", meant, f.content.name)
	default:
		return fmt.Sprintf("%s, which the configuration means by that name, is %s: %s", meant, f.state, f.reason)
	}
}

// apply puts other settings in force: for what is in charge, and for what was refused by
// those before or is about to be taken into service by them.
func (t *files) apply(now time.Time, s Settings) (actions []action) {
	resigned := !reflect.DeepEqual(t.settings.TrustedKeys, s.TrustedKeys)
	t.settings = s
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		f := t.byName[name]
		if f.unit != nil {
			actions = append(actions, t.misspelt(f.content.name)...)
			actions = append(actions, t.review(now, f)...)
		}
		if t.isUnlocked(f) || t.isUntrusted(f) || resigned && f.state == StateLoading || f.notMeant || f.nameTaken != nil || f.state == StateLoading && f.wants != nil {
			actions = append(actions, t.begin(now, name))
		}
	}
	return actions
}

// review gives the plugin in charge what it is given now, or takes the name from it that it
// must not have.
func (t *files) review(now time.Time, f *file) []action {
	err := t.settings.refusal(f.content.claim(), f.name, f.content.digest)
	if err == nil {
		return []action{t.provide(f)}
	}
	return []action{
		settle{f.unit, given{grants: t.settings.Others}}, // it may run tasks
		t.retire(f, OneLine(err)),
		t.begin(now, f.name), // which is refused, with the reason
	}
}

// provide gives the plugin in charge what is meant for its name. One whose signer is not trusted any
// more has only what others have: it keeps its name until it is seen whether another has signed it.
func (t *files) provide(f *file) action {
	if t.isUntrusted(f) {
		return settle{f.unit, given{grants: t.settings.Others}}
	}
	return settle{f.unit, t.settings.of(f.content.name)}
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
