package standalone

import (
	"cmp"
	"context"
	"crypto/rsa"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/idtoken"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// setIdentities fills in what identities leave open, and has the default one of a task be its
// Identity, however it was written.
func setIdentities(job *nomad.Job) {
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			for _, w := range structs.TaskIdentities(t) {
				setIdentity(w)
			}
			i := slices.IndexFunc(t.Identities, func(w *nomad.WorkloadIdentity) bool { return w.Name == structs.DefaultIdentity })
			if i >= 0 && t.Identity == nil {
				t.Identity = t.Identities[i]
				t.Identities = slices.Concat(t.Identities[:i], t.Identities[i+1:])
			}
		}
	}
}

func setIdentity(w *nomad.WorkloadIdentity) {
	if w.Name == "" {
		w.Name = structs.DefaultIdentity
	}
	if w.Name == structs.DefaultIdentity {
		w.Audience = []string{structs.DefaultAudience}
	}
	w.ChangeSignal = strings.ToUpper(w.ChangeSignal)
}

// SignIdentity implements node.ControlPlane. What a token tells is what the job says.
func (f ForNode) SignIdentity(ctx context.Context, of structs.TaskIdentity, name string) (*structs.IdentityToken, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := f.cp.Allocation(of.AllocID)
	if a == nil {
		return nil, notFound("identity %q: allocation not found", name)
	}
	if a.ClientStatus.Terminal() {
		return nil, errdefs.New(errdefs.FailedPrecondition, "identity %q: the allocation has ended", name)
	}
	task := a.Task(of.Task)
	if task == nil {
		return nil, notFound("identity %q: task not found", name)
	}
	all := structs.TaskIdentities(task)
	i := slices.IndexFunc(all, func(w *nomad.WorkloadIdentity) bool { return structs.IdentityName(w) == name })
	if i < 0 {
		return nil, notFound("identity %q: identity not found", name)
	}
	return f.cp.sign(a, task, all[i])
}

// sign writes a token with the active root key's signing key.
func (cp *ControlPlane) sign(a *structs.Allocation, task *nomad.Task, w *nomad.WorkloadIdentity) (*structs.IdentityToken, error) {
	active, err := cp.activeRootKey()
	if err != nil {
		return nil, err
	}
	key, err := cp.ring.SigningKey(active)
	if err != nil {
		return nil, unreadableKey(err)
	}
	c := idtoken.New(cp.now(), w.TTL)
	c.ID, c.Issuer, c.Audience = cp.newID(), cp.issuer, slices.Clone(w.Audience)
	name := structs.IdentityName(w)
	if name == structs.DefaultIdentity {
		c.Audience = []string{structs.DefaultAudience}
	}
	c.Namespace, c.JobID, c.AllocationID, c.TaskName = a.Namespace, structs.IdentityJobID(a), a.ID, task.Name
	region := nomad.GlobalRegion
	if a.Job != nil {
		region = cmp.Or(structs.Deref(a.Job.Region), region)
	}
	c.Subject = strings.Join([]string{region, c.Namespace, c.JobID, a.TaskGroup, task.Name, name}, ":")
	token, err := idtoken.Sign(c, active, key)
	if err != nil {
		return nil, err
	}
	return &structs.IdentityToken{JWT: token, Expires: c.Expires()}, nil
}

// VerifyIdentity returns the task that a token is of. One that is not good, or whose allocation has
// ended, is an errdefs.PermissionDenied that says why.
func (cp *ControlPlane) VerifyIdentity(token string) (*structs.Workload, error) {
	c, err := idtoken.Verify(token, cp.now(), cp.publicKey)
	if err != nil {
		return nil, refusedIdentity(err.Error())
	}
	a := cp.Allocation(c.AllocationID)
	switch {
	case a == nil:
		return nil, refusedIdentity("allocation does not exist")
	case a.ClientStatus.Terminal():
		return nil, refusedIdentity("allocation is terminal")
	case a.Namespace != c.Namespace || structs.IdentityJobID(a) != c.JobID || a.Task(c.TaskName) == nil:
		return nil, refusedIdentity("its allocation has no such task")
	}
	return cp.workload(a, c.TaskName), nil
}

// workload is a task of an allocation, with what it may do now.
func (cp *ControlPlane) workload(a *structs.Allocation, task string) *structs.Workload {
	w := &structs.Workload{
		TaskIdentity: structs.TaskIdentity{AllocID: a.ID, Task: task},
		Namespace:    a.Namespace, JobID: structs.IdentityJobID(a), Group: a.TaskGroup, Variables: structs.TaskVariables(a, task),
	}
	w.Policies = cp.policiesAttachedTo(w)
	return w
}

func refusedIdentity(why string) error {
	return errdefs.New(errdefs.PermissionDenied, "%s: identity token: %s", structs.ErrACLDenied, why)
}

// publicKey is what tokens of a root key are verified with; nil: there is no such key.
func (cp *ControlPlane) publicKey(id string) (*rsa.PublicKey, error) {
	if known := read(cp, func(t *tables) *nomad.RootKeyMeta { return t.rootKeys[id] }); known == nil {
		return nil, nil
	}
	return cp.ring.PublicKey(id)
}

// IdentityKeys are the public keys of all root keys that tokens may be signed with: also of those
// that are not active any more, until they are removed. What cannot be read is logged.
func (cp *ControlPlane) IdentityKeys() *jose.JSONWebKeySet {
	keys := map[string]*rsa.PublicKey{}
	for _, k := range cp.RootKeys() {
		key, err := cp.publicKey(k.KeyID)
		if err != nil {
			cp.logger.Error("a public key is left out of those that tokens are verified with", "error", err)
		}
		if key != nil {
			keys[k.KeyID] = key
		}
	}
	return idtoken.KeySet(keys)
}

// signsFor reports whether a task that has not ended may have a token that is signed with a root
// key: it was placed before there was a later key. A start of the task later may have given it one
// of that; this is not known.
func (t *tables) signsFor(k *nomad.RootKeyMeta) bool {
	until := int64(0)
	for _, other := range t.rootKeys {
		if other.CreateTime > k.CreateTime && (until == 0 || other.CreateTime < until) {
			until = other.CreateTime
		}
	}
	for _, a := range t.allocs {
		if !a.ClientStatus.Terminal() && (until == 0 || a.CreateTime < until) && hasIdentities(a.Allocation) {
			return true
		}
	}
	return false
}

// hasIdentities reports whether a task of an allocation is given a token.
func hasIdentities(a *structs.Allocation) bool {
	g := a.Group()
	return g != nil && slices.ContainsFunc(g.Tasks, func(t *nomad.Task) bool {
		return slices.ContainsFunc(structs.TaskIdentities(t), func(w *nomad.WorkloadIdentity) bool { return w.Env || w.File })
	})
}
