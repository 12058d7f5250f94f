package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/grantsyntax"
)

// Grants are what an operator permits a plugin. The zero value permits what every
// plugin has: to be called, to log, to report on its tasks, clocks, randomness, and
// WASI programs from a task's own directory.
type Grants struct {
	FS      FSGrant
	Wasm    WasmGrant
	Process ProcessGrant
	Devices DeviceGrant
	Net     NetGrant
	HTTP    HTTPGrant
	KV      KVGrant
}

// FSGrant is the directories that a plugin's own code sees, at the paths that they
// have on the host. Absolute, clean paths; no patterns.
type FSGrant struct {
	ReadOnly  []string
	ReadWrite []string
}

// WasmGrant bounds the WASI programs that a plugin starts as workloads.
type WasmGrant struct {
	// Denied: none at all.
	Denied bool
	// Directories are where absolute module paths and mounts may lie, beside the
	// task's own directories. Absolute, clean paths; no patterns.
	Directories []string
	// MaxPrograms bounds how many the plugin may have started and not seen end; 0:
	// the supervisor's own bound.
	MaxPrograms int
}

// KVGrant lets a plugin keep values in the node's database.
type KVGrant struct{ Enabled bool }

// DeviceGrant bounds what a device plugin hands to tasks. Mounts it may hand on from
// what it sees itself: see [Grants.Mountable].
type DeviceGrant struct {
	// Nodes are device nodes, or directories of them, below /dev. The last element
	// may end in '*', for any rest of a name: "/dev/nvidia*".
	Nodes []string
}

// Mountable reports whether a device plugin may have a host path mounted into a task:
// what it may read itself read-only, what it may write to either way. Paths are
// compared as they are written.
func (g Grants) Mountable(path string, readOnly bool) bool {
	dirs := g.FS.ReadWrite
	if readOnly {
		dirs = slices.Concat(g.FS.ReadOnly, g.FS.ReadWrite)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool { return within(path, dir) })
}

// NodeGranted reports whether a device plugin may hand a device node to a task.
func (g Grants) NodeGranted(path string) bool {
	return slices.ContainsFunc(g.Devices.Nodes, func(granted string) bool {
		if prefix, any := strings.CutSuffix(granted, "*"); any {
			rest, ok := strings.CutPrefix(path, prefix)
			return ok && !strings.Contains(rest, "/")
		}
		return within(path, granted)
	})
}

// within reports whether a clean path is a directory or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

func (g Grants) clone() Grants {
	g.FS.ReadOnly = slices.Clone(g.FS.ReadOnly)
	g.FS.ReadWrite = slices.Clone(g.FS.ReadWrite)
	g.Wasm.Directories = slices.Clone(g.Wasm.Directories)
	g.Process = g.Process.clone()
	g.Devices.Nodes = slices.Clone(g.Devices.Nodes)
	g.Net.Addresses = slices.Clone(g.Net.Addresses)
	g.Net.Sockets = slices.Clone(g.Net.Sockets)
	g.Net.Namespaces = slices.Clone(g.Net.Namespaces)
	g.HTTP = g.HTTP.clone()
	return g
}

// paths are the directories of a grant, by their keys in the configuration.
func (g Grants) paths() []grantedPaths {
	return []grantedPaths{
		{"fs.read_only", g.FS.ReadOnly},
		{"fs.read_write", g.FS.ReadWrite},
		{"wasm.directories", g.Wasm.Directories},
		{"net.namespaces", g.Net.Namespaces},
	}
}

type grantedPaths struct {
	key   string
	paths []string
}

