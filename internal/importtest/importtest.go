// Package importtest makes guests for tests that call one function of their host over and
// over, with the arguments that give it the most to do. Start reading at [Loop].
package importtest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasmnode/wasmnode/internal/modtest"
)

// What is where in the memory of a guest, most of which is the letter 'a'.
const (
	Pages     = 1900 // of its memory: 118 MiB
	MessageAt = 512 << 10

	scratch  = 48 << 10
	fileAt   = 50 << 10 // the name of [File]
	dirAt    = 51 << 10 // that of [Directory]
	begunAt  = 52 << 10 // that of [Begun]
	vectors  = 64 << 10
	zeros    = 4 << 20 // up to lettersAt
	letters  = 40 << 20
	length   = 70 << 20
	manyVecs = 2048
)

// The files that a guest finds in the directory that it has as descriptor 3.
const (
	File      = "big"  // becomes descriptor 4
	Directory = "many" // becomes descriptor 5
)

// Begun is a file that a guest makes there when it begins to loop. To fill its memory before
// takes a busy machine longer than tests let it run.
const Begun = "begun"

// worst are arguments for functions whose work grows with them, by name. A function without
// any is called with zeros, and with the largest of all.
var worst = map[string][][]int64{
	"fd_pread":                {{4, vectors, 1 << 20, 0, scratch}, {4, vectors, 1000, 0, scratch}},
	"fd_pwrite":               {{4, vectors, 1000, 0, scratch}},
	"fd_read":                 {{4, vectors, 1000, scratch}, {0, vectors, 1000, scratch}},
	"fd_write":                {{1, vectors, 1000, scratch}, {2, zeros, 1 << 20, scratch}, {4, vectors, 1000, scratch}},
	"fd_readdir":              {{5, zeros, 64 << 10, 0, scratch}, {5, zeros, 64 << 20, 0, scratch}},
	"fd_renumber":             {{4, 1<<31 - 1}, {4, 4000}},
	"fd_sync":                 {{4}},
	"fd_datasync":             {{4}},
	"fd_allocate":             {{4, 0, 1 << 40}},
	"fd_filestat_set_size":    {{4, 1 << 40}, {4, 0}},
	"poll_oneoff":             {{zeros, letters, 700_000, scratch}, {zeros, letters, 1000, scratch}},
	"random_get":              {{letters, length}},
	"sock_recv":               {{4, vectors, 1 << 20, 0, scratch, scratch}},
	"sock_send":               {{4, vectors, 1 << 20, 0, scratch}},
	"path_create_directory":   paths(3, pathArg),
	"path_filestat_get":       paths(3, 0, pathArg, scratch),
	"path_filestat_set_times": paths(3, 0, pathArg, 0, 0, 0),
	"path_link":               paths(3, 0, pathArg, 3, pathArg),
	"path_open":               append(paths(3, 0, pathArg, 1, -1, -1, 0, scratch), []int64{3, 0, fileAt, int64(len(File)), 8, -1, -1, 0, scratch}),
	"path_readlink":           paths(3, pathArg, letters, length, scratch),
	"path_remove_directory":   paths(3, pathArg),
	"path_rename":             paths(3, pathArg, 3, pathArg),
	"path_symlink":            paths(pathArg, 3, pathArg),
	"path_unlink_file":        paths(3, pathArg),
	"write":                   {{3, letters, 4 << 20, MessageAt, 0}, {3, letters, 8 << 10, 0, 0}},
	"event":                   {{letters, 1 << 20}, {letters, 4 << 20}},
	"output":                  {{1, letters, 4 << 20}},
}

// pathArg stands for the address of a path and its length.
const pathArg = -1 << 40

// paths are arguments with a path that is much too long, and with the longest.
func paths(args ...int64) (out [][]int64) {
	for _, n := range []int64{length, 4096} {
		var with []int64
		for _, a := range args {
			if a == pathArg {
				with = append(with, letters, n)
			} else {
				with = append(with, a)
			}
		}
		out = append(out, with)
	}
	return out
}

