// Package codetest keeps the machine code of guests for the next process of tests, as an
// agent's data directory does for the next agent: a Go plugin takes a second to compile,
// and ten under the race detector. It is kept below the repository's .cache by what was
// compiled, so nothing stale is ever used, and each process has a directory of its own.
//
// It is for tests only: for TestMain, which calls [Restore] before and [Save] after them.
// Nothing fails where the cache does; it costs time.
package codetest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
)

const (
	module = "module github.com/wasmnode/wasmnode\n"
	engine = "github.com/tetratelabs/wazero "
	seal   = "seal" // what the engine writes into the directory of code that is whole

	// maxKept is how much code is kept; what was used longest ago goes first. All guests
	// of the tests are about twenty, of 13 MB each.
	maxKept = 60
	// minBytes is the least code that is worth its while: tests make many small guests.
	minBytes = 64 << 10
)

// Restore fills dir, the cache directory of a process's engines, with the code that other
// processes compiled.
func Restore(dir string) {
	if kept, err := keptDir(); err == nil && os.MkdirAll(dir, 0o700) == nil {
		for _, digest := range list(kept) {
			_ = place(filepath.Join(kept, digest), filepath.Join(dir, digest))
		}
	}
}

// Save keeps the code in dir, which the caller is about to remove, for other processes.
func Save(dir string) {
	kept, err := keptDir()
	if err != nil || os.MkdirAll(kept, 0o700) != nil {
		return
	}
	for _, digest := range list(dir) {
		_, err := os.Stat(filepath.Join(kept, digest))
		if errors.Is(err, fs.ErrNotExist) && size(filepath.Join(dir, digest)) >= minBytes {
			_ = place(filepath.Join(dir, digest), filepath.Join(kept, digest))
		}
	}
	prune(kept, maxKept)
}

// Cache returns a cache for modules that are compiled as they are, without the node's
// engine. Processes may use it at once.
func Cache() wazero.CompilationCache {
	if kept, err := keptDir(); err == nil {
		if c, err := wazero.NewCompilationCacheWithDir(filepath.Join(kept, "plain")); err == nil {
			return c
		}
	}
	return wazero.NewCompilationCache()
}

// keptDir is the directory of this engine's code, which need not exist.
func keptDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), module) {
			_, version, _ := strings.Cut(string(text), engine)
			version, _, _ = strings.Cut(version, "\n")
			sum := sha256.Sum256([]byte(version + runtime.GOARCH))
			return filepath.Join(dir, ".cache", "code", hex.EncodeToString(sum[:6])), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fs.ErrNotExist
		}
	}
}

// list returns the digests of the code in dir that is whole.
func list(dir string) (digests []string) {
	entries, _ := os.ReadDir(dir) // there may be none
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name(), seal)); err == nil && !strings.Contains(e.Name(), ".") {
			digests = append(digests, e.Name())
		}
	}
	return digests
}

// place makes to a copy of the directory from, whole or not at all, its files links where
// they can be.
func place(from, to string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(to), "new.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	err = filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(tmp, strings.TrimPrefix(path, from))
		if e.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		if os.Link(path, target) == nil {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	})
	if err != nil {
		return err
	}
	return os.Rename(tmp, to) // fails where another process was first
}

func size(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err == nil && !e.IsDir() {
			total += info.Size()
		}
		return nil
	})
	return total
}

// prune removes what was used longest ago, until n are left: the engine touches the seal
// of what it reads.
func prune(kept string, n int) {
	type code struct {
		digest string
		used   time.Time
	}
	var all []code
	for _, digest := range list(kept) {
		if info, err := os.Stat(filepath.Join(kept, digest, seal)); err == nil {
			all = append(all, code{digest, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b code) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.digest, b.digest)) })
	for _, c := range all[:max(0, len(all)-n)] {
		_ = os.RemoveAll(filepath.Join(kept, c.digest))
	}
}
