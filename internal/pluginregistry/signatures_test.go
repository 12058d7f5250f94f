package pluginregistry_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/pluginregistry"
	"github.com/wasmnode/wasmnode/internal/pluginregistry/registrytest"
)

// TestSignaturesAreWhereCosignHasThem adds two, one of them twice.
func TestSignaturesAreWhereCosignHasThem(t *testing.T) {
	noCredentials(t)
	registry := registrytest.Start(t)
	r := reference(t, registry.Reference("team/greeter", "1.0.0"))
	manifest, err := r.Push(t.Context(), config, file, pluginregistry.Annotations{})
	require.NoError(t, err)
	p, err := r.Pull(t.Context(), config)
	require.NoError(t, err)
	require.Equal(t, manifest, registrytest.Digest(p.Manifest), "what was fetched is what is signed")

	all, err := r.Signatures(t.Context(), config, manifest)
	require.NoError(t, err)
	require.Empty(t, all)
	one, two := pluginregistry.Signature{Payload: []byte("one"), Signature: []byte("mine")}, pluginregistry.Signature{Payload: []byte("one"), Signature: []byte("yours")}
	for _, s := range []pluginregistry.Signature{one, two, one} {
		require.NoError(t, r.AddSignature(t.Context(), config, manifest, s))
	}
	all, err = r.Signatures(t.Context(), config, manifest)
	require.NoError(t, err)
	require.Equal(t, []pluginregistry.Signature{one, two}, all)

	sum := registrytest.Digest([]byte("one"))
	written := string(registry.Manifest("team/greeter", strings.Replace(manifest, ":", "-", 1)+".sig"))
	require.Contains(t, written, `"mediaType":"application/vnd.oci.image.config.v1+json"`)
	require.Contains(t, written, `{"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json","digest":"`+sum+`","size":3,"annotations":{"dev.cosignproject.cosign/signature":"bWluZQ=="}}`)
}

func TestBadSignaturesInARegistryAreToldOnOneLine(t *testing.T) {
	noCredentials(t)
	sum := registrytest.Digest([]byte("one"))
	signed := func(digest, signature string, size int) string {
		return strings.TrimSuffix(layer("application/vnd.dev.cosign.simplesigning.v1+json", digest, size), "}") + `, "annotations": {"dev.cosignproject.cosign/signature": "` + signature + `"}}`
	}
	of := func(layers ...string) string {
		return manifest("application/vnd.oci.image.config.v1+json", strings.Join(layers, ","))
	}
	many := make([]string, 65)
	for i := range many {
		many[i] = signed(sum, "AAAA", 3)
	}
	for name, c := range map[string]struct {
		manifest string
		before   func(w http.ResponseWriter, r *http.Request) bool
		want     string
	}{
		"no manifest":         {manifest: "[]", want: "its manifest: json: cannot unmarshal array"},
		"no signature":        {manifest: of(signed(sum, "", 3)), want: "a signature in it is damaged"},
		"no base64":           {manifest: of(signed(sum, "!", 3)), want: "a signature in it is damaged"},
		"a large payload":     {manifest: of(signed(sum, "AAAA", 8<<10+1)), want: "a signature in it is damaged"},
		"no payload":          {manifest: of(signed(sum, "AAAA", 0)), want: "a signature in it is damaged"},
		"no digest":           {manifest: of(signed("sha256:../../x", "AAAA", 3)), want: "a signature in it is damaged"},
		"another payload":     {manifest: of(signed(sum, "AAAA", 3)), before: on("/blobs/", func(w http.ResponseWriter) { _, _ = w.Write([]byte("two")) }), want: "what it sends has not the digest that it should have"},
		"the payload is lost": {manifest: of(signed(registrytest.Digest(nil), "AAAA", 3)), want: "there is no such plugin in the registry"},
		"too many":            {manifest: of(many...), want: "it has 65 signatures, the limit is 64"},
	} {
		t.Run(name, func(t *testing.T) {
			registry := registrytest.Start(t)
			r := reference(t, registry.Reference("x", "1"))
			digest, err := r.Push(t.Context(), config, file, pluginregistry.Annotations{})
			require.NoError(t, err)
			registry.PutBlob(sum, []byte("one"))
			registry.Put("x", strings.Replace(digest, ":", "-", 1)+".sig", []byte(c.manifest))
			registry.Instead(c.before)
			_, err = r.Signatures(t.Context(), config, digest)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, registry.Address)
			require.False(t, strings.ContainsAny(err.Error(), "\n\r\x1b"), "%q", err.Error())
		})
	}
	registry := registrytest.Start(t)
	registry.Instead(on("/manifests/", func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }))
	_, err := reference(t, registry.Reference("x", "1")).Signatures(t.Context(), config, sum)
	require.ErrorContains(t, err, "500", "a registry that fails has not said that there are none")
	err = reference(t, registry.Reference("x", "1")).AddSignature(t.Context(), config, sum, pluginregistry.Signature{Payload: []byte("one"), Signature: []byte("x")})
	require.ErrorContains(t, err, "500")
}
