package artifact_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/artifact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.WithTimeout(m)) }

// web serves files by path, and counts the requests.
type web struct {
	*httptest.Server
	files    map[string][]byte
	requests []*http.Request
}

func newWeb(t *testing.T, files map[string][]byte) *web {
	t.Helper()
	w := &web{files: files}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.requests = append(w.requests, r)
		content, found := w.files[r.URL.Path]
		if !found {
			http.NotFound(rw, r)
			return
		}
		_, _ = rw.Write(content)
	}))
	t.Cleanup(w.Close)
	return w
}

// taskDir is a task's directory, built.
func taskDir(t *testing.T) *allocdir.TaskDir {
	t.Helper()
	d := allocdir.New(t.TempDir(), "a1")
	require.NoError(t, d.Build())
	dir, err := d.Task("web")
	require.NoError(t, err)
	require.NoError(t, dir.Build())
	return dir
}

func fetch(t *testing.T, dir *allocdir.TaskDir, a *nomad.TaskArtifact) error {
	t.Helper()
	err := artifact.Fetch(t.Context(), artifact.Request{Artifact: a, Dir: dir, Limits: artifact.Limits{Bytes: 1 << 20, Files: 20}})
	require.NoDirExists(t, filepath.Join(dir.Path, ".artifact"), "what was staged is gone")
	return err
}

func block(source, mode, dest string, options ...string) *nomad.TaskArtifact {
	a := &nomad.TaskArtifact{GetterSource: &source, GetterOptions: map[string]string{}}
	if mode != "" {
		a.GetterMode = &mode
	}
	if dest != "" {
		a.RelativeDest = &dest
	}
	for i := 0; i < len(options); i += 2 {
		a.GetterOptions[options[i]] = options[i+1]
	}
	return a
}

// tree lists what is below a directory: path, and content or "-> target".
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if e.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			out[name] = "-> " + target
			return err
		}
		data, err := os.ReadFile(path)
		out[name] = string(data)
		return err
	}))
	return out
}

func sum(data string) string {
	h := sha256.Sum256([]byte(data))
	return "sha256:" + hex.EncodeToString(h[:])
}

func TestAFileIsFetchedToItsDestination(t *testing.T) {
	w := newWeb(t, map[string][]byte{"/a/tool": []byte("tool")})
	for _, c := range []struct {
		name, mode, dest, want string
		options                []string
	}{
		{name: "by default into local", want: "web/local/tool"},
		{name: "a directory", dest: "local/bin/", want: "web/local/bin/tool"},
		{name: "a directory without a slash", dest: "local/bin", want: "web/local/bin/tool"},
		{name: "a file", mode: "file", dest: "local/bin/it", want: "web/local/bin/it"},
		{name: "a file by default", mode: "file", want: "web/local/tool"},
		{name: "a name of its own", options: []string{"filename", "it"}, want: "web/local/it"},
		{name: "the shared directory", dest: "/alloc/data", want: "alloc/data/tool"},
		{name: "with its checksum", options: []string{"checksum", sum("tool")}, want: "web/local/tool"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := taskDir(t)
			require.NoError(t, fetch(t, dir, block(w.URL+"/a/tool", c.mode, c.dest, c.options...)))
			require.Equal(t, map[string]string{c.want: "tool"}, tree(t, dir.Alloc.Path()))
			info, err := os.Stat(filepath.Join(dir.Alloc.Path(), c.want))
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o644), info.Mode())
		})
	}
}

func TestAFileReplacesALinkAndNotItsTarget(t *testing.T) {
	w := newWeb(t, map[string][]byte{"/tool": []byte("new")})
	dir := taskDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir.Secrets, "kept"), []byte("kept"), 0o600))
	require.NoError(t, os.Symlink("../secrets/kept", filepath.Join(dir.Local, "tool")))
	require.NoError(t, fetch(t, dir, block(w.URL+"/tool", "", "")))
	require.Equal(t, map[string]string{"local/tool": "new", "secrets/kept": "kept"}, tree(t, dir.Path))
}

func TestHeadersAndOptionsReachTheServer(t *testing.T) {
	w := newWeb(t, map[string][]byte{"/f": []byte("x")})
	a := block(w.URL+"/f?a=1", "", "", "b", "2", "archive", "false")
	a.GetterHeaders = map[string]string{"X-Token": "secret"}
	require.NoError(t, fetch(t, taskDir(t), a))
	require.Len(t, w.requests, 1)
	require.Equal(t, "secret", w.requests[0].Header.Get("X-Token"))
	require.Equal(t, "a=1&b=2", w.requests[0].URL.RawQuery)
}

func TestProgressIsToldWhileItIsDownloaded(t *testing.T) {
	w := newWeb(t, map[string][]byte{"/f": bytes.Repeat([]byte("x"), 1<<20)})
	var done, size int64
	require.NoError(t, artifact.Fetch(t.Context(), artifact.Request{
		Artifact: block(w.URL+"/f", "", ""), Dir: taskDir(t), Progress: func(n, of int64) {
			require.GreaterOrEqual(t, n, done)
			done, size = n, of
		},
	}))
	require.EqualValues(t, 1<<20, done)
	require.Contains(t, []int64{0, 1 << 20}, size, "a large answer may come without its length")
}

func TestFilesBelongToTheTasksUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	w := newWeb(t, map[string][]byte{"/f": []byte("x")})
	dir := taskDir(t)
	require.NoError(t, artifact.Fetch(t.Context(), artifact.Request{
		Artifact: block(w.URL+"/f", "", ""), Dir: dir, Owner: &artifact.Owner{UID: 12345, GID: 54321},
	}))
	require.Equal(t, "12345:54321", ownerOf(t, filepath.Join(dir.Local, "f")))
}

