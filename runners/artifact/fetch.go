package artifact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/runners/allocdir"
)

// ErrRefused is what an error is that retrying does not fix: the block asks for
// what is not done, or what it names holds what is not written.
var ErrRefused = errors.New("refused")

// Limits bound the fetching of one artifact. A zero field means the one of
// [DefaultLimits], never "unlimited".
type Limits struct {
	// Bytes bounds what is downloaded, and again what is written.
	Bytes int64
	// Files bounds the files, directories and links that are written.
	Files int64
	// Time bounds all of it.
	Time time.Duration
}

// DefaultLimits has room for what tasks fetch today; the files and the time are Nomad's
// for an archive and for a download.
func DefaultLimits() Limits {
	return Limits{Bytes: 10 << 30, Files: 4096, Time: 30 * time.Minute}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.Bytes <= 0 {
		l.Bytes = d.Bytes
	}
	if l.Files <= 0 {
		l.Files = d.Files
	}
	if l.Time <= 0 {
		l.Time = d.Time
	}
	return l
}

// Request is what to fetch and where to.
type Request struct {
	// Artifact is the block, its references replaced.
	Artifact *nomad.TaskArtifact
	// Dir is the task's directory, which is built.
	Dir *allocdir.TaskDir
	// Owner is who is to own what is written; nil: the agent.
	Owner  *Owner
	Limits Limits
	// Progress is called while the artifact is downloaded, one call at a time, with the bytes
	// that are here of it and those that there will be; 0: that is not known. Nil: nobody
	// wants to know.
	Progress func(done, size int64)
}

// Owner is a user by number.
type Owner struct{ UID, GID int }

// stageName is the directory, in a task's own, that downloads are kept in until they are
// known to be good.
const stageName = ".artifact"

// Fetch downloads an artifact and writes it to its destination. Files that are there are
// replaced, others stay. One artifact of a task is fetched at a time. An error is
// [ErrRefused] if trying again does not help. What was written before it stays.
func Fetch(ctx context.Context, req Request) error {
	src, err := parse(req.Artifact)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err := req.Dir.Contains(src.dest); err != nil {
		return fmt.Errorf("%w: destination %w", ErrRefused, err)
	}
	limits := req.Limits.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, limits.Time, fmt.Errorf("not done within %v", limits.Time))
	defer cancel()

	stage := filepath.Join(req.Dir.Path, stageName)
	if err := os.RemoveAll(stage); err != nil { // an earlier agent's
		return plain(ctx, err)
	}
	if err := os.Mkdir(stage, 0o700); err != nil {
		return plain(ctx, err)
	}
	defer func() { _ = os.RemoveAll(stage) }() // what stays goes with the next one, or the task
	progress := req.Progress
	if progress == nil {
		progress = func(int64, int64) {}
	}
	got, err := src.download(ctx, stage, limits, progress)
	if err != nil {
		return plain(ctx, err)
	}
	return plain(ctx, src.write(ctx, got, req, limits))
}

// plain puts the reason why a context ended in the place of what broke because of it, and
// describes a full disk without the host's paths.
func plain(ctx context.Context, err error) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case boltfile.IsFull(err):
		return errors.New("the node's disk is full")
	}
	return err
}
