package standalone

import (
	"cmp"
	"context"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

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
	list := read(f.cp, func(t *tables) (list []*nomad.VariableMetadata) {
		if !may.all {
			for _, path := range may.paths {
				if row := t.variables[variableKey{namespace, path}]; row != nil && namespace == may.namespace && strings.HasPrefix(path, prefix) {
					list = append(list, &row.VariableMetadata)
				}
			}
			return list
		}
		for key, row := range t.variables {
			if key.namespace == namespace && strings.HasPrefix(key.path, prefix) {
				list = append(list, &row.VariableMetadata)
			}
		}
		return list
	})
	slices.SortFunc(list, func(a, b *nomad.VariableMetadata) int { return cmp.Compare(a.Path, b.Path) })
	return list, nil
}

// readableVariables are those that a task may read.
type readableVariables struct {
	all       bool
	namespace string
	paths     []string
}

func (r *readableVariables) has(namespace, path string) bool {
	return r.all || namespace == r.namespace && slices.Contains(r.paths, path)
}

func (f ForNode) readable(ctx context.Context, by structs.TaskIdentity) (*readableVariables, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := f.cp.Allocation(by.AllocID)
	if a == nil {
		return nil, notFound("allocation %q not found", by.AllocID)
	}
	return &readableVariables{all: !f.cp.acl, namespace: a.Namespace, paths: structs.TaskVariables(a, by.Task)}, nil
}

func (f ForNode) mayRead(ctx context.Context, by structs.TaskIdentity, namespace, path string) error {
	may, err := f.readable(ctx, by)
	if err != nil || may.has(namespace, path) {
		return err
	}
	return errdefs.New(errdefs.PermissionDenied, "variable %q in namespace %q: Permission denied: with ACLs, the policy of a task's identity is to read %s in namespace %q",
		path, namespace, strings.Join(may.paths, ", "), may.namespace)
}
