package catalog_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
)

// locked is an entry of a lock.
func (w *dirWorld) locked(file string, r catalogtest.Recipe) pluginlock.Entry {
	content := r.Module(w.t)
	return pluginlock.Entry{File: file, Name: r.Name, SHA256: digest(content), Size: int64(len(content))}
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func TestADirectoryWithALockHasNothingElseTaken(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	one, two, other := catalogtest.Recipe{Name: "a", Version: "1.0.0"}, catalogtest.Recipe{Name: "a", Version: "2.0.0"}, catalogtest.Recipe{Name: "b", Version: "1.0.0"}
	oneDigest, twoDigest := digest(one.Module(t)), digest(two.Module(t))
	notIn := "it is not in plugins.lock: remove it, or have it in: wasmnode plugin lock"
	write := func(entries ...pluginlock.Entry) { require.NoError(t, pluginlock.New(entries).Write(w.Path)) }
	w.drop("a.wasm", one)
	w.drop("b.wasm", other)
	write(w.locked("a.wasm", one))
	w.start()
	require.Equal(t, []string{"a.wasm a 1.0.0 healthy", "b.wasm rejected: " + notIn}, w.Lines())
	require.Equal(t, 1, w.loader.MadeCount(), "nothing of what is refused is run")

	write(w.locked("a.wasm", one), w.locked("b.wasm", other))
	w.Until("a.wasm a 1.0.0 healthy", "b.wasm b 1.0.0 healthy")

	// The version before stays while the file and its lock differ, and is replaced by the next.
	w.drop("a.wasm", two)
	w.Until("a.wasm a 1.0.0 healthy: the file has changed and was not taken, the version before stays: its SHA-256 is "+twoDigest+", plugins.lock says "+oneDigest+
		": put the right file back, or take this one: wasmnode plugin lock", "b.wasm b 1.0.0 healthy")
	a, err := w.manager.Dispense("a")
	require.NoError(t, err)
	defer a.Release()
	write(w.locked("a.wasm", two), w.locked("b.wasm", other))
	<-a.Replaced()
	w.Until("a.wasm a 2.0.0 healthy", "b.wasm b 1.0.0 healthy")

	// What is locked no more goes, and what is used stays until its tasks end.
	b, err := w.manager.Dispense("b")
	require.NoError(t, err)
	write(w.locked("a.wasm", two))
	w.Until("a.wasm a 2.0.0 healthy", "b.wasm rejected: "+notIn, "b.wasm b 1.0.0 removed: "+notIn)
	b.Release()
	w.Until("a.wasm a 2.0.0 healthy", "b.wasm rejected: "+notIn)

	// A lock that cannot be read ends nothing and lets nothing in.
	lock := filepath.Join(w.Path, pluginlock.FileName)
	require.NoError(t, os.WriteFile(lock, []byte("{"), 0o600))
	w.drop("c.wasm", catalogtest.Recipe{Name: "c", Version: "1.0.0"})
	unreadable := lock + ": line 1: unexpected EOF"
	w.Until("a.wasm a 2.0.0 healthy", "b.wasm rejected: "+notIn, "c.wasm rejected: no plugin is taken while plugins.lock cannot be read: "+unreadable)
	require.Equal(t, unreadable+": no plugin is taken until it is mended", w.Catalog.Directory().Problem)
	require.NoError(t, os.Remove(lock))
	w.Until("a.wasm a 2.0.0 healthy", "b.wasm b 1.0.0 healthy", "c.wasm c 1.0.0 healthy")
	require.Empty(t, w.Catalog.Directory().Problem)
}

func TestALockMayBeRequired(t *testing.T) {
	w := newDirWorldOf(t, catalog.Settings{RequireLock: true})
	a := catalogtest.Recipe{Name: "a", Version: "1.0.0"}
	w.drop("a.wasm", a)
	w.start()
	const none = "require_lock is set and the plugin directory has no plugins.lock: write it with wasmnode plugin lock"
	require.Equal(t, []string{"a.wasm rejected: " + none}, w.Lines())
	require.NoError(t, w.Catalog.Apply(catalog.Settings{}))
	w.Until("a.wasm a 1.0.0 healthy")
	require.NoError(t, w.Catalog.Apply(catalog.Settings{RequireLock: true}))
	w.Until("a.wasm rejected: " + none)
	require.NoError(t, pluginlock.New([]pluginlock.Entry{w.locked("a.wasm", a)}).Write(w.Path))
	w.Until("a.wasm a 1.0.0 healthy")
}
