package catalog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/pluginsign"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
)

// signer is a key pair.
func signer(t *testing.T, name string) (*pluginsign.PrivateKey, pluginsign.PublicKey) {
	t.Helper()
	private, err := pluginsign.NewKey()
	require.NoError(t, err)
	public, err := private.Public(name)
	require.NoError(t, err)
	return private, public
}

// sign signs a file of the directory.
func (w *dirWorld) sign(file string, r catalogtest.Recipe, key *pluginsign.PrivateKey) {
	w.t.Helper()
	s, err := key.SignFile(r.Module(w.t))
	require.NoError(w.t, err)
	text, err := s.Text()
	require.NoError(w.t, err)
	w.Put(file+".sig", text)
}

func TestOnlyWhatATrustedKeySignedIsTaken(t *testing.T) {
	mine, trusted := signer(t, "mine.pub")
	theirs, foreign := signer(t, "theirs.pub")
	w := newDirWorldOf(t, catalog.Settings{TrustedKeys: pluginsign.Keys{trusted}})
	one, two := catalogtest.Recipe{Name: "a", Version: "1.0.0"}, catalogtest.Recipe{Name: "a", Version: "2.0.0"}
	w.drop("a.wasm", one)
	w.start()
	unsigned := "it is not signed: there is no a.wasm.sig; trusted: " + trusted.String()
	require.Equal(t, []string{"a.wasm rejected: " + unsigned}, w.Lines())
	require.Zero(t, w.loader.MadeCount(), "nothing of what is refused is run")

	// The signature may come after the file.
	w.Put("a.wasm.sig", []byte("{"))
	w.Until("a.wasm rejected: a.wasm.sig is no signature: it is damaged: unexpected EOF")
	w.sign("a.wasm", one, theirs)
	byTheirs := "a.wasm.sig: it is signed with the key " + foreign.ID[:12] + ", which is not trusted; trusted: " + trusted.String()
	w.Until("a.wasm rejected: " + byTheirs)
	w.sign("a.wasm", two, mine)
	ofTwo := func(content string) string {
		return `a.wasm.sig: it is the signature of another file: that has the SHA-256 "` + digest(two.Module(t)) + `", this one has "` + content + `"`
	}
	w.Until("a.wasm rejected: " + ofTwo(digest(one.Module(t))))
	require.Zero(t, w.loader.MadeCount(), "nothing of what is refused is run")
	w.sign("a.wasm", one, mine)
	w.Until("a.wasm a 1.0.0 healthy")
	require.Equal(t, trusted.String(), w.Catalog.Status()[0].SignedBy)

	// What was verified stays while the next version and its signature come one after the other.
	const stays = "a.wasm a 1.0.0 healthy: the file has changed and was not taken, the version before stays: "
	w.sign("a.wasm", two, mine)
	w.Until(stays + ofTwo(digest(one.Module(t))))
	a, err := w.manager.Dispense("a")
	require.NoError(t, err)
	defer a.Release()
	w.drop("a.wasm", two)
	<-a.Replaced()
	w.Until("a.wasm a 2.0.0 healthy")
	w.Remove("a.wasm.sig")
	w.Until("a.wasm a 2.0.0 healthy: the file has changed and was not taken, the version before stays: " + unsigned)

	// A key that is trusted no more ends what it has signed; a file that another has signed, too, goes on.
	w.sign("a.wasm", two, theirs)
	require.NoError(t, w.Catalog.Apply(catalog.Settings{TrustedKeys: pluginsign.Keys{foreign}}))
	w.Until("a.wasm a 2.0.0 healthy")
	require.Equal(t, foreign.String(), w.Catalog.Status()[0].SignedBy)
	require.NoError(t, w.Catalog.Apply(catalog.Settings{TrustedKeys: pluginsign.Keys{trusted}}))
	w.Until("a.wasm rejected: " + byTheirs)
	require.NoError(t, w.Catalog.Apply(catalog.Settings{}))
	w.Until("a.wasm a 2.0.0 healthy")
	require.Empty(t, w.Catalog.Status()[0].SignedBy)
}

// TestASignatureThatCannotBeReadIsTriedAgain has a directory where the signature should be.
func TestASignatureThatIsNoFileIsToldAndMended(t *testing.T) {
	mine, trusted := signer(t, "mine.pub")
	w := newDirWorldOf(t, catalog.Settings{TrustedKeys: pluginsign.Keys{trusted}})
	a := catalogtest.Recipe{Name: "a", Version: "1.0.0"}
	path := filepath.Join(w.Path, "a.wasm.sig")
	require.NoError(t, os.Mkdir(path, 0o700))
	w.drop("a.wasm", a)
	w.start()
	require.Equal(t, []string{"a.wasm rejected: a.wasm.sig is no signature: " + path + ": not a regular file"}, w.Lines())
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink("none", path))
	w.Until("a.wasm rejected: it is not signed: there is no a.wasm.sig; trusted: " + trusted.String())
	require.NoError(t, os.Remove(path))
	w.sign("a.wasm", a, mine)
	w.Until("a.wasm a 1.0.0 healthy")
}

func TestWhatIsRefusedIsToldOnce(t *testing.T) {
	_, trusted := signer(t, "mine.pub")
	w := newDirWorldOf(t, catalog.Settings{TrustedKeys: pluginsign.Keys{trusted}})
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "1.0.0"})
	w.start()
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "2.0.0"})
	w.Put("a.wasm.sig", []byte("text!"))
	w.Until("a.wasm rejected: a.wasm.sig is no signature: it is neither a bundle nor a signature in base64")
	require.Equal(t, []string{
		"a.wasm: it is not signed: there is no a.wasm.sig; trusted: " + trusted.String(),
		"a.wasm: a.wasm.sig is no signature: it is neither a bundle nor a signature in base64",
	}, w.refusals())
}
