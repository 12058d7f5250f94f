package agent

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/state"
)

// The key that the node's state is sealed with is to be as long-lived as what runs: the next agent
// needs it, and the machine's end takes it away. So its file is in memory, where the machine has such
// files, and nobody who has a copy of the disk has it.

const (
	keySuffix = ".key"
	// keptKeyFile is the key in the data directory, where there are no files in memory.
	keptKeyFile = "client.key"
	// maxKeyFile bounds what is read of a key's file: it has a path of the system besides.
	maxKeyFile = state.KeySize + 4096
)

// openKey returns the key of the agent's data directory. It tells of one that is not where it is to be.
func (a *agent) openKey() []byte {
	key, path, err := stateKey(a.cfg.DataDir, runtimeDirs())
	switch {
	case err != nil:
		a.logger.Warn("the key that tasks' environments are sealed with cannot be kept: the next agent knows the tasks, and not what they were started with", "error", err)
	case filepath.Base(path) == keptKeyFile:
		a.logger.Info("the key that tasks' environments are sealed with is on the disk beside them: there is no directory in memory for it", "path", path)
	case a.dev:
		a.closing("key of the state", func() error { return os.Remove(path) })
	}
	return key
}

// runtimeDirs are where a user's programs keep what ends with the machine, the best first.
func runtimeDirs() (dirs []string) {
	if os.Geteuid() == 0 {
		dirs = append(dirs, "/run/wasmnode")
	}
	if own := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(own) {
		dirs = append(dirs, filepath.Join(own, "wasmnode"))
	}
	return append(dirs, "/dev/shm/wasmnode-"+strconv.Itoa(os.Geteuid()))
}

// stateKey returns the key of a data directory, and where its file is: in the first of the directories
// that is in memory and the user's own, or in the data directory. One that is there is taken, wherever
// it is. The error is why the path is empty: the key is good, and the next agent does not have it.
func stateKey(dataDir string, dirs []string) (key []byte, path string, err error) {
	if resolved, err := filepath.EvalSymlinks(dataDir); err == nil {
		dataDir = resolved
	}
	if absolute, err := filepath.Abs(dataDir); err == nil {
		dataDir = absolute
	}
	sum := sha256.Sum256([]byte(dataDir))
	name := hex.EncodeToString(sum[:8]) + keySuffix
	var paths []string
	for _, dir := range dirs {
		if ownInMemory(dir) {
			sweepKeys(dir)
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	paths = append(paths, filepath.Join(dataDir, keptKeyFile))
	for _, path := range paths {
		if key := readKey(path); key != nil {
			return key, path, nil
		}
	}
	key = make([]byte, state.KeySize)
	_, _ = rand.Read(key) // it never fails
	for _, path := range paths {
		if err = durable.Replace(path, append(bytes.Clone(key), dataDir...), 0o600); err == nil {
			return key, path, nil
		}
	}
	return key, "", err
}

// ownInMemory makes a directory, unless it is there, and reports whether it is in memory and nobody
// else can write to it.
func ownInMemory(dir string) bool {
	var system unix.Statfs_t
	if unix.Statfs(filepath.Dir(dir), &system) != nil || system.Type != unix.TMPFS_MAGIC && system.Type != unix.RAMFS_MAGIC {
		return false
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false
	}
	var is unix.Stat_t
	return unix.Lstat(dir, &is) == nil && is.Mode&unix.S_IFMT == unix.S_IFDIR && int(is.Uid) == os.Geteuid() && is.Mode&0o22 == 0
}

// readKey returns nil where there is no key that is its user's alone.
func readKey(path string) []byte {
	var is unix.Stat_t
	if unix.Lstat(path, &is) != nil || is.Mode&unix.S_IFMT != unix.S_IFREG || int(is.Uid) != os.Geteuid() || is.Mode&0o77 != 0 || is.Size > maxKeyFile {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil || len(content) < state.KeySize {
		return nil
	}
	return content[:state.KeySize]
}

// sweepKeys removes the keys of data directories that there are not any more.
func sweepKeys(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !strings.HasSuffix(path, keySuffix) || readKey(path) == nil {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil || len(content) <= state.KeySize {
			continue
		}
		if _, err := os.Lstat(string(content[state.KeySize:])); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(path) // the next start tries again
		}
	}
}
