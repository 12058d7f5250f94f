package keyring

import (
	"bytes"
	"crypto/rsa"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestARootKeyHasOneSigningKey(t *testing.T) {
	dir := t.TempDir()
	first := New(dir)
	require.NoError(t, first.Add(id))
	public, err := first.PublicKey(id)
	require.NoError(t, err)
	require.Nil(t, public, "it has none before somebody signs: those of earlier versions have none")

	var made [4]*rsa.PrivateKey
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() { made[i], _ = first.SigningKey(id) })
	}
	all.Wait()
	require.NotNil(t, made[0])
	for _, key := range made {
		require.Same(t, made[0], key)
	}
	path := filepath.Join(dir, id+".rsa")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(content), "PRIVATE")

	again := New(dir)
	key, err := again.SigningKey(id)
	require.NoError(t, err)
	require.True(t, made[0].Equal(key))
	public, err = New(dir).PublicKey(id)
	require.NoError(t, err)
	require.True(t, made[0].PublicKey.Equal(public))

	require.NoError(t, again.Remove(id))
	require.NoFileExists(t, path)
	_, err = again.SigningKey(id)
	var lost *KeyError
	require.ErrorAs(t, err, &lost, "none is made for a root key that is not there")
	require.NoFileExists(t, path)
}

func TestASigningKeyThatIsNotItsRootKeysIsRefused(t *testing.T) {
	dir := t.TempDir()
	r := New(dir)
	other := uuid.NewString()
	require.NoError(t, r.Add(id))
	require.NoError(t, r.Add(other))
	_, err := r.SigningKey(id)
	require.NoError(t, err)
	path := filepath.Join(dir, id+".rsa")
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	for what, c := range map[string]struct {
		content []byte
		says    string
	}{
		"cut off":     {good[:100], "it is damaged"},
		"another's":   {bytes.Replace(good, []byte(id), []byte(other), 1), "it is of the root key"},
		"unknown":     {bytes.Replace(good, []byte("RS256"), []byte("RS999"), 1), `its algorithm "RS999" is not known`},
		"not its own": {[]byte(`{"KeyID":"` + id + `","Algorithm":"RS256","Sealed":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`), "it is not what was sealed"},
	} {
		require.NoError(t, os.WriteFile(path, c.content, 0o600))
		for _, use := range []func(*Ring) error{
			func(r *Ring) error { _, err := r.SigningKey(id); return err },
			func(r *Ring) error { _, err := r.PublicKey(id); return err },
		} {
			require.ErrorContains(t, use(New(dir)), "root key "+id+" cannot be read: "+path+": "+c.says, what)
		}
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, c.content, left, "no other key takes its place")
	}
}
