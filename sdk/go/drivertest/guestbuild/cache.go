package guestbuild

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// keptFor is how long an unused guest stays in the cache.
const keptFor = 5 * 24 * time.Hour

// cacheDirectory returns where linked guests are kept.
func cacheDirectory() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(user, "wasmnode", "guests")
	return dir, os.MkdirAll(dir, 0o755)
}

// cached returns the guest that build makes of a directory. Several test processes may
// want the same one at once: one builds, the others wait for its lock.
func cached(kind, dir string, build func(out string) error) ([]byte, error) {
	cache, err := cacheDirectory()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(runtime.Version() + " " + kind + " " + dir))
	out := filepath.Join(cache, kind+"-"+filepath.Base(dir)+"-"+hex.EncodeToString(sum[:8])+".wasm")
	lock, err := os.OpenFile(out+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := waitForLock(lock); err != nil {
		return nil, err
	}
	_, missing := os.Stat(out)
	if err := build(out); err != nil {
		return nil, err
	}
	if missing != nil {
		removeOld(cache)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return wasm, os.Chtimes(out, now, now)
}

// removeOld removes guests that have not been used for a long time. What cannot be
// removed is tried again with the next new guest.
func removeOld(cache string) {
	guests, _ := filepath.Glob(filepath.Join(cache, "*.wasm"))
	for _, guest := range guests {
		if info, err := os.Stat(guest); err == nil && time.Since(info.ModTime()) > keptFor {
			_ = os.Remove(guest)
		}
	}
}
