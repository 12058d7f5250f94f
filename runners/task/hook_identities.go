package task

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/claims"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// Identities signs the tokens that tell others who a task is.
type Identities interface {
	// SignIdentity signs an identity that the task's job has for it. What the job does not have
	// is errdefs.NotFound.
	SignIdentity(ctx context.Context, of structs.TaskIdentity, name string) (*structs.IdentityToken, error)
}

// identitiesHook gives a task the tokens of its identities, new ones at each start, and
// others in time while it runs. They are in its environment and in files of its own; of those that
// expire, the times are stored.
type identitiesHook struct {
	signer  Identities
	expires map[string]time.Time // as of the last start, by name; nil: an earlier agent's
	watch   *identityWatch
}

func (*identitiesHook) Name() string { return "identity" }

// exposed are the identities of which a task is given the tokens.
func exposed(t *nomad.Task) (list []*nomad.WorkloadIdentity) {
	for _, w := range structs.TaskIdentities(t) {
		if w.Env || w.File {
			list = append(list, w)
		}
	}
	return list
}

func (h *identitiesHook) Prestart(ctx context.Context, req *PrestartRequest) (*PrestartResult, error) {
	to := ownerOf(req.Task, req.Env, req.Isolated)
	if err := to.giveSecrets(req.Dir); err != nil {
		return nil, recoverable(err)
	}
	h.expires = map[string]time.Time{}
	all := exposed(req.Task)
	if len(all) == 0 || h.signer == nil {
		return nil, nil
	}
	result := &PrestartResult{Env: map[string]string{}, Data: map[string]string{}}
	for _, w := range all {
		name := structs.IdentityName(w)
		if w.ChangeMode == changeSignal {
			if _, err := ParseSignal(w.ChangeSignal); err != nil {
				return nil, fmt.Errorf("%q: change_signal: %w", name, err)
			}
		}
		token, err := h.signer.SignIdentity(ctx, structs.TaskIdentity{AllocID: req.Alloc.ID, Task: req.Task.Name}, name)
		if err != nil {
			return nil, signFailed(err)
		}
		if w.File {
			if err := to.writeToken(req.Dir, tokenFile(w), token.JWT); err != nil {
				return nil, recoverable(fmt.Errorf("%q: %w", name, err))
			}
		}
		if w.Env {
			result.Env[tokenVariable(w)] = token.JWT
		}
		if !token.Expires.IsZero() {
			h.expires[name], result.Data[name] = token.Expires, token.Expires.UTC().Format(time.RFC3339Nano)
		}
	}
	return result, nil
}

// signFailed is the error of an identity. What its job or its node lacks may be there later.
func signFailed(err error) error {
	if errdefs.ClassOf(err) == errdefs.NotFound {
		return abi.NewError(abi.FailedPrecondition, err.Error())
	}
	return recoverable(err)
}

// tokenFile is where the token of an identity is in its task's directory.
func tokenFile(w *nomad.WorkloadIdentity) string {
	switch name := structs.IdentityName(w); {
	case w.Filepath != "":
		return strings.TrimPrefix(path.Clean(w.Filepath), "/")
	case name == structs.DefaultIdentity:
		return path.Join(allocdir.SecretsName, "nomad_token")
	default:
		return path.Join(allocdir.SecretsName, "nomad_"+name+".jwt")
	}
}

// tokenVariable is the variable that has the token of an identity.
func tokenVariable(w *nomad.WorkloadIdentity) string {
	if name := structs.IdentityName(w); name != structs.DefaultIdentity {
		return "NOMAD_TOKEN_" + name
	}
	return "NOMAD_TOKEN"
}

// Poststart begins to watch the tokens that expire.
func (h *identitiesHook) Poststart(ctx context.Context, req *PoststartRequest) error {
	if h.signer == nil {
		return nil
	}
	r := req.Runner
	expires := h.expires
	if expires == nil {
		expires = h.left(r)
	}
	h.expires = nil
	var all []*renewal
	for _, w := range exposed(r.Task()) {
		if w.TTL > 0 {
			all = append(all, &renewal{WorkloadIdentity: w, at: renewAt(time.Now(), expires[structs.IdentityName(w)])})
		}
	}
	if len(all) > 0 {
		h.watch = watchIdentities(ctx, r, h.signer, ownerOf(r.Task(), req.Env(), isolates(r.running().driver)), all)
	}
	return nil
}

// left is when the tokens expire that a running task was given by an earlier agent: those in its
// files are newer than what is stored of its start.
func (h *identitiesHook) left(r *Runner) map[string]time.Time {
	expires := map[string]time.Time{}
	stored := r.local.Hooks[h.Name()]
	for _, w := range exposed(r.Task()) {
		name := structs.IdentityName(w)
		if stored != nil {
			expires[name], _ = time.Parse(time.RFC3339Nano, stored.Data[name]) // none: at once
		}
		if w.File {
			if at := expiryIn(r.cfg.Dir, tokenFile(w)); at.After(expires[name]) {
				expires[name] = at
			}
		}
	}
	return expires
}

// expiryIn reads when the token in a file of the task's expires; zero: it has none. The task can
// write it, and has no more of that than a token that is not renewed.
func expiryIn(dir *allocdir.TaskDir, name string) time.Time {
	root, err := os.OpenRoot(dir.Path)
	if err != nil {
		return time.Time{}
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return time.Time{}
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return time.Time{}
	}
	content, _ := io.ReadAll(io.LimitReader(f, maxTokenFile))
	var says struct {
		Expires int64 `json:"exp"`
	}
	if claims.Read(string(content), &says) != nil {
		return time.Time{}
	}
	return time.Unix(says.Expires, 0)
}

// maxTokenFile bounds what is read of a token's file, in bytes.
const maxTokenFile = 64 << 10

func (h *identitiesHook) PreKill(context.Context) error { h.unwatch(); return nil }
func (h *identitiesHook) Exited(context.Context) error  { h.unwatch(); return nil }
func (h *identitiesHook) Shutdown()                     { h.unwatch() }

func (h *identitiesHook) unwatch() {
	if h.watch != nil {
		h.watch.end()
		h.watch = nil
	}
}
