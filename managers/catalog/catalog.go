package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
	"github.com/wasmnode/wasmnode/internal/slots"
	"github.com/wasmnode/wasmnode/internal/wake"
)

// loadsAtOnce bounds the files that are loaded, and held in memory, at the same
// time. Fewer are compiled at once anyway; several have to be under way, so that plugins
// that loop in describe do not hold up the others.
const loadsAtOnce = 8

// Config configures a [Catalog]. Dir, Loader and Logger are required.
type Config struct {
	// Dir is the plugin directory. It has to exist at the start.
	Dir    string
	Loader Loader
	Logger hclog.Logger
	// Settings are in force until [Catalog.Apply].
	Settings Settings
	// Refused is told which file is not taken and why, with no lock held; nil: nobody is.
	Refused func(file, why string)
	// LoadingChanged is called when [Catalog.LoadingFiles] may have changed, with no lock held;
	// nil: nobody is told.
	LoadingChanged func()
	// LookEvery is how often the directory is looked at without being asked to by the
	// kernel; 0: notifications are used, and it is read every 5 s too.
	LookEvery time.Duration
}

// Catalog keeps the plugins in service equal to the files in a directory: those
// whose names end in ".wasm" and do not begin with a dot. Its methods may be called
// concurrently.
type Catalog struct {
	cfg Config

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	loads  *slots.Slots

	mu         sync.Mutex
	started    bool
	directory  DirectoryStatus
	files      files
	registries map[host.Kind]*Registry
}

// identity is what is known of a content.
type identity struct {
	digest        string
	name, version string
	kind          host.Kind
	imported      []string
	signer        pluginsign.PublicKey // who has signed it; zero: nobody was asked for
	granted       func() []string      // nil: nothing
	stats         func() host.Stats    // nil: none
}

// New returns a catalog that is not started. It fails when the directory cannot be found.
func New(cfg Config) (*Catalog, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("plugin directory %s: %w", cfg.Dir, err)
	}
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("plugin directory %s does not exist: create it", dir)
	case err != nil:
		return nil, fmt.Errorf("plugin directory %s: %w", dir, err)
	case !info.IsDir():
		return nil, fmt.Errorf("plugin directory %s is not a directory: move it away", dir)
	}
	cfg.Dir = dir
	ctx, cancel := context.WithCancel(context.Background())
	return &Catalog{
		cfg:        cfg,
		ctx:        ctx,
		cancel:     cancel,
		loads:      slots.New(loadsAtOnce),
		directory:  DirectoryStatus{Path: dir, Since: time.Now()},
		files:      newFiles(cfg.Settings),
		registries: map[host.Kind]*Registry{},
	}, nil
}

// serve has plugins of a registry's type taken into service by it.
func (c *Catalog) serve(r *Registry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registries[r.cfg.Type] = r
}

// Loading reports whether files that were in the directory at the start are not loaded or
// refused yet.
func (c *Catalog) Loading() bool { return !wake.IsClosed(c.files.first) }

// Expects reports whether a file that is being loaded may yet provide the plugin of a name.
func (c *Catalog) Expects(kind host.Kind, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files.expects(claim{kind, name})
}

// Want tells that somebody waits for the plugin of a name: the file that is meant by the name,
// or is called so, is loaded before others that wait for their turn. It may be called before
// Start.
func (c *Catalog) Want(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files.want(name)
}

// Missing returns why there is no plugin of a name.
func (c *Catalog) Missing(kind host.Kind, name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why := c.files.missing(claim{kind, name}); why != "" {
		return why
	}
	return "no plugin in " + c.cfg.Dir + " provides it"
}

// Apply puts other settings in force. What was granted and is no more is not done from then
// on; who must not have a name any more loses it, and who may have it gets it. The error is
// that of another configuration that a plugin in service does not take; then nothing has changed.
func (c *Catalog) Apply(s Settings) error {
	if err := c.check(s); err != nil {
		return err
	}
	c.step(func(t *files, now time.Time) []action { return t.apply(now, s) })
	return nil
}

