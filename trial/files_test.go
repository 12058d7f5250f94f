package trial_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/trial"
)

// recordFiles records a call that reads and writes a task's files, and returns what the plugin
// said and the recording.
func recordFiles(t *testing.T, tried *trial.Trial, grants host.Grants) (said, text string) {
	t.Helper()
	require.NoError(t, tried.Configure(t.Context(), grants, map[string]any{"how": "files"}))
	var out bytes.Buffer
	to, err := tried.NewRecorder(&out, nil)
	require.NoError(t, err)
	c, err := tried.Prepare(abi.OpDriverStartTask, []byte(`{}`), t.TempDir())
	require.NoError(t, err)
	dir := c.Task.Directories.Task
	require.NoError(t, os.WriteFile(filepath.Join(dir, "local", "app.conf"), []byte("port = 80\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "secrets"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secrets", "db"), []byte("swordfish\n"), 0o600))
	r, err := tried.Record(t.Context(), c, to)
	require.NoError(t, err)
	require.NoError(t, r.Err)
	require.Equal(t, []string{"/task/local", "/task/local/app.conf", "/task/local/done", "/task/local/link", "/task/local/missing", "/task/local/out", "/task/secrets/db"}, r.Files)
	written, err := os.ReadFile(filepath.Join(dir, "local", "done"))
	require.NoError(t, err)
	require.Equal(t, "for", string(written), "files are real in what is recorded")
	return r.Events[0].Message, out.String()
}

// TestWhatAPluginDoesWithFilesIsReplayed has none of the files, nor the directories, that there
// were, and none is made.
func TestWhatAPluginDoesWithFilesIsReplayed(t *testing.T) {
	tried := repeatable(t)
	granted := filepath.Join(t.TempDir(), "granted")
	require.NoError(t, os.Mkdir(granted, 0o700))
	said, text := recordFiles(t, tried, host.Grants{FS: host.FSGrant{ReadOnly: []string{granted}}})
	require.Regexp(t, `^here app.conf .*port = 80`, said)
	require.Contains(t, said, "swordfish")
	require.NotContains(t, text, "swordfish")
	require.NoError(t, os.Remove(granted))

	again := repeatable(t)
	dir := t.TempDir()
	require.NoError(t, again.Replay(t.Context(), read(t, text), dir, patient))
	require.NoFileExists(t, filepath.Join(dir, "alloc", "task", "local", "done"))

	for _, c := range []struct{ old, new, want string }{
		{`"data":"port = 80\n"`, `"data":"port = 81\n"`, `task/v1 event: the request differs`},
		{`"errno":"ENOENT"`, `"errno":"EACCES"`, `task/v1 event: the request differs`},
		{`{"path":"/task/local/out","data":"for masked-ma\n"}`, `{"path":"/task/local/out","data":"for me\n"}`, `wasi/v1 write: the request differs`},
		{`"to":"/task/local/done"`, `"to":"/task/local/gone"`, `wasi/v1 rename: the request differs`},
	} {
		require.Contains(t, text, c.old)
		err := again.Replay(t.Context(), read(t, strings.Replace(text, c.old, c.new, 1)), t.TempDir(), patient)
		require.ErrorContains(t, err, c.want)
	}
	rec := read(t, text)
	rec.Calls[0].Configure(`{"how":"forgets files"}`)
	var d *trial.Difference
	require.ErrorAs(t, again.Replay(t.Context(), rec, t.TempDir(), patient), &d)
	require.Equal(t, "another capability is asked for", d.What)
	require.Equal(t, `"wasi/v1 open"`, string(d.Recorded))
}

// TestWhatIsReadOfAFileIsMaskedAsOneText has it read in pieces.
func TestWhatIsReadOfAFileIsMaskedAsOneText(t *testing.T) {
	many := strings.Repeat("a line\n", 65)
	for _, c := range []struct{ file, text, want string }{
		{"/etc/app.json", `{"user": "me", "password": "swordfish"}`, `{"user": "me", "password": "masked-ma"}`},
		{"/etc/app.json", `{"password": "sword\u0066ish"}`, `masked-masked-masked-masked-ma`},
		{"/etc/tls.pem", "-----BEGIN PRIVATE KEY-----\nMH\n", "masked-masked-masked-masked-mas"},
		{"/etc/app.conf", "say swordfish\n", "say swordfish\n"},
		{"/etc/passwd", "root:x:0\n", "root:x:0\n"},
		{"/srv/api_token", "swordfish\r\n", "masked-ma\r\n"},
		{"/task/secrets/env", "USER=swordfish\nfish\n", "USER=masked-ma\nmask\n"},
		{"/task/secrets/env", "c3dvcmRmaXNo==", "masked-masked-"},
		{"/task/secrets/env", `{"a":"b"}`, "masked-ma"},
		{"/task/secrets/env", many[7:], strings.Repeat("masked\n", 64)},
		{"/task/secrets/env", many, strings.Repeat("masked-", 65)},
	} {
		for _, piece := range []int{1, 10, len(c.text)} {
			require.Equal(t, c.want, trial.MaskFile(c.file, c.text, piece), "%s, by %d", c.file, piece)
		}
	}
}

// TestACallIsRecordedUpToItsBound is about what goes through files and capabilities together.
func TestACallIsRecordedUpToItsBound(t *testing.T) {
	require.NoError(t, trial.Taken(1, 64<<20))
	require.EqualError(t, trial.Taken(1, 64<<20+1), "it exchanges more than 67108864 bytes")
	require.NoError(t, trial.Taken(100_000, 0))
	require.EqualError(t, trial.Taken(100_001, 0), "it has more than 100000 uses of capabilities and files")
}

func TestAReadThatIsRecordedIsShort(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), make([]byte, 1<<20+1), 0o600))
	require.Equal(t, []int{1<<20 - 1, 1 << 20, 1 << 20}, []int{trial.ReadFileOnce(t, dir, 1<<20-1), trial.ReadFileOnce(t, dir, 1<<20), trial.ReadFileOnce(t, dir, 1<<20+1)})
}

func TestASweepFailsFilesToo(t *testing.T) {
	tried := repeatable(t)
	_, text := recordFiles(t, tried, host.Grants{})
	var got []*trial.SweptFault
	require.NoError(t, tried.Sweep(t.Context(), read(t, text), t.TempDir(), patient, func(f *trial.SweptFault) { got = append(got, f) }))
	uses := strings.Count(text, "\n{\"use\"")
	require.Len(t, got, 3*uses)
	seen := map[string]trial.Ending{}
	for _, f := range got {
		assert.False(t, f.Bad(), "%s %s: %s %s", f.Capability, f.Failure, f.Text, f.Retry)
		seen[f.Capability+" "+f.Failure] = f.Ending
	}
	require.Equal(t, trial.Refused, seen["wasi/v1 open /task/local/app.conf EACCES"])
	require.Equal(t, trial.Claimed, seen["wasi/v1 open /task/local/app.conf EINTR"], "who is interrupted tries again")
	require.Equal(t, trial.Refused, seen["wasi/v1 write /task/local/out EIO"])
}
