package artifact_test

import (
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/artifact"
)

// repository is a directory that a test commits to.
type repository string

// git runs a command to its end: none goes on tidying behind it, as a commit's may.
func (r repository) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{
		"-C", string(r), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", "-c", "maintenance.auto=false",
	}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

func (r repository) commit(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(string(r), name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	r.git(t, "add", ".")
	r.git(t, "commit", "-q", "-m", "change "+name)
	return r.git(t, "rev-parse", "HEAD")
}

// newRepository serves a repository over HTTP with git's own server.
func newRepository(t *testing.T) (repository, string) {
	t.Helper()
	backend, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skip("no git on this machine")
	}
	dir := t.TempDir()
	repo := repository(filepath.Join(dir, "repo"))
	require.NoError(t, os.Mkdir(string(repo), 0o755))
	repo.git(t, "init", "-q", "-b", "main")
	repo.git(t, "config", "uploadpack.allowAnySHA1InWant", "true")
	s := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(backend)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	})
	t.Cleanup(s.Close)
	return repo, "git::" + s.URL + "/repo/.git"
}

// files are those of a checkout, git's own left out.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := tree(t, dir)
	for name := range out {
		if strings.HasPrefix(name, ".git/") {
			delete(out, name)
		}
	}
	return out
}

// fetchRepo fetches with room for git's own files.
func fetchRepo(t *testing.T, source string, options ...string) (map[string]string, error) {
	t.Helper()
	dir := taskDir(t)
	err := artifact.Fetch(t.Context(), artifact.Request{Artifact: block(source, "", "local/repo", options...), Dir: dir, Limits: artifact.Limits{Bytes: 1 << 20}})
	if err != nil {
		return nil, err
	}
	return files(t, filepath.Join(dir.Local, "repo")), nil
}

func TestARepositoryIsCheckedOut(t *testing.T) {
	repo, source := newRepository(t)
	first := repo.commit(t, "app/f", "one")
	repo.git(t, "tag", "v1")
	repo.git(t, "branch", "old")
	repo.commit(t, "app/f", "two")
	for _, c := range []struct {
		source, want string
		options      []string
	}{
		{source: source, want: "two"},
		{source: source, want: "two", options: []string{"depth", "1"}},
		{source: source, want: "one", options: []string{"ref", first}},
		{source: source, want: "one", options: []string{"ref", "v1"}},
		{source: source, want: "one", options: []string{"ref", "old"}},
		{source: source, want: "one", options: []string{"ref", "old", "depth", "1"}},
		{source: source + "?ref=v1", want: "one"},
	} {
		got, err := fetchRepo(t, c.source, c.options...)
		require.NoError(t, err, c.options)
		require.Equal(t, map[string]string{"app/f": c.want}, got, c.options)
	}
	got, err := fetchRepo(t, source+"//app")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"f": "two"}, got)
}

func TestHostileRepositoriesAreRefused(t *testing.T) {
	repo, source := newRepository(t)
	require.NoError(t, os.Symlink("/etc", filepath.Join(string(repo), "l")))
	repo.commit(t, "f", "x")
	_, err := fetchRepo(t, source)
	require.ErrorIs(t, err, artifact.ErrRefused)
	require.ErrorContains(t, err, "leads out")

	large, source := newRepository(t)
	large.commit(t, "f", strings.Repeat("x", 2<<20))
	_, err = fetchRepo(t, source)
	require.ErrorIs(t, err, artifact.ErrRefused)
	require.ErrorContains(t, err, "that this node allows")

	local, source := newRepository(t)
	local.git(t, "submodule", "-q", "add", string(repo), "sub")
	local.commit(t, "f", "x")
	_, err = fetchRepo(t, source)
	require.ErrorContains(t, err, "transport 'file' not allowed")

	_, err = fetchRepo(t, source, "depth", "many")
	require.ErrorIs(t, err, artifact.ErrRefused)
	_, err = fetchRepo(t, source, "ref", "missing")
	require.ErrorContains(t, err, "git checkout: ")
	_, err = fetchRepo(t, source, "sshkey", "!")
	require.ErrorContains(t, err, "sshkey: it is not base64")
}
