// Package program is what starting a program takes alike in a root of its own and
// without: where it is found, and what it means when it cannot be started.
//
// It knows nothing of processes and their isolation. Start reading at [Find].
package program

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
)

// defaultPath is where programs are looked for that come without a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// SearchPath returns the directories of an environment's PATH, or of the usual one if it
// has none.
func SearchPath(env []string) []string {
	search := Variable(env, "PATH")
	if search == "" {
		search = defaultPath
	}
	return strings.Split(search, ":")
}

// Variable returns a variable's value in an environment; empty: it is not there.
func Variable(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// Find returns the path of the first program of a name in the directories, and false if
// there is none. Directories that depend on where the process is do not count.
func Find(name string, dirs []string) (file string, ok bool) {
	for _, dir := range dirs {
		if !path.IsAbs(dir) {
			continue
		}
		if file := path.Join(dir, name); executable(file) {
			return file, true
		}
	}
	return "", false
}

// executable reports whether this process may execute a file. Package os/exec would keep those
// that isolate processes waiting for what it needs to begin.
func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS) == nil
}

// Failure is the error for what the system refused, recoverable if it may succeed later. An
// error number without a class of its own has the code otherwise.
func Failure(what string, err error, otherwise abi.Code) *abi.Error {
	text := fmt.Sprintf("%s: %v", what, err)
	switch {
	case is(err, syscall.ENOENT, syscall.ENOTDIR):
		return abi.NewError(abi.NotFound, text)
	case is(err, syscall.EACCES, syscall.EPERM):
		return abi.NewError(abi.PermissionDenied, text)
	case is(err, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.ETXTBSY):
		return abi.NewRecoverableError(abi.ResourceExhausted, text)
	}
	return abi.NewError(otherwise, text)
}

func is(err error, numbers ...syscall.Errno) bool {
	return slices.ContainsFunc(numbers, func(n syscall.Errno) bool { return errors.Is(err, n) })
}