// check reports which plugins in service would not take the configurations of some settings.
// A plugin whose configuration stays as it is has taken it, or has not worked before either.
func (c *Catalog) check(s Settings) error {
	c.mu.Lock()
	var units []*Unit
	for _, name := range slices.Sorted(maps.Keys(c.files.byName)) {
		u := c.files.byName[name].unit
		if u != nil && !reflect.DeepEqual(c.files.settings.of(u.name).config, s.of(u.name).config) {
			units = append(units, u)
		}
	}
	c.mu.Unlock()
	var errs []error
	for _, u := range units {
		if _, err := u.checkConfig(s.of(u.name).config); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// LoadingFiles returns the names of the files that are being loaded and are not in service
// with an earlier content, sorted.
func (c *Catalog) LoadingFiles() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files.loadingFiles()
}

// Start begins to watch. Managers of plugin types are made before that. A second
// call, or one after Shutdown, does nothing.
func (c *Catalog) Start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.ctx.Err() != nil {
		return
	}
	c.started = true
	w := newWatcher(c.cfg.Dir, c.cfg.Logger)
	w.every, w.meant = c.cfg.LookEvery, func(name string) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.files.settings.means(name)
	}
	lock := &lockWatch{dir: c.cfg.Dir}
	w.before = func() { c.lookAtLock(lock) }
	w.found, w.state = func(all, ready, gone []string) {
		c.step(func(t *files, now time.Time) []action { return t.found(now, all, ready, gone) })
	}, c.setProblem
	c.wg.Go(func() { w.run(c.ctx) })
	c.wg.Go(func() { c.retryUnreadable(retryInterval) })
}

// Shutdown ends watching and loading and returns when both have ended. Managers
// are shut down before. It may be called more than once, and before Start.
func (c *Catalog) Shutdown() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.wg.Wait()
}

// Status returns the status of every plugin file, by file, and of the plugins in
// use whose files are gone.
func (c *Catalog) Status() []PluginStatus {
	c.mu.Lock()
	all := make([]file, 0, len(c.files.byName))
	for _, name := range slices.Sorted(maps.Keys(c.files.byName)) {
		all = append(all, *c.files.byName[name])
	}
	for _, g := range c.files.inUse() {
		all = append(all, file{name: g.file, content: g.content, unit: g.unit})
	}
	c.mu.Unlock()
	statuses := make([]PluginStatus, len(all))
	for i := range all {
		statuses[i] = all[i].status(c.cfg.Dir)
	}
	return statuses
}

// status asks the plugin and its unit: no lock is held.
func (f *file) status(dir string) PluginStatus {
	s := f.content.status(filepath.Join(dir, f.name))
	if f.unit == nil {
		s.State, s.Reason, s.Since = f.state, f.reason, f.since
		if s.Name == "" && f.wants != nil {
			s.Name = f.wants.name
		}
		return s
	}
	s.setHealth(f.unit)
	switch f.state {
	case StateLoading:
		s.Reason = join(s.Reason, "the file has changed and is being loaded")
	case StateRejected:
		s.Reason = join(s.Reason, fmt.Sprintf("the file has changed and was not taken, the version before stays: %s", f.reason))
	}
	return s
}

func (s *PluginStatus) setHealth(u *Unit) {
	h, _ := u.Health()
	s.State, s.Reason, s.WouldGrant, s.Since = h.State, h.Reason, h.WouldGrant, h.Since
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func (i identity) status(path string) PluginStatus {
	s := PluginStatus{Name: i.name, Type: i.kind, Version: i.version, Digest: i.digest, File: path, CapabilitiesImported: []string{}, CapabilitiesGranted: []string{}}
	if i.signer.ID != "" {
		s.SignedBy = i.signer.String()
	}
	s.CapabilitiesImported = append(s.CapabilitiesImported, i.imported...)
	if i.granted != nil {
		s.CapabilitiesGranted = append(s.CapabilitiesGranted, i.granted()...)
	}
	if i.stats != nil {
		s.Stats = i.stats()
	}
	return s
}

// changed returns what is closed when something of the files has changed.
func (c *Catalog) changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files.changed
}

// Directory returns the state of the plugin directory.
func (c *Catalog) Directory() DirectoryStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.directory
	if err := c.files.locked.err; err != nil {
		d.Problem = join(d.Problem, OneLine(err)+": no plugin is taken until it is mended")
	}
	return d
}

// setProblem notes what is wrong with the directory, and logs it once.
func (c *Catalog) setProblem(problem string) {
	c.mu.Lock()
	changed := c.directory.Problem != problem
	if changed {
		c.directory.Problem, c.directory.Since = problem, time.Now()
	}
	c.mu.Unlock()
	switch {
	case !changed:
	case problem == "":
		c.cfg.Logger.Info("the plugin directory can be read again", "dir", c.cfg.Dir)
	default:
		c.cfg.Logger.Error(problem, "dir", c.cfg.Dir)
	}
	if problem != "" {
		c.step(func(t *files, now time.Time) []action {
			t.firstScan(now, nil) // a directory that cannot be read delays no caller
			return nil
		})
	}
}
