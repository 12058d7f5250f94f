package host

import (
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/grantsyntax"
	"github.com/wasmnode/wasmnode/workload"
)

// ProcessGrant bounds the processes that a plugin starts as workloads. The zero value
// permits none.
type ProcessGrant struct {
	// Commands are absolute paths of programs; one that ends in "/*" stands for the
	// programs in that directory, not below it, and "*" alone for any.
	Commands []string
	// Users are whom processes may run as, in the words of the request: "nobody",
	// "web:www". "*" alone is any; empty: the node's own user only.
	Users []string
	// Capabilities are those of Linux that isolated processes may be given besides their own,
	// such as "net_raw".
	Capabilities []string
	// Isolation is the least that processes have to have; empty: none.
	Isolation workload.Isolation
	// Paths are what processes with [workload.IsolationPaths] may use, where that is the least:
	// rights and a path, such as "rx:/usr", which also stands for all below it.
	Paths []string
	// Mounts are what isolated processes may have as their root or in it, where their driver
	// asks for that: "r:/srv/images" to read, "rw:/srv/data", with all below it. What is their
	// task's needs none.
	Mounts []string
	// HostNetwork lets processes begin in the node's network whose task has another. It does not
	// go with a least isolation.
	HostNetwork bool
	// Helpers are programs that the plugin itself runs to their end. They are isolated from
	// nothing, so that there are none with a least isolation.
	Helpers []HelperGrant
}

// empty reports whether no program can be run.
func (g ProcessGrant) empty() bool { return len(g.Commands) == 0 && len(g.Helpers) == 0 }

// clone copies a grant, which its giver may change.
func (g ProcessGrant) clone() ProcessGrant {
	g.Commands, g.Users, g.Helpers = slices.Clone(g.Commands), slices.Clone(g.Users), slices.Clone(g.Helpers)
	g.Capabilities, g.Paths, g.Mounts = slices.Clone(g.Capabilities), slices.Clone(g.Paths), slices.Clone(g.Mounts)
	for i, h := range g.Helpers {
		g.Helpers[i] = h.clone()
	}
	return g
}

// faults returns what is not a permission as it is written, but for lists of one syntax.
func (g ProcessGrant) faults() (errs []error) {
	for _, h := range g.Helpers {
		check := func(err error) {
			if err != nil {
				errs = append(errs, fmt.Errorf("grant.process.helper: %w", err))
			}
		}
		check(grantsyntax.Program(h.Command))
		check(grantsyntax.Arguments(h.Args))
		if h.User != "" {
			check(grantsyntax.OneUser(h.User))
		}
		for name, value := range h.Env {
			check(grantsyntax.Variable(name, value))
		}
	}
	if g.isolated() && len(g.Helpers) > 0 {
		errs = append(errs, fmt.Errorf("grant.process.helper: helpers are not isolated, which isolation = %q refuses", g.Isolation))
	}
	if g.isolated() && g.HostNetwork {
		errs = append(errs, fmt.Errorf("grant.process.host_network: isolation = %q keeps processes in their tasks' networks", g.Isolation))
	}
	if len(g.Paths) > 0 && g.Isolation != workload.IsolationPaths {
		errs = append(errs, errors.New(`grant.process.paths: they are for isolation = "paths"`))
	}
	return errs
}

// command reports whether the program at that clean path may be started.
func (g ProcessGrant) command(path string) bool {
	return slices.ContainsFunc(g.Commands, func(granted string) bool {
		directory, all := strings.CutSuffix(granted, "/*")
		switch {
		case granted == grantsyntax.Any:
			return true
		case all:
			return filepath.Dir(path) == filepath.Clean("/"+directory)
		}
		return path == granted
	})
}

// user reports whether processes may run as that user.
func (g ProcessGrant) user(name string) bool {
	if len(g.Users) == 0 {
		return name == ownUser()
	}
	return slices.Contains(g.Users, grantsyntax.Any) || slices.Contains(g.Users, name)
}

// ownUser is whom the node runs as; empty: it has no name.
func ownUser() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// SetIsolation sets the least isolation by its name, "none", "paths" or "full"; empty: none.
// False: it is none of these.
func (g *ProcessGrant) SetIsolation(name string) bool {
	switch i := workload.Isolation(name); i {
	case "", workload.IsolationNone:
		g.Isolation = ""
	case workload.IsolationPaths, workload.IsolationFull:
		g.Isolation = i
	default:
		return false
	}
	return true
}

// isolated reports whether processes have to be.
func (g ProcessGrant) isolated() bool {
	return g.Isolation != "" && g.Isolation != workload.IsolationNone
}

// isolation reports whether a process may have no more isolation than that.
func (g ProcessGrant) isolation(i workload.Isolation) bool {
	return i == workload.IsolationFull || i == g.Isolation || !g.isolated()
}

// path returns the granted path that a clean one lies in, with those rights; empty: every path
// may be used.
func (g ProcessGrant) path(asked workload.Path) (base string, ok bool) {
	if g.Isolation != workload.IsolationPaths {
		return "", true
	}
	for _, granted := range g.Paths {
		rights, base, _ := strings.Cut(granted, ":")
		if strings.Trim(asked.Rights, rights) == "" && within(asked.Path, base) {
			return base, true
		}
	}
	return "", false
}

// mount returns the granted path that a clean one lies in, to be mounted.
func (g ProcessGrant) mount(file string, readOnly bool) (base string, ok bool) {
	for _, granted := range g.Mounts {
		rights, base, _ := strings.Cut(granted, ":")
		if within(file, base) && (readOnly || rights == grantsyntax.ReadWrite) {
			return base, true
		}
	}
	return "", false
}

// list is the grant for people, by kinds.
func (g ProcessGrant) list() [][]string {
	list := [][]string{bounds("commands", g.Commands), bounds("users", g.Users), nil, nil, bounds("capabilities", g.Capabilities), bounds("paths", g.Paths), bounds("mounts", g.Mounts)}
	if g.isolated() {
		list[2] = []string{"isolation:" + string(g.Isolation)}
	}
	if g.HostNetwork {
		list[2] = append(list[2], "network:host")
	}
	for _, h := range g.Helpers {
		list[3] = append(list[3], "helper:"+h.text())
	}
	return list
}

// noProcesses refuses all processes. Which ones the plugin will start is not known here, so
// that the fix is one to complete: it must not be all.
func noProcesses(plugin string) *MissingGrantError {
	fix := processFix(plugin, `commands = ["/path/to/program"]`) + ", naming the programs that tasks may run"
	return &MissingGrantError{plugin, abi.ModuleProcess, fix}
}

// processFix is the configuration that grants a plugin something of processes.
func processFix(plugin, setting string) string {
	return fmt.Sprintf(`plugin %q { grant { process { %s } } }`, plugin, setting)
}
