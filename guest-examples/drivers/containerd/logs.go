package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/wasmnode/wasmnode/sdk/go/task"
)

// What runs a container's processes, the shim, appends their output to files of the task's
// directory: it goes on when the node's agent ends, and when containerd does. The driver copies
// from there, and marks how far it is: so nothing is lost or doubled.

// The streams of a task's output, by the node's numbers.
const (
	stdout = 1
	stderr = 2
)

// outputName is the file of a stream of a container's first process, or of a command, in the task's
// directory.
func outputName(id string, stream uint32) string {
	return "output." + id + "." + strconv.Itoa(int(stream))
}

// beginLogs makes the files, which the shim takes as they are, and marks their beginnings.
func beginLogs(ctx context.Context, id string) error {
	for _, stream := range []uint32{stdout, stderr} {
		if err := createOutput(ctx, outputName(id, stream)); err != nil {
			return err
		}
		if err := task.Mark(ctx, stream, []byte("0")); err != nil {
			return err
		}
	}
	return nil
}

// createOutput makes an empty file where there is nothing: a name that a task has made lead
// elsewhere is not written to.
func createOutput(ctx context.Context, name string) error {
	full := task.Dir(ctx) + "/" + name
	if err := os.Remove(full); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(full, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// removeOutput removes a file of output, if it is there.
func removeOutput(ctx context.Context, name string) error {
	if err := os.Remove(task.Dir(ctx) + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// turn is how much of one stream is copied before it is the other one's turn, in bytes.
const turn = 1 << 20

// tail is a file of output that is copied as it grows.
type tail struct {
	name string
	at   int64 // how much of it is copied
	to   io.Writer
}

// copyNew copies what the file has more, and says how much that was.
func (o *tail) copyNew(ctx context.Context) (n int64, err error) {
	f, err := os.Open(task.Dir(ctx) + "/" + o.name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // there never was any
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(o.at, io.SeekStart); err != nil {
		return 0, err
	}
	n, err = io.Copy(o.to, io.LimitReader(f, turn))
	o.at += n
	return n, err
}

// output is one stream of a container's output on its way to the task's log.
type output struct {
	tail
	stream uint32
}

// outputs are the streams of a container, from where they are in the task's log. An agent that
// ends between output and its mark is none the worse: the node counts what came after a mark.
func outputs(ctx context.Context, id string) (all []*output, err error) {
	for stream, to := range map[uint32]io.Writer{stdout: task.Stdout(ctx), stderr: task.Stderr(ctx)} {
		mark, since, err := task.Marked(ctx, stream)
		if err != nil {
			return nil, err
		}
		at, _ := strconv.ParseInt(string(mark), 10, 64) // 0 without a mark
		all = append(all, &output{tail{outputName(id, stream), at + int64(since), to}, stream})
	}
	return all, nil
}

// copyAll copies what there is more, and says whether there was.
func copyAll(ctx context.Context, all []*output) (more bool, err error) {
	for _, o := range all {
		n, err := o.copyNew(ctx)
		if err == nil && n > 0 {
			more = true
			err = task.Mark(ctx, o.stream, []byte(strconv.FormatInt(o.at, 10)))
		}
		if err != nil {
			return more, err
		}
	}
	return more, nil
}
