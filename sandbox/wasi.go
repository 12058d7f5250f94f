package sandbox

import (
	"context"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasmnode/wasmnode/sandbox/descriptor"
)

// The most that one call of WASI is asked for, each some hundred microseconds of work.
// What is longer than a piece and bounded by the guest's memory alone, such as a write, is
// done in pieces, between which the clock is looked at.
const (
	maxVectors       = 1024     // buffers of one read or write, as Linux has it
	maxPath          = 4096     // bytes, as Linux has it
	maxDirectoryRead = 64 << 10 // bytes of entries; C libraries ask for 4 KiB
	maxDescriptor    = 4096     // that a file can be renumbered to: the table has a place for each below
	maxSubscriptions = 1024     // of one poll
)

// The errors of WASI for what lies beyond.
const (
	wasiBadDescriptor = 8
	wasiInvalid       = 28
	wasiNameTooLong   = 37
)

// argumentBound is the most that an argument may be. The function fails with errno for
// more; 0: it does so many, as a short read does.
type argumentBound struct {
	index int
	most  uint32
	errno uint64
}

// firstFile is the first descriptor that is no standard stream.
const firstFile = 3

var (
	vectors     = []argumentBound{{2, maxVectors, 0}}
	wasiBounded = map[string][]argumentBound{
		"fd_pread":                vectors,
		"fd_pwrite":               vectors,
		"fd_read":                 vectors,
		"fd_write":                vectors,
		"sock_recv":               vectors,
		"sock_send":               vectors,
		"fd_readdir":              {{2, maxDirectoryRead, wasiInvalid}},
		"fd_renumber":             {{1, maxDescriptor, wasiBadDescriptor}},
		"poll_oneoff":             {{2, maxSubscriptions, wasiInvalid}},
		"path_create_directory":   pathLengths(2),
		"path_filestat_get":       pathLengths(3),
		"path_filestat_set_times": pathLengths(3),
		"path_link":               pathLengths(3, 6),
		"path_open":               pathLengths(3),
		"path_readlink":           pathLengths(2),
		"path_remove_directory":   pathLengths(2),
		"path_rename":             pathLengths(2, 5),
		"path_symlink":            pathLengths(1, 4),
		"path_unlink_file":        pathLengths(2),
	}
)

func pathLengths(indexes ...int) (bounds []argumentBound) {
	for _, i := range indexes {
		bounds = append(bounds, argumentBound{i, maxPath, wasiNameTooLong})
	}
	return bounds
}

// linkWASI adds wasi_snapshot_preview1 to a runtime.
func linkWASI(ctx context.Context, r wazero.Runtime) error {
	funcs, err := wasiFuncs()
	if err != nil {
		return err
	}
	return LinkHost(ctx, r, wasi_snapshot_preview1.ModuleName, funcs)
}

// wasiFuncs returns the engine's functions, bounded. They have no state of their own: it
// is the calling module's.
var wasiFuncs = sync.OnceValues(func() (map[string]HostFunc, error) {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer func() { _ = r.Close(ctx) }() // nothing of it was instantiated
	module, err := wasi_snapshot_preview1.NewBuilder(r).Compile(ctx)
	if err != nil {
		return nil, err
	}
	funcs := map[string]HostFunc{}
	for name, f := range module.ExportedFunctions() {
		run, ok := f.GoFunction().(api.GoModuleFunction)
		if !ok {
			return nil, fmt.Errorf("%s.%s is no function of Go", wasi_snapshot_preview1.ModuleName, name)
		}
		if name == "fd_filestat_set_times" {
			run = ofFiles(run)
		}
		funcs[name] = HostFunc{f.ParamTypes(), f.ResultTypes(), bounded(descriptor.Over(name, run.Call), wasiBounded[name])}
	}
	return funcs, nil
})

// bounded keeps the arguments of a function within bounds.
func bounded(f api.GoModuleFunction, bounds []argumentBound) api.GoModuleFunc {
	return func(ctx context.Context, m api.Module, stack []uint64) {
		for _, b := range bounds {
			switch {
			case uint32(stack[b.index]) <= b.most:
			case b.errno == 0:
				stack[b.index] = uint64(b.most)
			default:
				stack[0] = b.errno
				return
			}
		}
		f.Call(ctx, m, stack)
	}
}

// ofFiles refuses a function for the standard streams, for which the engine's panics: they
// have no times.
func ofFiles(f api.GoModuleFunction) api.GoModuleFunc {
	return func(ctx context.Context, m api.Module, stack []uint64) {
		if uint32(stack[0]) < firstFile {
			stack[0] = wasiBadDescriptor
			return
		}
		f.Call(ctx, m, stack)
	}
}
