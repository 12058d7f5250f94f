package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/artifact"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/structs"
)

// artifactsHook downloads a task's artifacts, one after the other, as a later one may
// be written over an earlier one. Each is downloaded once: those that were, before one
// failed, are not again when the task is tried again. What is in the secrets directory ends with
// that, and is downloaded again for the next one.
type artifactsHook struct{ limits artifact.Limits }

func (artifactsHook) Name() string { return "artifacts" }

func (h artifactsHook) Prestart(ctx context.Context, req *PrestartRequest) (*PrestartResult, error) {
	result := &PrestartResult{Data: map[string]string{}}
	maps.Copy(result.Data, req.Previous)
	told := &downloads{amend: req.Amend}
	for _, a := range req.Task.Artifacts {
		key, err := artifactKey(a)
		if err != nil {
			return result, err
		}
		state := artifactDone(req, a)
		if result.Data[key] == state {
			continue
		}
		if told.event == nil {
			told.event, told.at = structs.NewTaskEvent(structs.EventDownloadingArtifacts), time.Now()
			req.Emit(told.event)
		}
		a = replaced(a, req.Env)
		if err := h.fetch(ctx, req, a, told); err != nil {
			return result, artifactFailed(*a.GetterSource, err)
		}
		result.Data[key] = state
	}
	result.Done = true
	return result, nil
}

// Repeats implements [RepeatedHook].
func (artifactsHook) Repeats(req *PrestartRequest) bool {
	return slices.ContainsFunc(req.Task.Artifacts, func(a *nomad.TaskArtifact) bool { return inSecrets(req, a) })
}

func inSecrets(req *PrestartRequest, a *nomad.TaskArtifact) bool {
	return req.Dir.InSecrets(req.Env.Replace(structs.Deref(a.RelativeDest)))
}

// artifactDone is what is left of an artifact that is downloaded, and there still.
func artifactDone(req *PrestartRequest, a *nomad.TaskArtifact) string {
	if inSecrets(req, a) {
		return "done " + req.Dir.SecretsSince()
	}
	return "done"
}

// progressEvery is how often it is told how far a download has come: each time is a durable
// write, and an update of the allocation.
const progressEvery = 3 * time.Second

// downloads tells in the event of a task's downloads how far they have come. It belongs to
// one goroutine.
type downloads struct {
	event *structs.TaskEvent // nil: nothing was to be downloaded yet
	amend func(*structs.TaskEvent, string)
	at    time.Time // when it was told last
}

// of returns what is called with the progress of one artifact.
func (d *downloads) of(source string) func(done, size int64) {
	return func(done, size int64) {
		if time.Since(d.at) < progressEvery {
			return
		}
		d.at = time.Now()
		text := humanize.IBytes(uint64(done))
		if size > 0 {
			text += " of " + humanize.IBytes(uint64(size))
		}
		d.amend(d.event, fmt.Sprintf("%s: %s (%s)", d.event.DisplayMessage, text, artifact.Redacted(source)))
	}
}

func (h artifactsHook) fetch(ctx context.Context, req *PrestartRequest, a *nomad.TaskArtifact, told *downloads) error {
	var owner *artifact.Owner
	if a.Chown {
		var err error
		if owner, err = ownerNamed(req.Env.Replace(req.Task.User)); err != nil {
			return err
		}
	}
	return artifact.Fetch(ctx, artifact.Request{Artifact: a, Dir: req.Dir, Owner: owner, Limits: h.limits, Progress: told.of(*a.GetterSource)})
}

// artifactKey identifies an artifact, as the job has it.
func artifactKey(a *nomad.TaskArtifact) (string, error) {
	data, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("encode an artifact: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// replaced is an artifact with the references in it replaced.
func replaced(a *nomad.TaskArtifact, env *taskenv.Env) *nomad.TaskArtifact {
	text := func(p *string) *string { return new(env.Replace(structs.Deref(p))) }
	table := func(m map[string]string) map[string]string {
		out := make(map[string]string, len(m))
		for key, v := range m {
			out[key] = env.Replace(v)
		}
		return out
	}
	out := *a
	out.GetterSource, out.RelativeDest = text(a.GetterSource), text(a.RelativeDest)
	out.GetterOptions, out.GetterHeaders = table(a.GetterOptions), table(a.GetterHeaders)
	return &out
}

// ownerNamed finds a user of this machine.
func ownerNamed(name string) (*artifact.Owner, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: chown: the task has no user", artifact.ErrRefused)
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("%w: chown: user %q does not exist on this node", artifact.ErrRefused, name)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, fmt.Errorf("chown: user %q: %w", name, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, fmt.Errorf("chown: user %q: %w", name, err)
	}
	return &artifact.Owner{UID: uid, GID: gid}, nil
}

// artifactFailed is the error of a download and its event. The restart policy may try
// again what is not refused.
func artifactFailed(source string, err error) error {
	message := fmt.Sprintf("failed to download artifact %q: %v", artifact.Redacted(source), err)
	cause := errors.New(message)
	if !errors.Is(err, artifact.ErrRefused) {
		cause = abi.NewRecoverableError(abi.Unavailable, message)
	}
	return &HookError{Event: structs.NewTaskEvent(structs.EventArtifactDownloadFailed).WithMessage(message), Err: cause}
}
