package host

import (
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
	// FullIsolation: processes have to be isolated.
	FullIsolation bool
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

// isolation reports whether a process may have no more isolation than that.
func (g ProcessGrant) isolation(i workload.Isolation) bool {
	return i == workload.IsolationFull || !g.FullIsolation
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
