// Package taskpath looks at a task's files by the paths that they have on the node, for a
// driver whose engine opens them there: a job brings links in its archives, and a task makes
// them, and an engine would follow them to anywhere.
//
// Start reading at [Lstat].
package taskpath

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/task"
)

// ErrLink is the error for a path that a link leads to, or that is one.
var ErrLink = errors.New("it is reached by a link")

// Own reports whether a path of the node's lies in, or is, one of the task's directories: its
// own, or the one that the tasks of its allocation share.
func Own(dirs *wasmnodev1.TaskDirectories, name string) bool {
	_, _, own := split(dirs, name)
	return own
}

// Lstat describes the file at a path of the node's, in an operation about the task. False: the
// path is not the task's, and was not looked at. What shares the directory can still change it
// afterwards.
//
// # Errors
//
// [ErrLink]; [fs.ErrNotExist]: nothing is there yet; others of the file system.
func Lstat(ctx context.Context, dirs *wasmnodev1.TaskDirectories, name string) (info fs.FileInfo, own bool, err error) {
	shared, rest, own := split(dirs, name)
	if !own {
		return nil, false, nil
	}
	at := task.Dir(ctx)
	if shared {
		at = task.AllocDir(ctx)
	}
	if len(rest) == 0 {
		info, err = os.Lstat(at)
		return info, true, err
	}
	for _, element := range rest {
		at += "/" + element
		if info, err = os.Lstat(at); err != nil {
			return nil, true, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, true, ErrLink
		}
	}
	return info, true, nil
}

// split returns in which of the task's directories a path is, and the elements below that.
func split(dirs *wasmnodev1.TaskDirectories, name string) (shared bool, rest []string, own bool) {
	name = path.Clean(name)
	for i, dir := range []string{dirs.GetTask(), dirs.GetShared()} {
		if below, ok := strings.CutPrefix(name+"/", dir+"/"); ok && dir != "" {
			return i == 1, strings.FieldsFunc(below, func(r rune) bool { return r == '/' }), true
		}
	}
	return false, nil, false
}
