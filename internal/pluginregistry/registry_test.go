package pluginregistry_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/internal/pluginregistry"
	"github.com/wasmnode/wasmnode/internal/pluginregistry/registrytest"
)

var (
	file   = bytes.Repeat([]byte("plugin"), 100)
	config = pluginregistry.Config{PlainHTTP: true, MaxBytes: 600}
)

func reference(t testing.TB, text string) pluginregistry.Reference {
	t.Helper()
	r, err := pluginregistry.Parse(text)
	require.NoError(t, err)
	return r
}

// noCredentials has neither the tester's credentials nor anybody's in the environment.
func noCredentials(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv(pluginregistry.EnvUser, "")
}

func TestAPluginIsPublishedAndFetched(t *testing.T) {
	noCredentials(t)
	registry := registrytest.Start(t)
	r := reference(t, registry.Reference("team/greeter", "1.0.0"))
	require.Equal(t, "greeter", r.Name())
	a := pluginregistry.Annotations{Title: "greeter.wasm", Version: "1.0.0", License: "MIT"}
	digest, err := r.Push(t.Context(), config, file, a)
	require.NoError(t, err)
	again, err := r.Push(t.Context(), config, file, a)
	require.NoError(t, err)
	require.Equal(t, digest, again, "the same file is the same manifest")

	for _, ref := range []pluginregistry.Reference{r, reference(t, r.At(digest))} {
		p, err := ref.Pull(t.Context(), config)
		require.NoError(t, err)
		require.Equal(t, file, p.Wasm)
		require.Equal(t, "sha256:"+p.SHA256, registrytest.Digest(file))
		require.Equal(t, digest, p.Digest)
	}
	_, err = reference(t, r.At(digest)).Push(t.Context(), config, file, a)
	require.ErrorContains(t, err, "a plugin is published under a tag, not under a digest")
	_, err = r.Pull(t.Context(), pluginregistry.Config{PlainHTTP: true, MaxBytes: int64(len(file)) - 1})
	require.EqualError(t, err, fmt.Sprintf("oci://%s/team/greeter:1.0.0: the file has 600 bytes, the limit is 599", registry.Address))
}

func TestWhatIsNoReferenceIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"registry/x:1":         `"registry/x:1" is not a reference: it has the form oci://REGISTRY/REPOSITORY:TAG`,
		"oci://registry/x":     `"oci://registry/x" names no version: add :TAG, or @sha256:DIGEST`,
		"oci://registry":       `"oci://registry" is not a reference, such as oci://REGISTRY/REPOSITORY:TAG: `,
		"oci://registry/X:1":   `"oci://registry/X:1" is not a reference, such as `,
		"oci://registry/x@1":   `"oci://registry/x@1" is not a reference, such as `,
		"oci://reg istry/x:1":  `"oci://reg istry/x:1" is not a reference, such as `,
		"https://registry/x:1": `"https://registry/x:1" is not a reference: it has the form `,
	} {
		_, err := pluginregistry.Parse(text)
		require.ErrorContains(t, err, want)
	}
	noCredentials(t)
	_, err := reference(t, "oci://registry.example/x:1").Pull(t.Context(), config)
	require.EqualError(t, err, "registry.example is not this machine: -plain-http is for a registry on 127.0.0.1, [::1] or localhost")
}

// bad is a registry that does not do what it should.
type bad struct {
	name     string
	manifest string                                            // in the place of the right one; $REG, $SUM: see the test
	before   func(w http.ResponseWriter, r *http.Request) bool // answers in its place
	want     string
}

func manifest(config, layers string) string {
	return `{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": {"mediaType": "` + config +
		`", "digest": "$SUM", "size": 2}, "layers": [` + layers + `]}`
}

func layer(mediaType, digest string, size int) string {
	return fmt.Sprintf(`{"mediaType": "%s", "digest": %q, "size": %d}`, mediaType, digest, size)
}

