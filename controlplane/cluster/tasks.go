package cluster

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// wireIdentity is which identity of a task is to be signed, and was.
type wireIdentity struct {
	AllocID, WorkloadIdentifier, IdentityName string
	WorkloadType                              int
	JWT                                       string
	Expiration                                time.Time
	Reason                                    string // of one that is not
}

// SignIdentity implements task.Identities: the default identity has come with the allocation,
// the others are asked for.
func (cp *ControlPlane) SignIdentity(ctx context.Context, of structs.TaskIdentity, name string) (*structs.IdentityToken, error) {
	k, err := cp.taskOf(of)
	if err != nil {
		return nil, err
	}
	if name == structs.DefaultIdentity {
		return cp.defaultIdentity(of)
	}
	q, err := cp.reading(k.Namespace)
	if err != nil {
		return nil, err
	}
	q.MinQueryIndex = max(k.CreateIndex, 1) - 1
	var got struct{ SignedIdentities, Rejections []*wireIdentity }
	if err := cp.servers.call(ctx, "Alloc.SignIdentities", struct {
		query
		Identities []*wireIdentity
	}{q, []*wireIdentity{{AllocID: of.AllocID, WorkloadIdentifier: of.Task, IdentityName: name}}}, &got); err != nil {
		return nil, err
	}
	for _, s := range got.SignedIdentities {
		if s != nil && s.IdentityName == name && s.JWT != "" && len(s.JWT) <= maxToken {
			return &structs.IdentityToken{JWT: s.JWT, Expires: s.Expiration}, nil
		}
	}
	reason := "the servers have signed nothing"
	for _, r := range got.Rejections {
		if r != nil {
			reason = r.Reason
		}
	}
	return nil, errdefs.New(errdefs.NotFound, "identity %q of task %q: %s", name, of.Task, reason)
}

// taskOf is the allocation of a task.
func (cp *ControlPlane) taskOf(of structs.TaskIdentity) (*structs.Allocation, error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	k := cp.pulled.known[of.AllocID]
	if k == nil || k.alloc.Task(of.Task) == nil {
		return nil, errdefs.New(errdefs.NotFound, "allocation %q has no task %q", of.AllocID, of.Task)
	}
	return k.alloc, nil
}

// defaultIdentity is the token that has come with a task's allocation.
func (cp *ControlPlane) defaultIdentity(of structs.TaskIdentity) (*structs.IdentityToken, error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if k := cp.pulled.known[of.AllocID]; k != nil && k.identities[of.Task] != "" {
		return &structs.IdentityToken{JWT: k.identities[of.Task]}, nil
	}
	return nil, errdefs.NewRecoverable(errdefs.Unavailable, "the servers have sent no identity of task %q yet", of.Task)
}

// asTask is a query by a task itself, so that servers decide what it may read.
func (cp *ControlPlane) asTask(by structs.TaskIdentity, namespace string) (query, error) {
	a, err := cp.taskOf(by)
	if err != nil {
		return query{}, err
	}
	token, err := cp.defaultIdentity(by)
	if err != nil {
		return query{}, err
	}
	q := query{request: request{Region: cp.cfg.Region, AuthToken: token.JWT}, AllowStale: true}
	q.Namespace = cmp.Or(namespace, a.Namespace)
	return q, nil
}

// wireVariable is a variable, without its items in lists.
type wireVariable struct {
	Namespace, Path          string
	CreateIndex, ModifyIndex uint64
	CreateTime, ModifyTime   int64
	Items                    map[string]string
}

// TaskVariable implements template.Variables. Neither it nor those below wait for a server.
func (cp *ControlPlane) TaskVariable(ctx context.Context, by structs.TaskIdentity, namespace, path string) (*nomad.Variable, error) {
	q, err := cp.asTask(by, namespace)
	if err != nil {
		return nil, err
	}
	var got struct{ Data *wireVariable }
	if err := cp.servers.now(ctx, "Variables.Read", struct {
		query
		Path string
	}{q, path}, &got); err != nil || got.Data == nil {
		return nil, err
	}
	v := got.Data
	return &nomad.Variable{
		Namespace: v.Namespace, Path: v.Path, CreateIndex: v.CreateIndex, ModifyIndex: v.ModifyIndex,
		CreateTime: v.CreateTime, ModifyTime: v.ModifyTime, Items: v.Items,
	}, nil
}

// TaskVariableIndex implements template.Variables.
func (cp *ControlPlane) TaskVariableIndex(ctx context.Context, by structs.TaskIdentity, namespace, path string) (uint64, error) {
	v, err := cp.TaskVariable(ctx, by, namespace, path)
	if err != nil || v == nil {
		return 0, err
	}
	return v.ModifyIndex, nil
}

// TaskVariables implements template.Variables.
func (cp *ControlPlane) TaskVariables(ctx context.Context, by structs.TaskIdentity, namespace, prefix string) ([]*nomad.VariableMetadata, error) {
	q, err := cp.asTask(by, namespace)
	if err != nil {
		return nil, err
	}
	var got struct{ Data []*wireVariable }
	if err := cp.servers.now(ctx, "Variables.List", struct {
		query
		Prefix string
	}{q, prefix}, &got); err != nil {
		return nil, err
	}
	var list []*nomad.VariableMetadata
	for _, v := range got.Data {
		if v != nil {
			list = append(list, &nomad.VariableMetadata{
				Namespace: v.Namespace, Path: v.Path, CreateIndex: v.CreateIndex, ModifyIndex: v.ModifyIndex,
				CreateTime: v.CreateTime, ModifyTime: v.ModifyTime,
			})
		}
	}
	slices.SortFunc(list, func(a, b *nomad.VariableMetadata) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// TaskVariablesStamp implements template.Variables.
func (cp *ControlPlane) TaskVariablesStamp(ctx context.Context, by structs.TaskIdentity, namespace, prefix string) (uint64, error) {
	list, err := cp.TaskVariables(ctx, by, namespace, prefix)
	if err != nil {
		return 0, err
	}
	h := fnv.New64a()
	for _, v := range list {
		_, _ = h.Write([]byte(v.Path)) // a hash takes everything
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, v.ModifyIndex))
	}
	return h.Sum64(), nil
}
