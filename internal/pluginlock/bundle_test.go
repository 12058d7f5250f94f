package pluginlock_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
)

// locked is a directory of files and its lock.
func locked(t testing.TB, files ...string) (string, *pluginlock.Lock) {
	t.Helper()
	dir, l := t.TempDir(), pluginlock.New(nil)
	for _, name := range files {
		sum := sha256.Sum256([]byte(name))
		l = l.With(pluginlock.Entry{File: name, Name: "x", SHA256: hex.EncodeToString(sum[:]), Size: int64(len(name))})
		require.NoError(t, pluginlock.WriteFile(dir, name, []byte(name)))
	}
	require.NoError(t, l.Write(dir))
	return dir, l
}

func ignore(pluginlock.Bundled) error { return nil }

func TestABundleIsADirectoryInOneFile(t *testing.T) {
	dir, l := locked(t, "a.wasm", "bb.wasm")
	require.NoError(t, pluginlock.WriteFile(dir, "a.wasm.sig", []byte("signature")))
	var one, two bytes.Buffer
	require.NoError(t, l.WriteBundle(&one, dir, 7))
	require.NoError(t, l.WriteBundle(&two, dir, 7))
	require.Equal(t, one.Bytes(), two.Bytes())
	var names []string
	read, err := pluginlock.ReadBundle(&one, 7, func(p pluginlock.Bundled) error {
		names = append(names, p.File+" "+string(p.Signature))
		require.Equal(t, p.File, string(p.Content))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, l, read)
	require.Equal(t, []string{"a.wasm signature", "bb.wasm "}, names)

	_, err = pluginlock.ReadBundle(bytes.NewReader(two.Bytes()), 6, ignore)
	require.EqualError(t, err, "bb.wasm has 7 bytes, the limit is 6")
	failed := errors.New("no")
	_, err = pluginlock.ReadBundle(&two, 7, func(pluginlock.Bundled) error { return failed })
	require.ErrorIs(t, err, failed)
	require.NoError(t, pluginlock.WriteFile(dir, "bb.wasm", []byte("BB.wasm")))
	require.ErrorContains(t, l.WriteBundle(&one, dir, 7), "bb.wasm is not what the lock says: it should have SHA-256 ")
	require.NoError(t, pluginlock.WriteFile(dir, "a.wasm.sig", make([]byte, 1<<20+1)))
	require.EqualError(t, l.WriteBundle(&one, dir, 7), "a.wasm.sig has more than 1048576 bytes")
}

func TestAnArchiveThatIsNoBundleIsToldOnOneLine(t *testing.T) {
	dir, l := locked(t, "a.wasm")
	var whole bytes.Buffer
	require.NoError(t, l.WriteBundle(&whole, dir, 100))
	lock := whole.String()[512 : 512+strings.IndexByte(whole.String()[512:], 0)]
	type member struct {
		name, content string
		kind          byte
	}
	archive := func(members ...member) string {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, m := range members {
			require.NoError(t, w.WriteHeader(&tar.Header{Name: m.name, Typeflag: m.kind, Size: int64(len(m.content)), Mode: 0o644}))
			_, err := w.Write([]byte(m.content))
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		return b.String()
	}
	first, a := member{pluginlock.FileName, lock, tar.TypeReg}, member{"a.wasm", "a.wasm", tar.TypeReg}
	signature := member{"a.wasm.sig", "signature", tar.TypeReg}
	for text, want := range map[string]string{
		"":                        "it ends where plugins.lock should be",
		strings.Repeat("x", 1024): "where plugins.lock should be: archive/tar: invalid tar header",
		whole.String()[:700]:      "plugins.lock: unexpected EOF",
		archive(a):                `it has "a.wasm" where plugins.lock should be`,
		archive(member{pluginlock.FileName, "{", tar.TypeReg}): "plugins.lock: line 1: unexpected EOF",
		archive(first): "it ends where a.wasm should be",
		archive(first, member{"../a.wasm", "a.wasm", tar.TypeReg}): `it has "../a.wasm" where a.wasm should be`,
		archive(first, member{"a.wasm", "", tar.TypeSymlink}):      `it has "a.wasm" where a.wasm should be`,
		archive(first, member{"a.wasm", "A.wasm", tar.TypeReg}):    "a.wasm is not what the lock says: it should have SHA-256 " + l.Plugins[0].SHA256,
		archive(first, a, a): "something follows the last plugin",
		archive(first, a, member{"b.wasm.sig", "", tar.TypeReg}):                           "something follows the last plugin",
		archive(first, a, signature, signature):                                            "something follows the last plugin",
		archive(first, signature, a):                                                       `it has "a.wasm.sig" where a.wasm should be`,
		archive(first, a, member{"a.wasm.sig", "", tar.TypeSymlink}):                       `it has "a.wasm.sig" where a.wasm.sig should be`,
		archive(first, a, member{"a.wasm.sig", strings.Repeat("x", 1<<20+1), tar.TypeReg}): "a.wasm.sig has 1048577 bytes, the limit is 1048576",
	} {
		_, err := pluginlock.ReadBundle(strings.NewReader(text), 100, ignore)
		require.EqualError(t, err, want)
	}
	_, err := pluginlock.ReadBundle(strings.NewReader(archive(first, a)), 100, ignore)
	require.NoError(t, err)
}

// Whatever the bytes: each file that is handed over is what the lock says.
func FuzzReadBundle(f *testing.F) {
	dir, l := locked(f, "a.wasm", "b.wasm")
	var whole bytes.Buffer
	require.NoError(f, l.WriteBundle(&whole, dir, 100))
	f.Add(whole.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := pluginlock.ReadBundle(bytes.NewReader(text), 100, func(p pluginlock.Bundled) error {
			sum := sha256.Sum256(p.Content)
			require.Equal(t, p.SHA256, hex.EncodeToString(sum[:]))
			require.True(t, pluginlock.IsPluginFile(p.File))
			return nil
		})
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
		}
	})
}
