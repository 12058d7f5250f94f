package clientrpc

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload/logfile"
)

// What Nomad's client answers where something is left out.
var (
	errNoAllocation = invalid("must provide a valid alloc id")
	errNoTask       = invalid("must provide task name")
	errNoPath       = invalid("must provide a file path")
)

// files opens the directory of an allocation of this node.
func (s *server) files(allocID string) (clientapi.Files, error) {
	if allocID == "" {
		return nil, errNoAllocation
	}
	files, err := s.Node.Files(allocID)
	if errors.Is(err, errdefs.NotFound) {
		return nil, unknownAllocation(allocID)
	}
	return files, err
}

type (
	fileArgs  struct{ AllocID, Path string }
	listReply struct{ Files []*nomad.AllocFileInfo }
	statReply struct{ Info *nomad.AllocFileInfo }
)

func (s *server) listFiles(_ context.Context, args *fileArgs) (any, error) {
	files, err := s.files(args.AllocID)
	if err != nil {
		return nil, err
	}
	entries, err := files.List(args.Path)
	if err != nil {
		return nil, err
	}
	return listReply{clientapi.FileInfos(entries)}, nil
}

func (s *server) statFile(_ context.Context, args *fileArgs) (any, error) {
	files, err := s.files(args.AllocID)
	if err != nil {
		return nil, err
	}
	info, err := clientapi.Stat(files, args.Path)
	if err != nil {
		return nil, err
	}
	return statReply{info}, nil
}

type streamArgs struct {
	AllocID, Path, Origin string
	Offset, Limit         int64
	PlainText, Follow     bool
}

// streamFile sends a file, and with Follow what is added to it.
func (s *server) streamFile(ctx context.Context, args *streamArgs, st *conn) error {
	files, err := s.files(args.AllocID)
	if err != nil {
		return err
	}
	if args.Path == "" {
		return errNoPath
	}
	opts, err := clientapi.Position(args.Origin, args.Offset)
	if err != nil {
		return err
	}
	file, err := clientapi.OpenFile(files, args.Path, opts, args.Limit)
	if err != nil {
		return err
	}
	ctx, cancel := st.Gone(ctx)
	defer cancel()
	return unlessGone(ctx, file.Run(ctx, args.Follow, clientapi.NewFrames(args.PlainText, "", st.Send)))
}

type logsArgs struct {
	AllocID, Task, LogType, Origin string
	Offset                         int64
	PlainText, Follow              bool
}

// logs sends a task's log; with Follow, until the task has ended.
func (s *server) logs(ctx context.Context, args *logsArgs, st *conn) error {
	files, err := s.files(args.AllocID)
	if err != nil {
		return err
	}
	if args.Task == "" {
		return errNoTask
	}
	if err := clientapi.CheckStream(args.LogType); err != nil {
		return err
	}
	opts, err := clientapi.Position(args.Origin, args.Offset)
	if err != nil {
		return err
	}
	if err := s.hasStarted(args.AllocID, args.Task); err != nil {
		return err
	}
	ctx, cancel := st.Gone(ctx)
	defer cancel()
	if opts.Follow = args.Follow; opts.Follow {
		opts.Stop = s.Node.TaskEnd(ctx, args.AllocID, args.Task)
	}
	frames := clientapi.NewFrames(args.PlainText, clientapi.LogsDir, st.Send)
	defer frames.Heartbeats(ctx)()
	err = logfile.Follow(ctx, files.LogPath(args.Task, args.LogType), opts, frames.Send)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return unlessGone(ctx, err)
}

// hasStarted refuses a task that is not the allocation's, or has not run yet.
func (s *server) hasStarted(allocID, task string) error {
	state, err := s.Node.AllocationState(allocID)
	if err != nil {
		return unknownAllocation(allocID)
	}
	is := state.TaskStates[task]
	switch {
	case is == nil || strings.ContainsRune(task, '/'):
		return invalid("unknown task name %q", task)
	case is.StartedAt.IsZero():
		return errdefs.New(errdefs.NotFound, "task %q not started yet. No logs available", task)
	}
	return nil
}

// unlessGone drops the errors of a stream that has nobody to be told any more.
func unlessGone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
