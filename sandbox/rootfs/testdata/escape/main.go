// Command escape is a hostile guest: it calls WASI with paths that a library would
// never pass, and prints what each call returned. Its directory is descriptor 3.
package main

import (
	"fmt"
	"unsafe"
)

//go:wasmimport wasi_snapshot_preview1 path_open
func pathOpen(dir int32, lookup int32, path *byte, n uint32, oflags int32, rights, inheriting uint64, fdflags int32, fd *int32) uint32

//go:wasmimport wasi_snapshot_preview1 path_symlink
func pathSymlink(target *byte, targetLen uint32, dir int32, path *byte, n uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_link
func pathLink(oldDir, lookup int32, old *byte, oldLen uint32, newDir int32, path *byte, n uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_rename
func pathRename(oldDir int32, old *byte, oldLen uint32, newDir int32, path *byte, n uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_unlink_file
func pathUnlink(dir int32, path *byte, n uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_create_directory
func pathMkdir(dir int32, path *byte, n uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_filestat_get
func pathStat(dir, lookup int32, path *byte, n uint32, buf *[64]byte) uint32

//go:wasmimport wasi_snapshot_preview1 path_filestat_set_times
func pathSetTimes(dir, lookup int32, path *byte, n uint32, atim, mtim uint64, flags int32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_read
func fdRead(fd int32, iov *[2]uint32, n uint32, nread *uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_write
func fdWrite(fd int32, iov *[2]uint32, n uint32, nwritten *uint32) uint32

const (
	dir        = 3
	follow     = 1
	creat      = 1
	rightRead  = 1 << 1
	rightWrite = 1 << 6
)

func ptr(s string) (*byte, uint32) { return unsafe.StringData(s), uint32(len(s)) }

func say(what, path string, errno uint32) { fmt.Printf("%s %s: %d\n", what, path, errno) }

// attack tries everything with one path.
func attack(path string) {
	p, n := ptr(path)
	for _, lookup := range []int32{0, follow} {
		var fd int32
		errno := pathOpen(dir, lookup, p, n, 0, rightRead, 0, 0, &fd)
		say("open", path, errno)
		if errno == 0 {
			var buf [64]byte
			var got uint32
			iov := [2]uint32{uint32(uintptr(unsafe.Pointer(&buf))), uint32(len(buf))}
			if fdRead(fd, &iov, 1, &got) == 0 {
				fmt.Printf("READ %s: %q\n", path, buf[:got])
			}
		}
		errno = pathOpen(dir, lookup, p, n, creat, rightRead|rightWrite, 0, 0, &fd)
		say("create", path, errno)
		if errno == 0 {
			text := []byte("owned")
			var wrote uint32
			iov := [2]uint32{uint32(uintptr(unsafe.Pointer(&text[0]))), uint32(len(text))}
			say("write", path, fdWrite(fd, &iov, 1, &wrote))
		}
		var st [64]byte
		say("stat", path, pathStat(dir, lookup, p, n, &st))
		say("settimes", path, pathSetTimes(dir, lookup, p, n, 1, 1, 5))
	}
	q, m := ptr("stolen")
	say("link", path, pathLink(dir, follow, p, n, dir, q, m))
	say("rename from", path, pathRename(dir, p, n, dir, q, m))
	q, m = ptr("mine")
	say("rename to", path, pathRename(dir, q, m, dir, p, n))
	say("mkdir", path, pathMkdir(dir, p, n))
	say("unlink", path, pathUnlink(dir, p, n))
}

func main() {
	targets := []string{"../outside", "../../outside", "/outside", ".", "..", "sub/../../outside", "./../outside", "lying-relative", "lying-dir"}
	for i, target := range targets {
		name := fmt.Sprintf("made%d", i)
		t, tn := ptr(target)
		p, n := ptr(name)
		say("symlink "+target, name, pathSymlink(t, tn, dir, p, n))
		attack(name)
		attack(name + "/secret")
	}
	// A link that is harmless where it is made, until it is moved up.
	t, tn := ptr("../../outside")
	p, n := ptr("sub/deep/climber")
	pathSymlink(t, tn, dir, p, n)
	q, m := ptr("climber")
	pathRename(dir, p, n, dir, q, m)
	for _, path := range []string{
		"..", "../", "../outside", "../outside/secret", "sub/../../outside/secret", "./../outside/secret",
		"/", "/outside/secret", "/etc/passwd", "//etc/passwd", "/proc/self/root/etc/passwd",
		"lying-relative", "lying-absolute", "lying-dir", "lying-dir/secret", "lying-chain/secret", "lying-loop", "lying-proc/etc/passwd",
		"climber", "climber/secret", "sub/deep/../../../outside/secret", "..\x00/outside/secret", "", ".\\..\\outside", "inner-file",
	} {
		attack(path)
	}
	fmt.Println("done")
}
