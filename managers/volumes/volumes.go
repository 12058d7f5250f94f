package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// Config configures a manager. All fields are required but PluginDir.
type Config struct {
	// Dir is where all volumes are: absolute. It is made when it is needed.
	Dir string
	// PluginDir has the plugins besides the built-in one; it need not be there.
	PluginDir string
	NodePool  string
	Logger    hclog.Logger
}

// Manager makes volumes. Its methods may be called concurrently, but for one volume one at
// a time.
type Manager struct {
	cfg     Config
	running chan struct{} // one for each plugin that runs; capacity pluginsAtOnce
}

// New returns a manager.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, running: make(chan struct{}, pluginsAtOnce)}
}

// plugin makes volumes and removes them. Doing either again changes nothing.
type plugin interface {
	fingerprint(ctx context.Context) (version string, err error)
	create(ctx context.Context, v *nomad.HostVolume) (structs.MadeVolume, error)
	remove(ctx context.Context, v *nomad.HostVolume) error
}

// Plugins returns the versions of all plugins by their names. One that does not answer as it
// should is left out, and told in the log.
func (m *Manager) Plugins(ctx context.Context) map[string]string {
	var mu sync.Mutex
	versions := map[string]string{mkdirPlugin: mkdirVersion}
	var asked sync.WaitGroup
	for _, name := range m.external() {
		asked.Go(func() {
			p, err := m.find(name)
			version := ""
			if err == nil {
				version, err = p.fingerprint(ctx)
			}
			if err != nil {
				m.cfg.Logger.Warn("a host volume plugin is left out", "dir", m.cfg.PluginDir, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			versions[name] = version
		})
	}
	asked.Wait()
	return versions
}

// external are the names of the files in the plugin directory that can be run.
func (m *Manager) external() (names []string) {
	entries, err := os.ReadDir(m.cfg.PluginDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && m.cfg.PluginDir != "" {
		m.cfg.Logger.Warn("host volume plugins cannot be looked for", "error", err)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(m.cfg.PluginDir, e.Name()))
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		switch name := e.Name(); {
		case name == mkdirPlugin:
			m.cfg.Logger.Warn("a host volume plugin is left out: the built-in one has its name", "dir", m.cfg.PluginDir, "plugin", name)
		case !validPlugin.MatchString(name):
			m.cfg.Logger.Warn("a host volume plugin is left out: its name has other characters than letters, digits, '.', '_' and '-'", "dir", m.cfg.PluginDir, "plugin", name)
		case len(names) == maxPlugins:
			m.cfg.Logger.Warn("host volume plugins are left out: there are too many", "dir", m.cfg.PluginDir, "most", maxPlugins)
			return names
		default:
			names = append(names, name)
		}
	}
	return names
}

// find returns a plugin. A name that leads out of the directory is none.
func (m *Manager) find(name string) (plugin, error) {
	if name == mkdirPlugin {
		return mkdir{m.cfg.Dir}, nil
	}
	none := errdefs.New(errdefs.FailedPrecondition, "there is no host volume plugin %q in %s", name, m.cfg.PluginDir)
	if !validPlugin.MatchString(name) {
		return nil, none
	}
	info, err := os.Stat(filepath.Join(m.cfg.PluginDir, name))
	switch {
	case err != nil || !info.Mode().IsRegular():
		return nil, none
	case info.Mode()&0o111 == 0:
		return nil, errdefs.New(errdefs.FailedPrecondition, "host volume plugin %q in %s is not executable", name, m.cfg.PluginDir)
	}
	return external{name: name, cfg: m.cfg, running: m.running}, nil
}

// Create has the volume's plugin make it, or say where it was made. It takes as long as the
// plugin does, a minute at most.
//
// # Errors
//
// They are of one line, and errdefs.FailedPrecondition: there is no such plugin, it failed, or
// what it made is not a directory below the directory of volumes.
func (m *Manager) Create(ctx context.Context, v *nomad.HostVolume) (made structs.MadeVolume, err error) {
	if err := checkID(v.ID); err != nil {
		return made, err
	}
	p, err := m.find(v.PluginID)
	if err != nil {
		return made, err
	}
	if err := os.MkdirAll(m.cfg.Dir, 0o711); err != nil {
		return made, failed("host volumes cannot be made: client.host_volumes_dir: %v", err)
	}
	if made, err = p.create(ctx, v); err != nil {
		return made, failed("host volume plugin %q cannot make volume %q: %v", v.PluginID, v.Name, err)
	}
	if made.Path, err = m.Inside(made.Path); err != nil {
		return made, failed("host volume plugin %q made volume %q where it cannot be used: %v", v.PluginID, v.Name, err)
	}
	return made, nil
}

// Find returns where a volume is that was not made by a plugin. Errors are as of Create.
func (m *Manager) Find(v *nomad.HostVolume) (structs.MadeVolume, error) {
	path, err := m.Inside(v.HostPath)
	if err != nil {
		return structs.MadeVolume{}, failed("volume %q: host_path: %v", v.Name, err)
	}
	return structs.MadeVolume{Path: path, CapacityBytes: v.CapacityBytes}, nil
}

// Inside returns the path without links of a directory below that of the volumes. Any other
// is an error: what is mounted into tasks is what the operator said may be.
func (m *Manager) Inside(path string) (resolved string, err error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is no absolute path", path)
	}
	if resolved, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	info, err := os.Stat(resolved)
	switch {
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s is no directory", path)
	}
	dir, err := filepath.EvalSymlinks(m.cfg.Dir)
	if err != nil {
		return "", fmt.Errorf("client.host_volumes_dir: %w", err)
	}
	below, err := filepath.Rel(dir, resolved)
	if err != nil || below == "." || below == ".." || strings.HasPrefix(below, ".."+string(filepath.Separator)) {
		return "", fmt.Errorf("%s is not below client.host_volumes_dir, which is %s", path, m.cfg.Dir)
	}
	return resolved, nil
}

// Delete has the volume's plugin remove it with all that it has. One that no plugin made stays
// as it is. Errors are as of Create.
func (m *Manager) Delete(ctx context.Context, v *nomad.HostVolume) error {
	if v.PluginID == "" {
		return nil
	}
	if err := checkID(v.ID); err != nil {
		return err
	}
	p, err := m.find(v.PluginID)
	if err != nil {
		return err
	}
	if err := p.remove(ctx, v); err != nil {
		return failed("host volume plugin %q cannot delete volume %q: %v", v.PluginID, v.Name, err)
	}
	return nil
}

// checkID refuses what cannot be the name of a directory of the volumes': what is there is removed
// by it.
func checkID(id string) error {
	if !filepath.IsLocal(id) || id != filepath.Base(id) || strings.HasPrefix(id, ".") {
		return failed("a volume's ID %q cannot be the name of its directory", id)
	}
	return nil
}

// failed is an error that says what the machine lacks for what was asked for.
func failed(format string, args ...any) error {
	return errdefs.New(errdefs.FailedPrecondition, format, args...)
}

// sorted are the names in a map, in order.
func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