// on answers requests whose path has a part, with the file's blob or the manifest in mind.
func on(part string, answer func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		answer(w)
		return true
	}
}

func badRegistries(elsewhere string) []bad {
	const wasmConfig = "application/vnd.wasm.config.v0+json"
	redirect := func(to string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	}
	status := func(code int, header ...string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if header != nil {
				w.Header().Set(header[0], header[1])
			}
			http.Error(w, "{\"errors\": [{\"code\": \"DENIED\", \"message\": \"no\\u001b[31m\\nno\"}]}", code)
		}
	}
	part := func(sent int, text []byte) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			_, _ = w.Write(text[:sent])
		}
	}
	const ask = "log in with docker login $REG, or set WASMNODE_REGISTRY_USER and WASMNODE_REGISTRY_PASSWORD"
	return []bad{
		{"truncates", "", on("/blobs/", part(10, file)), "$REG: the answer was cut off"},
		{"sends less than it said", "", on("/blobs/", part(10, file[:10])), `$REG: GET "http://$REG/v2/x/blobs/$SUM": mismatch Content-Length`},
		{"lies about a digest", "", on("/blobs/", part(600, bytes.Repeat([]byte("PLUGIN"), 100))), "$REG: the file is not what its manifest says: it should have digest $SUM"},
		{"lies about a manifest", "", on("/manifests/", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", registrytest.Digest(nil))
			_, _ = w.Write([]byte("{}"))
		}), "$REG: what it sends has not the digest that it should have"},
		{"redirects the manifest elsewhere", "", on("/manifests/", redirect("http://"+elsewhere+"/x")), "$REG: it redirects to http://" + elsewhere + ": refused"},
		{"redirects the file to another machine", "", on("/blobs/", redirect("http://registry.example/secret?x")), "$REG: it leads to http://registry.example, which is not TLS: refused"},
		{"redirects for ever", "", func(w http.ResponseWriter, r *http.Request) bool { redirect(r.URL.Path)(w); return true }, "$REG: it redirects more than 5 times: refused"},
		{"asks for a password", "", on("/", status(401, "WWW-Authenticate", `Basic realm="x"`)), "$REG asks for credentials: " + ask},
		{"asks for a token of another machine", "", on("/", status(401, "WWW-Authenticate", `Bearer realm="http://registry.example/token"`)), "$REG: it leads to http://registry.example, which is not TLS: refused"},
		{"asks in a way that nobody knows", "", on("/", status(401)), "$REG does not take these credentials, or asks for some: " + ask},
		{"forbids", "", on("/", status(403)), `$REG does not permit this: denied: no\u001b[31m\u000ano`},
		{"has nothing", "", on("/", status(404)), "oci://$REG/x:1: there is no such plugin in the registry"},
		{"is broken", "", on("/", status(500)), `$REG: GET "http://$REG/v2/x/manifests/1": response status code 500: denied: no\u001b[31m\u000ano`},
		{"has a large manifest", strings.Repeat(" ", 256<<10) + "{}", nil, "$REG: the manifest has more than 262144 bytes"},
		{"has a manifest that is none", "[]", nil, "oci://$REG/x:1: its manifest: json: cannot unmarshal array into Go value of type v1.Manifest"},
		{"has an image", manifest("application/vnd.oci.image.config.v1+json", ""), nil, `oci://$REG/x:1: it is not a plugin: its config is "application/vnd.oci.image.config.v1+json", want ` + wasmConfig},
		{"has two layers", manifest(wasmConfig, layer("application/wasm", "$SUM", 600)+","+layer("application/wasm", "$SUM", 600)), nil, "oci://$REG/x:1: it is not a plugin: it has 2 layers, want 1"},
		{"has a layer that is none", manifest(wasmConfig, layer(`a\u001b/b`, "$SUM", 600)), nil, `oci://$REG/x:1: it is not a plugin: its layer is "a\u001b/b", want application/wasm`},
		{"has a layer without a digest", manifest(wasmConfig, layer("application/wasm", "sha256:../../x", 600)), nil, `oci://$REG/x:1: its manifest: "sha256:../../x" is not a digest by SHA-256`},
		{"has a large file", manifest(wasmConfig, layer("application/wasm", "$SUM", 601)), nil, "oci://$REG/x:1: the file has 601 bytes, the limit is 600"},
		{"has a negative file", manifest(wasmConfig, layer("application/wasm", "$SUM", -1)), nil, "oci://$REG/x:1: the file has -1 bytes, the limit is 600"},
		{"has another size", manifest(wasmConfig, layer("application/wasm", "$SUM", 599)), nil, `$REG: GET "http://$REG/v2/x/blobs/$SUM": mismatch Content-Length`},
	}
}

