package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/pluginsign"
)

var trial = release{Version: "1.2.3-rc.1+abc", Commit: "abcdef", Time: time.Unix(1700000000, 0).UTC(), ClientSchema: 7, ServerSchema: 9}

// small is a tree with what is written by hand, and little else.
func small() tree {
	var t tree
	t.addUnits()
	t.add("/usr/bin/wasmnode", 0o755, []byte("binary"))
	t.add("/usr/share/wasmnode/plugins/wasi.wasm", 0o644, []byte("plugin"))
	return t.sorted()
}

func TestTheSameTreeIsTheSameBytes(t *testing.T) {
	var before map[string][]byte
	for range 2 {
		t.Setenv("TMPDIR", t.TempDir())
		out := t.TempDir()
		for _, make := range []func(tree, release, string, string) error{archive, image, debian, redHat} {
			require.NoError(t, make(small(), trial, "arm64", out))
		}
		now := map[string][]byte{}
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		for _, e := range entries {
			now[e.Name()], err = os.ReadFile(filepath.Join(out, e.Name()))
			require.NoError(t, err)
		}
		require.Len(t, now, 4)
		for _, name := range []string{"wasmnode_1.2.3~rc.1+abc-1_arm64.deb", "wasmnode-1.2.3~rc.1+abc-1.aarch64.rpm",
			"wasmnode_1.2.3-rc.1+abc_linux_arm64.tar.gz", "wasmnode_1.2.3-rc.1+abc_linux_arm64.image.tar"} {
			require.Contains(t, now, name)
			if before != nil {
				require.True(t, bytes.Equal(before[name], now[name]), name)
			}
		}
		// The times are the commit's, and not those of two builds in one second.
		require.True(t, bytes.HasPrefix(now["wasmnode_1.2.3~rc.1+abc-1_arm64.deb"], []byte("!<arch>\ndebian-binary   1700000000 ")))
		require.Contains(t, string(now["wasmnode-1.2.3~rc.1+abc-1.aarch64.rpm"]), string(binary.BigEndian.AppendUint32(nil, 1700000000)))
		left, err := os.ReadDir(os.Getenv("TMPDIR"))
		require.NoError(t, err)
		require.Empty(t, left)
		before = now
	}
}