// Faults returns what is not a permission as it is written: such as a path that is not
// absolute and clean. Each begins with its key.
func (g Grants) Faults() (errs []error) {
	check := func(key string, texts []string, syntax func(string) error) {
		for _, text := range texts {
			if err := syntax(text); err != nil {
				errs = append(errs, fmt.Errorf("grant.%s: %w", key, err))
			}
		}
	}
	for _, granted := range g.paths() {
		check(granted.key, granted.paths, grantsyntax.Path)
	}
	for _, dir := range slices.Concat(g.FS.ReadOnly, g.FS.ReadWrite) {
		if within(dir, abi.TaskDir) {
			errs = append(errs, fmt.Errorf("grant.fs: %q is where drivers see their tasks' directories, which need no grant", dir))
		}
	}
	check("devices.nodes", g.Devices.Nodes, grantsyntax.Node)
	check("process.commands", g.Process.Commands, grantsyntax.Command)
	check("process.users", g.Process.Users, grantsyntax.User)
	check("process.capabilities", g.Process.Capabilities, linuxCapability)
	check("process.paths", g.Process.Paths, grantsyntax.PathRights)
	check("process.mounts", g.Process.Mounts, grantsyntax.Mount)
	check("net.addresses", g.Net.Addresses, grantsyntax.Address)
	check("net.sockets", g.Net.Sockets, grantsyntax.Socket)
	for _, e := range g.HTTP.Endpoints {
		check("http.endpoint", []string{e.Endpoint}, grantsyntax.Endpoint)
		check("http.endpoint.methods", e.Methods, grantsyntax.Method)
		check("http.endpoint.paths", e.Paths, grantsyntax.URLPath)
		if len(e.Paths) == 0 {
			errs = append(errs, fmt.Errorf("grant.http.endpoint: %q has no paths: \"/\" is all", e.Endpoint))
		}
	}
	errs = append(errs, g.Process.faults()...)
	if g.Wasm.MaxPrograms < 0 {
		errs = append(errs, fmt.Errorf("grant.wasm.max_programs: %d is negative", g.Wasm.MaxPrograms))
	}
	return errs
}

// Validate reports everything that is not one clear permission: the faults, and a path
// that is granted twice.
func (g Grants) Validate() error {
	errs := g.Faults()
	granted := map[string]string{}
	for _, group := range g.paths() {
		space, _, _ := strings.Cut(group.key, ".")
		for _, path := range group.paths {
			if other, twice := granted[space+path]; twice {
				errs = append(errs, fmt.Errorf("grant.%s: %q is granted twice, here and in %s", group.key, path, other))
			}
			granted[space+path] = group.key
		}
	}
	return errors.Join(errs...)
}

// MissingGrantError names what a plugin needs that the operator has not granted.
type MissingGrantError struct {
	Plugin     string
	Capability string
	// Fix is the configuration that would grant it.
	Fix string
}

// Error returns one line.
func (e *MissingGrantError) Error() string {
	return fmt.Sprintf("needs grant %s: add %s", e.Capability, e.Fix)
}

// lacking refuses something of a capability that is not granted at all.
func lacking(e *MissingGrantError) error {
	return &notGrantedError{abi.NewError(abi.PermissionDenied, e.Error()), e.Fix}
}

// notGrantedError is what a plugin is answered that asked for one thing too much. It is
// listed in [Stats.NotGranted].
type notGrantedError struct {
	err *abi.Error
	fix string
}

// notGranted refuses something, and names the configuration that would grant it.
func notGranted(what, fix string) error {
	return &notGrantedError{abi.NewError(abi.PermissionDenied, fmt.Sprintf("%s is not granted: add %s", what, fix)), fix}
}

// Error returns one line.
func (e *notGrantedError) Error() string { return e.err.Message }

// Unwrap returns the error that the plugin gets.
func (e *notGrantedError) Unwrap() error { return e.err }

// missingGrant compares the plugin's imports with its grants. What it does without, as it says
// itself, is refused when it asks for it.
func (p *Plugin) missingGrant(g Grants) error {
	for _, module := range p.spec.needed(p.description) {
		if err := p.spec.missing(p.Name(), module, g); err != nil {
			return err
		}
	}
	return nil
}