func TestABadRegistryIsToldOnOneLine(t *testing.T) {
	noCredentials(t)
	elsewhere := registrytest.Start(t)
	for _, c := range badRegistries(elsewhere.Address) {
		t.Run(c.name, func(t *testing.T) {
			registry := registrytest.Start(t)
			r := reference(t, registry.Reference("x", "1"))
			_, err := r.Push(t.Context(), config, file, pluginregistry.Annotations{})
			require.NoError(t, err)
			fill := strings.NewReplacer("$REG", registry.Address, "$SUM", registrytest.Digest(file)).Replace
			if c.manifest != "" {
				registry.Put("x", "1", []byte(fill(c.manifest)))
			}
			registry.Instead(c.before)
			_, err = r.Pull(t.Context(), config)
			require.ErrorContains(t, err, fill(c.want))
			require.False(t, strings.ContainsAny(err.Error(), "\n\r\x1b"), "%q", err.Error())
		})
	}
}

func TestARegistryWithoutTLSIsNotTalkedToUnasked(t *testing.T) {
	noCredentials(t)
	registry := registrytest.Start(t)
	_, err := reference(t, registry.Reference("x", "1")).Pull(t.Context(), pluginregistry.Config{MaxBytes: 1})
	require.EqualError(t, err, registry.Address+" talks without TLS: on this machine, -plain-http permits that")
}

func TestASlowRegistryIsGivenUp(t *testing.T) {
	noCredentials(t)
	registry, done := registrytest.Start(t), make(chan struct{})
	defer close(done)
	registry.Instead(func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-done:
		case <-r.Context().Done():
		}
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := reference(t, registry.Reference("x", "1")).Pull(ctx, config)
	require.EqualError(t, err, registry.Address+" does not answer in time: try it again, or give it longer with -timeout")
}

// TestDebiansRegistry asks for credentials, which Docker's configuration or the environment has.
func TestDebiansRegistry(t *testing.T) {
	noCredentials(t)
	address := enginetest.Registry(t)
	r := reference(t, "oci://"+address+"/team/greeter:1.0.0")
	_, err := r.Push(t.Context(), config, file, pluginregistry.Annotations{})
	require.ErrorContains(t, err, address+" asks for credentials: log in with docker login "+address)
	t.Setenv(pluginregistry.EnvUser, enginetest.User)
	t.Setenv(pluginregistry.EnvPassword, "wrong")
	_, err = r.Pull(t.Context(), config)
	require.ErrorContains(t, err, address+" does not take these credentials")
	t.Setenv(pluginregistry.EnvPassword, enginetest.Password)
	_, err = r.Pull(t.Context(), config)
	require.EqualError(t, err, "oci://"+address+"/team/greeter:1.0.0: there is no such plugin in the registry")
	digest, err := r.Push(t.Context(), config, file, pluginregistry.Annotations{Title: "greeter.wasm"})
	require.NoError(t, err)
	p, err := r.Pull(t.Context(), config)
	require.NoError(t, err)
	require.Equal(t, file, p.Wasm)
	require.Equal(t, digest, p.Digest)
}
