package pluginregistry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/wasmnode/wasmnode/internal/plaintext"
)

const (
	// mediaPayload is the type of what is signed of a manifest, and annotationSignature where
	// the signature of it is, both as cosign has them.
	mediaPayload        = "application/vnd.dev.cosign.simplesigning.v1+json"
	annotationSignature = "dev.cosignproject.cosign/signature"
	// maxSignatures bounds the signatures of a manifest, and maxPayload what is signed, in bytes.
	maxSignatures = 64
	maxPayload    = 8 << 10
)

// Signature is one of a manifest: what is signed, and how.
type Signature struct{ Payload, Signature []byte }

// signatures returns the reference under which a manifest's signatures are.
func (r Reference) signatures(manifest string) Reference {
	r.Reference.Reference = strings.Replace(manifest, ":", "-", 1) + ".sig"
	return r
}

// SignaturesOf returns the reference under which the signatures of a manifest of the
// repository are, by its digest.
func (r Reference) SignaturesOf(manifest string) string {
	r = r.signatures(manifest)
	return Scheme + r.Registry + "/" + r.Repository + ":" + r.Reference.Reference
}

// Signatures fetches the signatures of a manifest of the repository, by its digest. They are
// not verified. There may be none.
func (r Reference) Signatures(ctx context.Context, cfg Config, manifest string) ([]Signature, error) {
	repo, err := r.open(cfg)
	if err != nil {
		return nil, err
	}
	r = r.signatures(manifest)
	layers, err := r.signatureLayers(ctx, repo)
	if err != nil {
		return nil, err
	}
	var all []Signature
	for _, layer := range layers {
		signature, err := base64.StdEncoding.DecodeString(layer.Annotations[annotationSignature])
		if err != nil || len(signature) == 0 || layer.Size <= 0 || layer.Size > maxPayload ||
			layer.Digest.Validate() != nil || layer.Digest.Algorithm() != digest.SHA256 {
			return nil, fmt.Errorf("%s%s: a signature in it is damaged", Scheme, r)
		}
		payload, err := content.FetchAll(ctx, repo.Blobs(), ocispec.Descriptor{MediaType: mediaPayload, Digest: layer.Digest, Size: layer.Size})
		if err != nil {
			return nil, r.explain(err)
		}
		all = append(all, Signature{payload, signature})
	}
	return all, nil
}

// signatureLayers returns what a manifest of signatures has in it; nil: there is none.
func (r Reference) signatureLayers(ctx context.Context, repo *remote.Repository) ([]ocispec.Descriptor, error) {
	_, text, err := oras.FetchBytes(ctx, repo.Manifests(), r.Reference.Reference, oras.FetchBytesOptions{MaxBytes: maxManifest})
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, r.explain(err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s%s: its manifest: %s", Scheme, r, plaintext.Line(err.Error(), maxReason))
	}
	var layers []ocispec.Descriptor
	for _, layer := range m.Layers {
		if layer.MediaType == mediaPayload {
			layers = append(layers, layer)
		}
	}
	if len(layers) > maxSignatures {
		return nil, fmt.Errorf("%s%s: it has %d signatures, the limit is %d", Scheme, r, len(layers), maxSignatures)
	}
	return layers, nil
}

// AddSignature publishes a signature of a manifest of the repository, by its digest, beside
// those that are there. One that is there already stays as it is.
func (r Reference) AddSignature(ctx context.Context, cfg Config, manifest string, s Signature) error {
	repo, err := r.open(cfg)
	if err != nil {
		return err
	}
	r = r.signatures(manifest)
	layers, err := r.signatureLayers(ctx, repo)
	if err != nil {
		return err
	}
	layer := content.NewDescriptorFromBytes(mediaPayload, s.Payload)
	layer.Annotations = map[string]string{annotationSignature: base64.StdEncoding.EncodeToString(s.Signature)}
	if slices.ContainsFunc(layers, func(o ocispec.Descriptor) bool {
		return o.Digest == layer.Digest && o.Annotations[annotationSignature] == layer.Annotations[annotationSignature]
	}) {
		return nil
	}
	if len(layers) == maxSignatures {
		return fmt.Errorf("%s%s: it has %d signatures already, the limit is %d", Scheme, r, len(layers), maxSignatures)
	}
	return r.explain(r.pushSignatures(ctx, repo, s.Payload, append(layers, layer)))
}

// pushSignatures publishes a manifest of signatures, the payload of the last of which is new.
func (r Reference) pushSignatures(ctx context.Context, repo *remote.Repository, payload []byte, layers []ocispec.Descriptor) error {
	var digests []digest.Digest
	for _, layer := range layers {
		digests = append(digests, layer.Digest)
	}
	text, err := json.Marshal(ocispec.Image{RootFS: ocispec.RootFS{Type: "layers", DiffIDs: digests}})
	if err != nil {
		return err
	}
	config := content.NewDescriptorFromBytes(ocispec.MediaTypeImageConfig, text)
	if err := pushBlob(ctx, repo, layers[len(layers)-1], payload); err != nil {
		return err
	}
	if err := pushBlob(ctx, repo, config, text); err != nil {
		return err
	}
	text, err = json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: layers,
	})
	if err != nil {
		return err
	}
	d := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, text)
	return repo.Manifests().PushReference(ctx, d, bytes.NewReader(text), r.Reference.Reference)
}
