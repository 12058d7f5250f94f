package keyring

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

const id = "11111111-2222-3333-4444-555555555555"

func TestWhatIsSealedIsOpenedWithItsKeyAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ring")
	for name, dir := range map[string]string{"in files": dir, "in memory": ""} {
		t.Run(name, func(t *testing.T) {
			r := New(dir)
			require.Error(t, r.Check(id))
			require.NoError(t, r.Add(id))
			other := uuid.NewString()
			require.NoError(t, r.Add(other))
			for _, text := range []string{"", "a", "a longer text"} {
				sealed, err := r.Seal(id, []byte(text), []byte("about"))
				require.NoError(t, err)
				again, err := r.Seal(id, []byte(text), []byte("about"))
				require.NoError(t, err)
				require.NotEqual(t, sealed, again, "nobody sees that two are the same")
				opened, err := r.Open(id, sealed, []byte("about"))
				require.NoError(t, err)
				require.Equal(t, text, string(opened))
				_, err = r.Open(id, sealed, []byte("About"))
				require.ErrorIs(t, err, ErrAltered)
				_, err = r.Open(other, sealed, []byte("about"))
				require.ErrorIs(t, err, ErrAltered)
				for i := range sealed {
					changed := bytes.Clone(sealed)
					changed[i] ^= 1
					_, err = r.Open(id, changed, []byte("about"))
					require.ErrorIs(t, err, ErrAltered, "byte %d", i)
					_, err = r.Open(id, sealed[:i], []byte("about"))
					require.ErrorIs(t, err, ErrAltered, "%d bytes", i)
				}
			}
			require.NoError(t, r.Remove(id))
			require.NoError(t, r.Remove(id), "again")
			_, err := r.Seal(id, nil, nil)
			var lost *KeyError
			require.ErrorAs(t, err, &lost)
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

// A file that was not there may come back while the ring is in use.
func TestAKeyIsReadWhenItIsUsed(t *testing.T) {
	dir := t.TempDir()
	first := New(dir)
	require.NoError(t, first.Add(id))
	sealed, err := first.Seal(id, []byte("text"), nil)
	require.NoError(t, err)
	path := filepath.Join(dir, id+".key")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.Rename(path, path+".aside"))
	r := New(dir)
	require.EqualError(t, r.Check(id), "root key "+id+" cannot be read: "+path+": no such file or directory")
	require.NoError(t, os.Rename(path+".aside", path))
	opened, err := r.Open(id, sealed, nil)
	require.NoError(t, err)
	require.Equal(t, "text", string(opened))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing half written is left")
}

func TestAnIDLeadsNowhereElse(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "file.key")
	require.NoError(t, os.WriteFile(outside, []byte("kept"), 0o600))
	r := New(filepath.Join(dir, "ring"))
	for _, bad := range []string{"", "../file", "x", "{" + id + "}", id + "\x00", "1111111122223333444455555555555A"} {
		require.Error(t, r.Add(bad), bad)
		require.Error(t, r.Remove(bad), bad)
		var lost *KeyError
		require.ErrorAs(t, r.Check(bad), &lost, bad)
	}
	require.FileExists(t, outside)
	require.NoDirExists(t, filepath.Join(dir, "ring"))
}

func TestAKeyThatCannotBeWrittenIsNone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	r := New(dir)
	require.ErrorContains(t, r.Add(id), "writing a root key")
	require.Error(t, r.Check(id))
}

// FuzzAKeyFile has a file that was changed: it is refused, or has the key that it had.
func FuzzAKeyFile(f *testing.F) {
	key := bytes.Repeat([]byte{7}, keySize)
	good := encode(id, key)
	f.Add(good)
	f.Add(bytes.Replace(good, []byte("aes256-gcm"), []byte("none"), 1))
	f.Add(bytes.Replace(good, []byte(id), []byte(uuid.NewString()), 1))
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{"KeyID":"` + id + `","Algorithm":"aes256-gcm","Key":"AAAA"}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		if read, err := decode(content, id); err == nil {
			require.Equal(t, key, read, "no other key has that sum by chance")
		}
	})
}

func TestWhatIsLeftOfKeysIsSwept(t *testing.T) {
	require.NoError(t, New("").Sweep())
	dir := filepath.Join(t.TempDir(), "[ring]")
	r := New(dir)
	require.NoError(t, r.Sweep(), "there is no directory before the first key")
	require.NoError(t, r.Add(id))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "."+id+".key.unfinished"), []byte("half"), 0o600))
	require.NoError(t, r.Sweep())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoError(t, New(dir).Check(id))

	require.Error(t, New(filepath.Join(dir, id+".key")).Sweep(), "a directory that cannot be looked through")
}