// needed are the host modules that a plugin imports and does not do without.
func (s *Spec) needed(says *wasmnodev1.DriverDescribeResponse) []string {
	return slices.DeleteFunc(slices.Clone(s.Capabilities), func(module string) bool {
		return slices.Contains(says.GetOptionalCapabilities(), module)
	})
}

// Needs is what a plugin that says so of itself has to be granted before a node uses it.
func (s *Spec) Needs(says *wasmnodev1.DriverDescribeResponse) (needs []*MissingGrantError) {
	for _, module := range s.needed(says) {
		var e *MissingGrantError
		if errors.As(s.missing(says.GetName(), module, Grants{}), &e) {
			needs = append(needs, e)
		}
	}
	return needs
}

// missing returns why a host module that the plugin imports may not be used at all. A
// driver connects to its tasks' own sockets without any grant.
func (s *Spec) missing(plugin, module string, g Grants) error {
	switch {
	case module == abi.ModuleWasm && g.Wasm.Denied:
		return noPrograms(plugin)
	case module == abi.ModuleProcess && g.Process.empty():
		if s.Links(module, abi.FuncProcessRun) && !s.Links(module, abi.FuncProcessStart) {
			return noHelpers(plugin)
		}
		return noProcesses(plugin)
	case module == abi.ModuleNet && s.Kind != KindDriver && g.Net.empty():
		return noConnections(plugin)
	case module == abi.ModuleHTTP && len(g.HTTP.Endpoints) == 0:
		return noRequests(plugin)
	case module == abi.ModuleKV && !g.KV.Enabled:
		return noStore(plugin)
	}
	return nil
}

// noStore refuses to keep anything.
func noStore(plugin string) *MissingGrantError {
	return &MissingGrantError{plugin, abi.ModuleKV, fmt.Sprintf(`plugin %q { grant { kv { enabled = true } } }`, plugin)}
}

// noPrograms refuses all programs.
func noPrograms(plugin string) *MissingGrantError {
	return &MissingGrantError{plugin, abi.ModuleWasm, fmt.Sprintf(`plugin %q { grant { wasm { enabled = true } } }`, plugin)}
}

// Granted lists the host modules that the plugin imports and may use, and the bounds
// of those that have some, for people.
func (p *Plugin) Granted() []string {
	s := p.pool.settings()
	if s == nil {
		return nil
	}
	var out []string
	for _, module := range p.spec.Capabilities {
		if p.spec.missing(p.Name(), module, s.grants) != nil {
			continue
		}
		switch module {
		case abi.ModuleWASI:
			out = append(out, describeGrant(module, bounds("ro", s.grants.FS.ReadOnly), bounds("rw", s.grants.FS.ReadWrite)))
		case abi.ModuleWasm:
			out = append(out, describeGrant(module, bounds("dirs", s.grants.Wasm.Directories)))
		case abi.ModuleProcess:
			out = append(out, describeGrant(module, append(s.grants.Process.list(), bounds("namespace", s.grants.Net.Namespaces))...))
		case abi.ModuleNet:
			own := []string{}
			if p.spec.Kind == KindDriver {
				own = append(own, "sockets-of-tasks")
			}
			out = append(out, describeGrant(module, own, bounds("address", s.grants.Net.Addresses), bounds("socket", s.grants.Net.Sockets)))
		case abi.ModuleHTTP:
			out = append(out, describeGrant(module, s.grants.HTTP.list()))
		default:
			out = append(out, module)
		}
	}
	return out
}

// bounds are the things that a grant names, each with its kind.
func bounds(kind string, names []string) (out []string) {
	for _, name := range names {
		out = append(out, kind+":"+name)
	}
	return out
}

func describeGrant(module string, bounds ...[]string) string {
	all := slices.Concat(bounds...)
	if len(all) == 0 {
		return module
	}
	return module + "(" + strings.Join(all, " ") + ")"
}
