package enginetest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Containerd is a containerd that runs until its test ends. It has [Image] in a namespace of its
// own.
type Containerd struct {
	Engine
	Namespace string
	t         testing.TB // with which it ends
	dir       string
	stop      func() // nil: it was stopped
}

const containerdConfig = `version = 2
root = "DIR/root"
state = "DIR/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
  address = "DIR/s"
[ttrpc]
  address = "DIR/t"
`

// NewContainerd starts Debian's containerd.
func NewContainerd(t testing.TB) *Containerd {
	t.Helper()
	need(t, "containerd", "containerd")
	need(t, "ctr", "containerd")
	need(t, "runc", "runc")
	dir := directory(t)
	c := &Containerd{Engine: Engine{Name: "containerd", Socket: filepath.Join(dir, "s")}, Namespace: filepath.Base(dir), t: t, dir: dir}
	require.NoError(t, os.WriteFile(dir+"/config.toml", []byte(strings.ReplaceAll(containerdConfig, "DIR", dir)), 0o600))
	t.Cleanup(func() {
		removeCgroups(c.Namespace)
		_ = os.RemoveAll("/run/containerd/runc/" + c.Namespace) // where runc keeps what it runs, empty now
	})
	c.Start()
	require.NoError(t, os.WriteFile(c.archive(), imageArchive(t, Image, layer(t, program(t))), 0o600))
	c.Import(t)
	return c
}

func (c *Containerd) archive() string { return filepath.Join(c.dir, "image.tar") }

// Import imports the image.
func (c *Containerd) Import(t testing.TB, options ...string) {
	t.Helper()
	c.Control(t, append(append([]string{"images", "import"}, options...), c.archive())...)
}

// Forget has containerd forget an image, and what only that needs.
func (c *Containerd) Forget(t testing.TB, name string) {
	t.Helper()
	c.Control(t, "images", "rm", "--sync", name)
}

// Start starts it, also again.
func (c *Containerd) Start() {
	c.t.Helper()
	c.stop = start(c.t, c.dir, exec.Command("containerd", "--config", c.dir+"/config.toml"), func() {})
	require.Eventually(c.t, func() bool { return c.control("version") == nil }, longest, pollTime, "containerd does not start")
	c.t.Cleanup(func() {
		c.RemoveAll(c.t)
		c.Stop()
	})
}

// Stop ends it, unless it was. What it runs goes on.
func (c *Containerd) Stop() {
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
}

// Control runs a command of its own tool in the namespace, and returns the words that it answers.
func (c *Containerd) Control(t testing.TB, args ...string) []string {
	t.Helper()
	cmd := c.command(args...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v: %s", args, out)
	return strings.Fields(string(out))
}

func (c *Containerd) control(args ...string) error { return c.command(args...).Run() }

func (c *Containerd) command(args ...string) *exec.Cmd {
	return exec.Command("ctr", append([]string{"--address", c.Socket, "--namespace", c.Namespace}, args...)...)
}

// Containers are the IDs of all that there are.
func (c *Containerd) Containers(t testing.TB) []string {
	t.Helper()
	return c.Control(t, "containers", "list", "--quiet")
}

// Tasks are the states of what runs in containers, as "RUNNING" and "STOPPED".
func (c *Containerd) Tasks(t testing.TB) (states []string) {
	t.Helper()
	words := c.Control(t, "tasks", "list") // TASK PID STATUS, and as many for each
	for i := 5; i < len(words); i += 3 {
		states = append(states, words[i])
	}
	return states
}

// RemoveAll removes all containers with what they have, by force, unless it was stopped.
func (c *Containerd) RemoveAll(t testing.TB) {
	t.Helper()
	if c.stop == nil {
		return
	}
	for _, id := range c.Control(t, "tasks", "list", "--quiet") {
		_ = c.control("tasks", "rm", "--force", id) // it may have ended meanwhile
	}
	for _, id := range c.Containers(t) {
		c.Control(t, "containers", "rm", id)
	}
}

// imageArchive is an image as a file, which has one layer.
func imageArchive(t testing.TB, name string, layer []byte) []byte {
	t.Helper()
	config := fmt.Appendf(nil, `{"architecture": "%s", "os": "linux", "config": {"Env": ["FROM=image", "OTHER=image"], "Cmd": ["/program", "print", "by default", "", "0"]},
		"rootfs": {"type": "layers", "diff_ids": ["sha256:%x"]}}`, runtime.GOARCH, sha256.Sum256(layer))
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name    string
		content []byte
	}{
		{"config.json", config},
		{"layer.tar", layer},
		{"manifest.json", fmt.Appendf(nil, `[{"Config": "config.json", "RepoTags": ["%s"], "Layers": ["layer.tar"]}]`, name)},
	} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content))}))
		_, err := w.Write(f.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}