// Loop is one way to call a function for ever.
type Loop struct {
	Name   string
	Import modtest.Import
	Args   []int64
}

// LoopsOf returns loops around a function.
func LoopsOf(i modtest.Import) (loops []Loop) {
	all := worst[i.Name]
	if all == nil || len(all[0]) != len(i.Type.Params) {
		most := make([]int64, len(i.Type.Params))
		for n := range most {
			most[n] = -1
		}
		all = [][]int64{make([]int64, len(i.Type.Params)), most}
	}
	for _, args := range all {
		loops = append(loops, Loop{i.Name, i, slices.Clone(args)})
	}
	return loops
}

// LoopWith returns a loop around a capability with a request of n bytes at [MessageAt].
func LoopWith(i modtest.Import, n int) Loop {
	return Loop{i.Name, i, []int64{MessageAt, int64(n)}}
}

// Imports are what the loop's guest imports, the function that it is about first.
func (l Loop) Imports() []modtest.Import {
	i32, i64 := modtest.I32, modtest.I64
	return []modtest.Import{l.Import, {Module: wasi_snapshot_preview1.ModuleName, Name: "path_open", Type: modtest.Type{
		Params: []byte{i32, i32, i32, i32, i32, i64, i64, i32, i32}, Results: []byte{i32}}}}
}

// Data is what its memory begins with, beside what is at [MessageAt].
func (Loop) Data() []modtest.Data {
	vec := []byte{0, 0, letters >> 16 & 0xff, letters >> 24, 0, 0, length >> 16 & 0xff, length >> 24}
	return []modtest.Data{
		{Offset: fileAt, Bytes: []byte(File)}, {Offset: dirAt, Bytes: []byte(Directory)}, {Offset: begunAt, Bytes: []byte(Begun)},
		{Offset: vectors, Bytes: slices.Repeat(vec, manyVecs)},
	}
}

// Body opens the file and the directory and loops. Imports begin at index first.
func (l Loop) Body(first uint32) []byte {
	open := func(name int32, n int, flags int32) []byte {
		return modtest.Code(modtest.I32Const(3), modtest.I32Const(0), modtest.I32Const(name), modtest.I32Const(int32(n)), modtest.I32Const(flags),
			modtest.I64Const(1<<1|1<<6), modtest.I64Const(0), modtest.I32Const(0), modtest.I32Const(scratch), modtest.Call(first+1), modtest.Drop)
	}
	const create, directory = 1, 2
	var call []byte
	for n, a := range l.Args {
		if l.Import.Type.Params[n] == modtest.I64 {
			call = append(call, modtest.I64Const(a)...)
		} else {
			call = append(call, modtest.I32Const(int32(a))...)
		}
	}
	call = append(call, modtest.Call(first)...)
	for range l.Import.Type.Results {
		call = append(call, modtest.Drop...)
	}
	return modtest.Code(
		modtest.I32Const(letters), modtest.I32Const('a'), modtest.I32Const(length), modtest.Fill,
		open(fileAt, len(File), 0), open(dirAt, len(Directory), directory), open(begunAt, len(Begun), create),
		modtest.Loop(call))
}

// WASI returns all functions of wasi_snapshot_preview1, but proc_exit.
func WASI(t testing.TB) (imports []modtest.Import) {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer func() { _ = r.Close(ctx) }() // nothing of it was instantiated
	m, err := wasi_snapshot_preview1.NewBuilder(r).Compile(ctx)
	require.NoError(t, err)
	for name, f := range m.ExportedFunctions() {
		if name != "proc_exit" {
			imports = append(imports, modtest.Import{Module: wasi_snapshot_preview1.ModuleName, Name: name,
				Type: modtest.Type{Params: f.ParamTypes(), Results: f.ResultTypes()}})
		}
	}
	return imports
}