func TestAPackageRefusesToReplaceWhatItCannotRead(t *testing.T) {
	for name, c := range map[string]struct{ told, want string }{
		"the same":           {`{"ClientSchema": 7, "ServerSchema": 9}`, ""},
		"an older one":       {`{"ClientSchema": 6, "ServerSchema": 9}`, ""},
		"a newer client":     {"{\n    \"ClientSchema\": 8,\n    \"ServerSchema\": 9\n}", "it is of schema 8, and this one knows up to 7"},
		"a newer server":     {"{\n    \"ClientSchema\": 7,\n    \"ServerSchema\": 10\n}", "it is of schema 10, and this one knows up to 9"},
		"one before -json":   {"wasmnode 0.1.0", ""},
		"something else":     {`{"ClientSchema": "many"}`, ""},
		"nothing there":      {"", ""},
		"a number that ends": {"    \"ClientSchema\": 70", "it is of schema 70, and this one knows up to 7"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			installed := filepath.Join(dir, "wasmnode")
			require.NoError(t, os.WriteFile(installed, []byte("#!/bin/sh\ncat <<'E'\n"+c.told+"\nE\n"), 0o700))
			script := strings.NewReplacer("/usr/bin/wasmnode", installed, "/run/wasmnode", filepath.Join(dir, "run")).Replace(filled("preinst", trial))
			for _, how := range []string{"upgrade", "2"} {
				out, err := exec.Command("sh", "-c", script, "preinst", how, "1.0").CombinedOutput()
				if c.want == "" {
					require.NoError(t, err, string(out))
					require.Empty(t, string(out))
				} else {
					require.Error(t, err)
					require.Contains(t, string(out), c.want)
					require.Contains(t, string(out), "remove it, put a copy of the data back")
				}
			}
			out, err := exec.Command("sh", "-c", script, "preinst", "install").CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}

func TestAnImageIsReadByOldAndNewEngines(t *testing.T) {
	out := t.TempDir()
	require.NoError(t, image(small(), trial, "amd64", out))
	dir := t.TempDir()
	unpacked, err := exec.Command("tar", "-C", dir, "-xf", filepath.Join(out, "wasmnode_1.2.3-rc.1+abc_linux_amd64.image.tar")).CombinedOutput()
	require.NoError(t, err, string(unpacked))
	var list []struct {
		Config           string
		RepoTags, Layers []string
	}
	decode(t, filepath.Join(dir, "manifest.json"), &list)
	require.Equal(t, []string{"wasmnode:1.2.3-rc.1-abc"}, list[0].RepoTags)
	require.FileExists(t, filepath.Join(dir, list[0].Layers[0]))
	var config struct {
		Architecture string
		Config       struct{ Entrypoint []string }
	}
	decode(t, filepath.Join(dir, list[0].Config), &config)
	require.Equal(t, "amd64", config.Architecture)
	require.Equal(t, []string{"/usr/bin/wasmnode"}, config.Config.Entrypoint)
	var index struct{ Manifests []struct{ Digest string } }
	decode(t, filepath.Join(dir, "index.json"), &index)
	var manifest struct{ Layers []struct{ Digest string } }
	decode(t, filepath.Join(dir, "blobs", strings.ReplaceAll(index.Manifests[0].Digest, ":", "/")), &manifest)
	require.Equal(t, list[0].Layers[0], "blobs/"+strings.ReplaceAll(manifest.Layers[0].Digest, ":", "/"), "both mean the same layer")

	listed, err := exec.Command("tar", "-tvzf", filepath.Join(dir, list[0].Layers[0])).CombinedOutput()
	require.NoError(t, err)
	require.Regexp(t, `(?m)^drwxrwxrwt .* tmp/$`, string(listed))
	require.Regexp(t, `(?m)^-rwxr-xr-x 0/0 .* usr/bin/wasmnode$`, string(listed))
	require.NotContains(t, string(listed), "systemd")
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

func TestChecksumsAreSignedAsPluginsAre(t *testing.T) {
	key, err := pluginsign.NewKey()
	require.NoError(t, err)
	text, err := key.PEM([]byte("secret"))
	require.NoError(t, err)
	public, err := key.Public("test")
	require.NoError(t, err)
	dir, private := t.TempDir(), filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(private, text, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a b"), []byte("1"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c"), []byte("2"), 0o600))
	require.NoError(t, sums(dir))
	check := exec.Command("sha256sum", "--strict", "-c", sumsName)
	check.Dir = dir
	out, err := check.CombinedOutput()
	require.NoError(t, err, string(out))

	require.NoError(t, sign(dir, ""))
	require.NoFileExists(t, filepath.Join(dir, signatureName))
	require.ErrorContains(t, sign(dir, private), "WASMNODE_KEY_PASSWORD")
	t.Setenv("WASMNODE_KEY_PASSWORD", "secret")
	require.NoError(t, sign(dir, private))
	signature, err := pluginsign.ReadFile(filepath.Join(dir, signatureName))
	require.NoError(t, err)
	by, err := pluginsign.Keys{public}.Verify(signature, digestOf(t, filepath.Join(dir, sumsName)))
	require.NoError(t, err)
	require.Equal(t, public.ID, by.ID)
	_, err = pluginsign.Keys{public}.Verify(signature, digestOf(t, filepath.Join(dir, "c")))
	require.Error(t, err)
}

func digestOf(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("sha256sum", path).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))[0]
}

func TestWhatIsInstalledKeepsWhatPeopleChanged(t *testing.T) {
	dir := t.TempDir()
	there := small().moved("/usr/local")
	require.NoError(t, there.write(dir))
	unit := read(t, dir, "usr/local/lib/systemd/system/wasmnode.service")
	require.Contains(t, unit, "ExecStart=/usr/local/bin/wasmnode agent")
	require.Contains(t, read(t, dir, "etc/wasmnode/wasmnode.hcl"), `"/usr/local/share/wasmnode/programs"`)
	require.Contains(t, read(t, dir, "usr/local/share/bash-completion/completions/wasmnode"), "complete -C /usr/local/bin/wasmnode wasmnode")
	info, err := os.Stat(filepath.Join(dir, "usr/local/bin/wasmnode"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm())

	mine := filepath.Join(dir, "etc/wasmnode/wasmnode.hcl")
	require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "usr/local/bin/wasmnode"), []byte("old"), 0o600))
	require.NoError(t, there.write(dir))
	require.Equal(t, "mine", read(t, dir, "etc/wasmnode/wasmnode.hcl"))
	require.Equal(t, "binary", read(t, dir, "usr/local/bin/wasmnode"))
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(text)
}
