package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image makes an archive that is an OCI layout, and that docker load and podman load read, too:
// one layer, on nothing.
func image(t tree, r release, arch, out string) error {
	img, err := containerImage(t, r, arch)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "wasmnode-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	index, err := layout.Write(work, empty.Index)
	if err != nil {
		return err
	}
	name := "wasmnode:" + strings.ReplaceAll(r.Version, "+", "-") // what a tag may have in it
	if err := index.AppendImage(img, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}),
		layout.WithAnnotations(map[string]string{"io.containerd.image.name": "docker.io/library/" + name, "org.opencontainers.image.ref.name": name})); err != nil {
		return err
	}
	if err := addDockerManifest(work, name, img); err != nil {
		return err
	}
	var files tree
	if err := filepath.WalkDir(work, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(work, path)
		if err != nil {
			return err
		}
		return files.addFile("/"+filepath.ToSlash(below), path)
	}); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeTar(&b, files.sorted(), r.Time); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, fmt.Sprintf("wasmnode_%s_linux_%s.image.tar", r.Version, arch)), b.Bytes(), 0o644)
}

// containerImage has the binary, the plugins and a configuration in it, and nothing else.
func containerImage(t tree, r release, arch string) (v1.Image, error) {
	content := tree{
		{Path: "/tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Path: "/run/wasmnode", Mode: fs.ModeDir | 0o755},
		{Path: "/var/lib/wasmnode/plugins", Mode: fs.ModeDir | 0o755},
		{Path: "/etc/wasmnode/wasmnode.hcl", Mode: 0o644, Content: packaged("image.hcl")},
	}
	for _, f := range t {
		if strings.HasPrefix(f.Path, "/usr/bin/") || strings.HasPrefix(f.Path, "/usr/share/wasmnode/") || strings.HasPrefix(f.Path, "/usr/share/doc/") {
			content = append(content, f)
		}
	}
	var b bytes.Buffer
	if err := writeTar(&b, content.sorted(), r.Time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	made := v1.Time{Time: r.Time}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: made, CreatedBy: "wasmnode " + r.Version}}); err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, made
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/wasmnode"}, Cmd: []string{"agent", "-config=/etc/wasmnode"},
		Env:     []string{"PATH=/usr/bin", "NOMAD_ADDR=unix:///run/wasmnode/api.sock"},
		Volumes: map[string]struct{}{"/var/lib/wasmnode": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "wasmnode", "org.opencontainers.image.version": r.Version, "org.opencontainers.image.revision": r.Commit,
			"org.opencontainers.image.licenses": "MPL-2.0", "org.opencontainers.image.source": "https://github.com/wasmnode/wasmnode",
		},
	}
	return mutate.ConfigFile(img, config)
}

// addDockerManifest adds the list by which engines find an image's parts that do not know OCI's.
func addDockerManifest(dir, name string, img v1.Image) error {
	config, err := img.ConfigName()
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	entry := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{Config: blob(config), RepoTags: []string{name}}
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return err
		}
		entry.Layers = append(entry.Layers, blob(digest))
	}
	text, err := json.Marshal([]any{entry})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o644)
}
