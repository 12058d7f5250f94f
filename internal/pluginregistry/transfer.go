package pluginregistry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/wasmnode/wasmnode/internal/plaintext"
)

const (
	// The media types of the layout.
	mediaConfig = "application/vnd.wasm.config.v0+json"
	mediaWasm   = "application/wasm"
	// maxManifest bounds a manifest, in bytes.
	maxManifest = 256 << 10
	// epoch is the time in what is published: the same file is the same manifest.
	epoch = "1970-01-01T00:00:00Z"
)

// wasmConfig is the configuration that the layout asks for.
type wasmConfig struct {
	Created      string   `json:"created"`
	Author       *string  `json:"author"`
	Architecture string   `json:"architecture"`
	OS           string   `json:"os"`
	LayerDigests []string `json:"layerDigests"`
	Component    *string  `json:"component"`
}

// Annotations are what a manifest says of a plugin, for people. Those that are empty are left
// out.
type Annotations struct{ Title, Version, License, Source string }

// Push publishes a plugin's file under a tag, in the place of what has it, and returns the
// digest of the manifest. The same file with the same annotations has the same digest.
func (r Reference) Push(ctx context.Context, cfg Config, wasm []byte, a Annotations) (string, error) {
	if r.ValidateReferenceAsTag() != nil {
		return "", fmt.Errorf("%s%s: a plugin is published under a tag, not under a digest", Scheme, r)
	}
	repo, err := r.open(cfg)
	if err != nil {
		return "", err
	}
	manifest, err := push(ctx, repo, wasm, a)
	if err != nil {
		return "", r.explain(err)
	}
	if err := repo.Tag(ctx, manifest, r.Reference.Reference); err != nil {
		return "", r.explain(err)
	}
	return manifest.Digest.String(), nil
}

// push publishes the parts of a plugin and its manifest.
func push(ctx context.Context, repo *remote.Repository, wasm []byte, a Annotations) (manifest ocispec.Descriptor, err error) {
	layer := content.NewDescriptorFromBytes(mediaWasm, wasm)
	layer.Annotations = present(map[string]string{ocispec.AnnotationTitle: a.Title})
	text, err := json.Marshal(wasmConfig{
		Created: epoch, Architecture: "wasm", OS: "wasip1", LayerDigests: []string{layer.Digest.String()},
	})
	if err != nil {
		return manifest, err
	}
	config := content.NewDescriptorFromBytes(mediaConfig, text)
	for _, blob := range []struct {
		what ocispec.Descriptor
		text []byte
	}{{layer, wasm}, {config, text}} {
		if err := pushBlob(ctx, repo, blob.what, blob.text); err != nil {
			return manifest, err
		}
	}
	return oras.PackManifest(ctx, repo, oras.PackManifestVersion1_1, mediaConfig, oras.PackManifestOptions{
		Layers: []ocispec.Descriptor{layer}, ConfigDescriptor: &config,
		ManifestAnnotations: present(map[string]string{
			ocispec.AnnotationCreated: epoch, ocispec.AnnotationTitle: a.Title, ocispec.AnnotationVersion: a.Version,
			ocispec.AnnotationLicenses: a.License, ocispec.AnnotationSource: a.Source,
		}),
	})
}

// pushBlob publishes a blob that is not there.
func pushBlob(ctx context.Context, repo *remote.Repository, what ocispec.Descriptor, text []byte) error {
	if there, err := repo.Exists(ctx, what); err != nil || there {
		return err
	}
	if err := repo.Push(ctx, what, bytes.NewReader(text)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return err
	}
	return nil
}

// present leaves out what is empty.
func present(all map[string]string) map[string]string {
	for key, text := range all {
		if text == "" {
			delete(all, key)
		}
	}
	return all
}

// Pulled is a plugin's file from a registry.
type Pulled struct {
	Wasm   []byte
	SHA256 string // of the file, in hexadecimal
	Digest string // of the manifest, with its algorithm
	// Manifest is the manifest, which has that digest.
	Manifest []byte
}

// Pull fetches a plugin's file. It is whole, of at most cfg.MaxBytes, and has the digest that
// its manifest says, which has the digest that the reference says if that is one.
func (r Reference) Pull(ctx context.Context, cfg Config) (*Pulled, error) {
	repo, err := r.open(cfg)
	if err != nil {
		return nil, err
	}
	manifest, text, err := oras.FetchBytes(ctx, repo.Manifests(), r.Reference.Reference, oras.FetchBytesOptions{MaxBytes: maxManifest})
	if err != nil {
		return nil, r.explain(err)
	}
	layer, err := fileOf(manifest, text, cfg.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", Scheme, r, err)
	}
	body, err := repo.Blobs().Fetch(ctx, layer)
	if err != nil {
		return nil, r.explain(err)
	}
	defer body.Close()
	wasm, err := io.ReadAll(io.LimitReader(body, layer.Size+1))
	if err != nil {
		return nil, r.explain(err)
	}
	sum := sha256.Sum256(wasm)
	p := &Pulled{Wasm: wasm, SHA256: hex.EncodeToString(sum[:]), Digest: manifest.Digest.String(), Manifest: text}
	switch {
	case int64(len(wasm)) < layer.Size:
		return nil, fmt.Errorf("%s: the file ends after %d of %d bytes", r.Registry, len(wasm), layer.Size)
	case "sha256:"+p.SHA256 != layer.Digest.String():
		return nil, fmt.Errorf("%s: the file is not what its manifest says: it should have digest %s", r.Registry, layer.Digest)
	}
	return p, nil
}

// fileOf returns which blob a manifest says is the plugin's file.
func fileOf(d ocispec.Descriptor, text []byte, limit int64) (none ocispec.Descriptor, err error) {
	if d.MediaType != ocispec.MediaTypeImageManifest {
		return none, fmt.Errorf("it is not a plugin but %s", quote(d.MediaType))
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return none, fmt.Errorf("its manifest: %s", plaintext.Line(err.Error(), maxReason))
	}
	switch {
	case m.Config.MediaType != mediaConfig:
		return none, fmt.Errorf("it is not a plugin: its config is %s, want %s", quote(m.Config.MediaType), mediaConfig)
	case len(m.Layers) != 1:
		return none, fmt.Errorf("it is not a plugin: it has %d layers, want 1", len(m.Layers))
	}
	layer := m.Layers[0]
	hash, err := hex.DecodeString(strings.TrimPrefix(layer.Digest.String(), "sha256:"))
	switch {
	case layer.MediaType != mediaWasm:
		return none, fmt.Errorf("it is not a plugin: its layer is %s, want %s", quote(layer.MediaType), mediaWasm)
	case err != nil || len(hash) != sha256.Size:
		return none, fmt.Errorf("its manifest: %s is not a digest by SHA-256", quote(layer.Digest.String()))
	case layer.Size <= 0 || layer.Size > limit:
		return none, fmt.Errorf("the file has %d bytes, the limit is %d", layer.Size, limit)
	}
	return ocispec.Descriptor{MediaType: mediaWasm, Digest: layer.Digest, Size: layer.Size}, nil
}

// quote is a registry's text for people.
func quote(text string) string { return `"` + plaintext.Line(text, maxReason) + `"` }
