package releasetest

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

const (
	root    = "../.."
	product = "github.com/wasmnode/wasmnode"
	version = "v0.1.0"
)

// modules are the directories of what is published, by module.
var modules = map[string]string{product: ".", product + "/abi": "abi", product + "/sdk/go": "sdk/go"}

// outside is a directory outside of the repository in which the published modules, and
// nothing else of the repository, can be required.
type outside struct {
	dir string
	env []string
}

// newOutside publishes the modules. The module cache is a new one, so that what is
// published here never gets into the user's; what it needs of others comes from there
// first.
func newOutside(t *testing.T) *outside {
	t.Helper()
	configured := strings.Split(strings.TrimSpace(run(t, root, os.Environ(), "go", "env", "GOPROXY", "GOMODCACHE")), "\n")
	require.Len(t, configured, 2)
	proxies := []string{"file://" + publish(t), "file://" + filepath.Join(configured[1], "cache", "download"), configured[0]}
	return &outside{dir: t.TempDir(), env: append(os.Environ(),
		"GOWORK=off", "GOPROXY="+strings.Join(proxies, ","), "GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw -trimpath",
		// The public database of checksums knows nothing of a version that is not public.
		"GOSUMDB=off", "GONOSUMDB=", "GOPRIVATE=", "GONOPROXY=none")}
}

// publish makes a module proxy of files, https://go.dev/ref/mod#goproxy-protocol.
func publish(t *testing.T) string {
	t.Helper()
	proxy := t.TempDir()
	for path, dir := range modules {
		at := filepath.Join(proxy, filepath.FromSlash(path), "@v")
		require.NoError(t, os.MkdirAll(at, 0o700))
		gomod, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
		require.NoError(t, err)
		var archive bytes.Buffer
		require.NoError(t, modzip.Create(&archive, module.Version{Path: path, Version: version}, files(t, filepath.Join(root, dir))))
		for name, content := range map[string][]byte{
			"list": []byte(version + "\n"), version + ".info": fmt.Appendf(nil, "{\"Version\": %q}", version),
			version + ".mod": gomod, version + ".zip": archive.Bytes(),
		} {
			require.NoError(t, os.WriteFile(filepath.Join(at, name), content, 0o600))
		}
	}
	return proxy
}

// files returns what a commit of a directory would have in it, as the working tree has it.
func files(t *testing.T, dir string) []modzip.File {
	t.Helper()
	var found []modzip.File
	for path := range strings.SplitSeq(run(t, dir, os.Environ(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		f := file{dir: dir, path: path}
		if info, err := f.Lstat(); path != "" && err == nil && info.Mode().IsRegular() {
			found = append(found, f)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// file is a file of the working tree.
type file struct{ dir, path string }

func (f file) Path() string                 { return f.path }
func (f file) Lstat() (fs.FileInfo, error)  { return os.Lstat(filepath.Join(f.dir, f.path)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.dir, f.path)) }

// run returns what a command prints.
func run(t *testing.T, dir string, env []string, command string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command, args...)
	var stderr strings.Builder
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s\n%s%s", cmd, out, &stderr)
	return string(out)
}

func (o *outside) run(t *testing.T, env []string, command string, args ...string) string {
	t.Helper()
	return run(t, o.dir, append(o.env[:len(o.env):len(o.env)], env...), command, args...)
}
