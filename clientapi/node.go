package clientapi

import (
	"context"
	"io"
	"io/fs"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// Node is what is asked of a node and its allocations. One that does not run here is
// errdefs.NotFound. All methods may be called concurrently.
type Node interface {
	RestartAllocation(ctx context.Context, allocID, task string, allTasks bool) error
	SignalAllocation(ctx context.Context, allocID, task, signal string) error
	// CanExec returns why no command can be run in a task now; nil: it can be tried.
	CanExec(allocID, task string) error
	// Exec runs a command in a task, and returns how it ended.
	Exec(ctx context.Context, allocID, task string, spec *workload.ExecSpec) (*structs.ExitResult, error)
	AllocationUsage(ctx context.Context, allocID, task string) (*structs.AllocationUsage, error)
	AllocationChecks(allocID string) (map[string]structs.CheckResult, error)
	Files(allocID string) (Files, error)
	// Metadata is the node's, and ApplyMetadata changes it by name; nil unsets.
	Metadata() structs.NodeMeta
	ApplyMetadata(ctx context.Context, changes map[string]*string) (structs.NodeMeta, error)
	HostUsage() (*structs.HostUsage, error)
	// CollectGarbage removes every allocation that has ended.
	CollectGarbage(ctx context.Context)
	// CollectAllocation removes one; errdefs.FailedPrecondition while it runs.
	CollectAllocation(ctx context.Context, allocID string) error
}

// Files reads an allocation's directory. Paths are relative to it and cannot leave
// it; the tasks' secrets are not readable.
type Files interface {
	List(path string) ([]File, error)
	Stat(path string) (File, error)
	ReadAt(path string, offset int64) (io.ReadCloser, error)
	// LogPath is the host path of a task's log files without their number.
	LogPath(task, stream string) string
}

// File is a file or directory of an allocation.
type File struct {
	Name    string
	IsDir   bool
	Size    int64
	Mode    fs.FileMode
	ModTime time.Time
}

// FileInfo renders a file of an allocation.
func FileInfo(f File) *nomad.AllocFileInfo {
	return &nomad.AllocFileInfo{Name: f.Name, IsDir: f.IsDir, Size: f.Size, FileMode: f.Mode.String(), ModTime: f.ModTime}
}

// FileInfos renders the files of a directory.
func FileInfos(files []File) []*nomad.AllocFileInfo {
	list := make([]*nomad.AllocFileInfo, 0, len(files))
	for _, f := range files {
		list = append(list, FileInfo(f))
	}
	return list
}

// Metadata renders the node's metadata, and where it is from.
func Metadata(m structs.NodeMeta) *nomad.NodeMetaResponse {
	if m.Dynamic == nil {
		m.Dynamic = map[string]*string{}
	}
	if m.Static == nil {
		m.Static = map[string]string{}
	}
	return &nomad.NodeMetaResponse{Meta: m.Meta, Static: m.Static, Dynamic: m.Dynamic}
}