func TestWhatIsRefusedBeforeAnythingIsFetched(t *testing.T) {
	for _, c := range []struct {
		source, mode, dest string
		options            []string
		want               string
	}{
		{source: "", want: "source: it is missing"},
		{source: "/etc/passwd", want: "local files are none"},
		{source: "file:///etc/passwd", want: "local files are none"},
		{source: "file::/etc/passwd", want: "local files are none"},
		{source: "git::/srv/repo", want: "local files are none"},
		{source: "git::file:///srv/repo", want: "local files are none"},
		{source: "git::ext::sh -c id", want: "local files are none"},
		{source: "s3::https://s3.amazonaws.com/b/k", want: "is not fetched"},
		{source: "hg::https://h/r", want: "is not fetched"},
		{source: "http:///nohost", want: "is not fetched"},
		{source: "http://h/x", mode: "dir", want: `"dir" needs an archive`},
		{source: "http://h/x", mode: "tree", want: "none of any, file and dir"},
		{source: "http://h/x//sub", want: "not an archive"},
		{source: "http://h/x.zip//su*b", want: "has a pattern"},
		{source: "http://h/x.tar.xz", want: "xz archives are not unpacked"},
		{source: "http://h/x", dest: "../other/local", want: "outside the task's directories"},
		{source: "http://h/x", dest: "local/../../../etc", want: "outside the task's directories"},
		{source: "http://h/x", options: []string{"filename", "../x"}, want: "not a file's name"},
		{source: "http://h/x", options: []string{"archive", "rar"}, want: "not a known kind"},
		{source: "git::https://h/x", mode: "file", want: "not possible with a git repository"},
		{source: "git::https://h/x", options: []string{"ref", "--upload-pack=id"}, want: "not a branch, tag or commit"},
		{source: "git::https://h/x", options: []string{"checksum", "md5:00"}, want: "a repository has none"},
	} {
		err := fetch(t, taskDir(t), block(c.source, c.mode, c.dest, c.options...))
		require.ErrorIs(t, err, artifact.ErrRefused, c.source)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
	require.NoError(t, artifact.Check(block("${meta.address}", "", "")), "what is not known yet is not judged")
	require.Error(t, artifact.Check(block("file:///x", "", "")))
}

// nobody listens there; the port that a server had before may be another process's.
const nobody = "http://127.0.0.1:1"

func TestWhatFailsMayBeTriedAgain(t *testing.T) {
	w := newWeb(t, map[string][]byte{"/f": []byte("x")})
	for _, c := range []struct {
		source  string
		options []string
		want    string
	}{
		{source: w.URL + "/missing", want: "bad response code: 404"},
		{source: nobody + "/f", want: "connection refused"},
		{source: w.URL + "/f", options: []string{"checksum", sum("y")}, want: "checksum does not match: want " + sum("y")[7:]},
		{source: "git::" + w.URL + "/repo", want: "git clone: "},
	} {
		err := fetch(t, taskDir(t), block(c.source, "", "", c.options...))
		require.ErrorContains(t, err, c.want)
		require.NotErrorIs(t, err, artifact.ErrRefused)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestADownloadIsBounded(t *testing.T) {
	w := newWeb(t, map[string][]byte{"/large": make([]byte, 1<<20+1), "/exact": make([]byte, 1<<20)})
	require.NoError(t, fetch(t, taskDir(t), block(w.URL+"/exact", "", "")))
	dir := taskDir(t)
	err := fetch(t, dir, block(w.URL+"/large", "", ""))
	require.ErrorIs(t, err, artifact.ErrRefused)
	require.ErrorContains(t, err, "that this node allows")
	require.Empty(t, tree(t, dir.Path))
}

// stalled is a server that begins an answer and never ends it.
func stalled(t *testing.T) (address string, asked <-chan struct{}) {
	t.Helper()
	begun, over := make(chan struct{}, 8), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("some"))
		w.(http.Flusher).Flush()
		begun <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	t.Cleanup(func() { close(over); s.Close() })
	return s.URL, begun
}

func TestASlowServerHoldsUpNoOtherDownload(t *testing.T) {
	for _, prefix := range []string{"", "git::"} {
		address, asked := stalled(t)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		dir := taskDir(t)
		go func() {
			result <- artifact.Fetch(ctx, artifact.Request{Artifact: block(prefix+address+"/x", "", ""), Dir: dir})
		}()
		<-asked
		cancel()
		select {
		case err := <-result:
			require.ErrorIs(t, err, context.Canceled)
		case <-time.After(time.Minute):
			t.Fatal("the download goes on")
		}
		require.Empty(t, tree(t, dir.Path))
	}
}

func TestADownloadHasADeadline(t *testing.T) {
	address, _ := stalled(t)
	err := artifact.Fetch(t.Context(), artifact.Request{
		Artifact: block(address+"/x", "", ""), Dir: taskDir(t), Limits: artifact.Limits{Time: 50 * time.Millisecond},
	})
	require.EqualError(t, err, "not done within 50ms")
}

func TestErrorsShowNoSecretOfASource(t *testing.T) {
	for src, want := range map[string]string{
		"https://u:p@h/a/b?token=x":     "https://h/a/b",
		"git::ssh://git@h/a?sshkey=abc": "git::ssh://h/a",
		"github.com/a/b?ref=c":          "github.com/a/b",
	} {
		require.Equal(t, want, artifact.Redacted(src))
	}
	for _, prefix := range []string{"", "git::"} {
		source := prefix + strings.Replace(nobody, "http://", "http://user:hidden@", 1) + "/x?token=hidden"
		err := fetch(t, taskDir(t), block(source, "", ""))
		require.Error(t, err)
		require.NotContains(t, fmt.Sprint(err), "hidden")
	}
}
