package standalone

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// TaskVariable implements node.ControlPlane.
func (f ForNode) TaskVariable(ctx context.Context, by structs.TaskIdentity, namespace, path string) (*nomad.Variable, error) {
	if err := f.mayRead(ctx, by, namespace, path); err != nil {
		return nil, err
	}
	v, err := f.cp.Variable(namespace, path)
	if v != nil {
		v.Lock = nil // whoever knows its ID holds it
	}
	return v, err
}

// TaskVariableIndex implements node.ControlPlane.
func (f ForNode) TaskVariableIndex(ctx context.Context, by structs.TaskIdentity, namespace, path string) (uint64, error) {
	if err := f.mayRead(ctx, by, namespace, path); err != nil {
		return 0, err
	}
	return read(f.cp, func(t *tables) uint64 {
		if row := t.variables[variableKey{namespace, path}]; row != nil {
			return row.ModifyIndex
		}
		return 0
	}), nil
}

// TaskVariables implements node.ControlPlane.
func (f ForNode) TaskVariables(ctx context.Context, by structs.TaskIdentity, namespace, prefix string) ([]*nomad.VariableMetadata, error) {
	may, err := f.readable(ctx, by)
	if err != nil {
		return nil, err
	}
	list := read(f.cp, func(t *tables) []*nomad.VariableMetadata { return may.list(t, namespace, prefix) })
	slices.SortFunc(list, func(a, b *nomad.VariableMetadata) int { return cmp.Compare(a.Path, b.Path) })
	return list, nil
}

// maxStamps bounds the stamps of lists that are remembered.
const maxStamps = 1024

// listStamps are of lists of all variables, as long as none changes: all tasks have the same ones.
type listStamps struct {
	mu    sync.Mutex
	index uint64 // of the variables that they are of
	of    map[variableKey]uint64
}

// TaskVariablesStamp implements node.ControlPlane.
func (f ForNode) TaskVariablesStamp(ctx context.Context, by structs.TaskIdentity, namespace, prefix string) (uint64, error) {
	may, err := f.readable(ctx, by)
	if err != nil {
		return 0, err
	}
	stamp := func(t *tables) uint64 { return stampOf(may.list(t, namespace, prefix)) }
	if !may.all {
		return read(f.cp, stamp), nil
	}
	known := &f.cp.listStamps
	known.mu.Lock()
	defer known.mu.Unlock()
	return read(f.cp, func(t *tables) uint64 {
		if index := f.cp.tables[TableVariables].index; index != known.index || len(known.of) >= maxStamps {
			known.index, known.of = index, map[variableKey]uint64{}
		}
		key := variableKey{namespace, prefix}
		is, found := known.of[key]
		if !found {
			is = stamp(t)
			known.of[key] = is
		}
		return is
	}), nil
}

// stampOf is of a list, whatever its order: which variables are in it, and when each changed last.
func stampOf(list []*nomad.VariableMetadata) (stamp uint64) {
	for _, v := range list {
		h := fnv.New64a()
		_, _ = h.Write(binary.BigEndian.AppendUint64([]byte(v.Path), v.ModifyIndex)) // it never fails
		stamp += h.Sum64()
	}
	return stamp
}

// readableVariables are those that a task may read.
type readableVariables struct {
	all  bool // whatever else is here
	task *structs.Workload
	// rights are what the task has by its policies, and by what is its own anyway.
	rights *acl.Rights
}

// has reports whether a variable may be read or listed, as the operation says.
func (r *readableVariables) has(namespace, path, operation string) bool {
	return r.all || r.rights.Variable(namespace, path, operation)
}

// list are those whose paths have a prefix, in no order.
func (r *readableVariables) list(t *tables, namespace, prefix string) (list []*nomad.VariableMetadata) {
	if !r.all && len(r.task.Policies) == 0 { // few, of which the paths are known
		for _, path := range r.task.Variables {
			if row := t.variables[variableKey{namespace, path}]; row != nil && r.has(namespace, path, "list") && strings.HasPrefix(path, prefix) {
				list = append(list, &row.VariableMetadata)
			}
		}
		return list
	}
	for key, row := range t.variables {
		if key.namespace == namespace && strings.HasPrefix(key.path, prefix) && r.has(namespace, key.path, "list") {
			list = append(list, &row.VariableMetadata)
		}
	}
	return list
}

func (f ForNode) readable(ctx context.Context, by structs.TaskIdentity) (*readableVariables, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := f.cp.Allocation(by.AllocID)
	if a == nil {
		return nil, notFound("allocation %q not found", by.AllocID)
	}
	if !f.cp.acl {
		return &readableVariables{all: true}, nil
	}
	w := f.cp.workload(a, by.Task)
	rights := acl.RightsOf(acl.Anyone, f.cp.rules.All(w.Policies)...).WithOwn(w.MayReadVariable)
	return &readableVariables{task: w, rights: rights}, nil
}

func (f ForNode) mayRead(ctx context.Context, by structs.TaskIdentity, namespace, path string) error {
	may, err := f.readable(ctx, by)
	if err != nil || may.has(namespace, path, "read") {
		return err
	}
	more := ", and no policy is attached to it"
	if names := may.task.Policies; len(names) > 0 {
		more = ", and what is attached to it, " + strings.Join(names, ", ") + ", does not allow it"
	}
	return errdefs.New(errdefs.PermissionDenied, "variable %q in namespace %q: Permission denied: with ACLs, the policy of a task's identity is to read %s in namespace %q%s",
		path, namespace, strings.Join(may.task.Variables, ", "), may.task.Namespace, more)
}
