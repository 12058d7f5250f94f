package pluginlock_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/pluginlock"
)

var digestA, digestB = strings.Repeat("0a", 32), strings.Repeat("0b", 32)

func entry(file, digest string) pluginlock.Entry {
	return pluginlock.Entry{File: file, Name: "x", SHA256: digest, Size: 1}
}

func TestWhatIsWrongWithALockFileIsSaidOnOneLine(t *testing.T) {
	plugins := func(entries ...string) string {
		return `{"version": 1, "plugins": [` + strings.Join(entries, ",\n") + `]}`
	}
	one := func(file, digest string, size int) string {
		return fmt.Sprintf(`{"file": %q, "name": "x", "sha256": %q, "size": %d}`, file, digest, size)
	}
	for text, want := range map[string]string{
		"":                                    "line 1: EOF",
		"{\n\"version\": 1,\n}":               `line 3: invalid character '}' looking for beginning of object key string`,
		`{"version": 1, "plugins": {}}`:       "line 1: json: cannot unmarshal object into Go struct field Lock.plugins of type []pluginlock.Entry",
		`{"version": 2, "other": true}`:       "it is of version 2, and this is a program for version 1",
		`{"plugins": []}`:                     "it is of version 0, and this is a program for version 1",
		`{"version": 1, "plugin": []}`:        `json: unknown field "plugin"`,
		plugins() + "{}":                      "something follows its end",
		plugins(one("../x.wasm", digestA, 1)): `"../x.wasm" is not the name of a plugin's file: it ends in .wasm and begins with no dot`,
		plugins(one(".x.wasm", digestA, 1)):   `".x.wasm" is not the name of a plugin's file: it ends in .wasm and begins with no dot`,
		plugins(one("x.wasm", strings.ToUpper(digestA), 1)):                   `x.wasm: "` + strings.ToUpper(digestA) + `" is not a SHA-256 in lower-case hexadecimal`,
		plugins(one("x.wasm", "0a", 1)):                                       `x.wasm: "0a" is not a SHA-256 in lower-case hexadecimal`,
		plugins(one("x.wasm", digestA, -1)):                                   `x.wasm: its size is negative`,
		plugins(one("x.wasm", digestA, 1), one("x.wasm", digestB, 1)):         `"x.wasm" is there twice, or not in its place: files are sorted`,
		strings.Repeat(" ", pluginlock.MaxBytes-len(plugins())+1) + plugins(): "it has more than 1048576 bytes",
	} {
		_, err := pluginlock.Parse([]byte(text))
		require.EqualError(t, err, want, "%.80s", text)
	}
	_, err := pluginlock.Parse([]byte(strings.Repeat(" ", pluginlock.MaxBytes-len(plugins())) + plugins()))
	require.NoError(t, err, "at the limit")
}

func TestALockRefusesWhatIsNotInIt(t *testing.T) {
	var none *pluginlock.Lock
	require.NoError(t, none.Refusal("x.wasm", digestA))
	l := none.With(entry("x.wasm", digestA)).With(entry("a.wasm", digestA))
	require.NoError(t, l.Refusal("x.wasm", digestA))
	require.ErrorContains(t, l.Refusal("x.wasm", digestB), "its SHA-256 is "+digestB+", plugins.lock says "+digestA)
	require.ErrorContains(t, l.Refusal("y.wasm", digestA), "it is not in plugins.lock")
	require.NoError(t, l.With(entry("x.wasm", digestB)).Refusal("x.wasm", digestB), "another entry takes its place")
	require.ErrorContains(t, pluginlock.New(nil).Refusal("x.wasm", digestA), "not in plugins.lock", "an empty lock is one")
}

func TestADirectoryIsComparedWithItsLock(t *testing.T) {
	dir := t.TempDir()
	_, err := pluginlock.Read(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	none, err := pluginlock.ReadIfAny(dir)
	require.NoError(t, err)
	require.Nil(t, none)

	l := pluginlock.New(nil)
	for _, name := range []string{"same", "other", "larger", "gone", "dir"} {
		sum := sha256.Sum256([]byte(name))
		l = l.With(pluginlock.Entry{File: name + ".wasm", Name: name, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(name))})
		require.NoError(t, pluginlock.WriteFile(dir, name+".wasm", []byte(name)))
	}
	require.NoError(t, l.Write(dir))
	read, err := pluginlock.Read(dir)
	require.NoError(t, err)
	require.Equal(t, l, read)
	differences, err := read.Verify(dir)
	require.NoError(t, err)
	require.Empty(t, differences)

	path := func(name string) string { return filepath.Join(dir, name+".wasm") }
	require.NoError(t, os.WriteFile(path("other"), []byte("OTHER"), 0o600))
	require.NoError(t, os.WriteFile(path("larger"), []byte("larger!"), 0o600))
	require.NoError(t, os.WriteFile(path("new"), nil, 0o600))
	require.NoError(t, os.WriteFile(path(".hidden"), nil, 0o600))
	require.NoError(t, os.Remove(path("gone")))
	require.NoError(t, os.Remove(path("dir")))
	require.NoError(t, os.Mkdir(path("dir"), 0o700))
	differences, err = read.Verify(dir)
	require.NoError(t, err)
	var lines []string
	for _, d := range differences {
		lines = append(lines, d.File+": "+d.What)
	}
	sums := func(name string) string { s := sha256.Sum256([]byte(name)); return hex.EncodeToString(s[:]) }
	require.Equal(t, []string{
		"dir.wasm: changed: it is not a regular file",
		"gone.wasm: missing",
		"larger.wasm: changed: it has 7 bytes, the lock says 6",
		"new.wasm: not in the lock",
		"other.wasm: changed: its SHA-256 is " + sums("OTHER") + ", the lock says " + sums("other"),
	}, lines)
}

func TestAFileThatCannotBeWrittenLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, pluginlock.FileName), 0o700)) // no file takes its place
	require.Error(t, pluginlock.New(nil).Write(dir))
	_, err := pluginlock.Read(dir)
	require.ErrorContains(t, err, "not a regular file")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.ErrorContains(t, pluginlock.New([]pluginlock.Entry{entry("x", digestA)}).Write(t.TempDir()), `plugins.lock: "x" is not the name`)
}

// Whatever the bytes: what is read can be written, and is the same then.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version": 1, "plugins": [{"file": "x.wasm", "name": "x", "sha256": "` + digestA + `", "size": 1}]}`))
	f.Add([]byte(`{"version": 1, "plugins": null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := pluginlock.Parse(text)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		dir := t.TempDir()
		require.NoError(t, l.Write(dir))
		again, err := pluginlock.Read(dir)
		require.NoError(t, err)
		require.Equal(t, l, again)
	})
}
