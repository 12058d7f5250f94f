// Package pluginregistry publishes plugins' files in OCI registries and fetches them from
// there, in the layout of the CNCF for WebAssembly: a manifest with one layer, the file.
//
// A registry is not trusted: what it sends is bounded, and is what the digest says or is
// refused. The package must never know what is done with a file, nor write one.
//
// Start reading at [Parse] and [Reference.Pull].
package pluginregistry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

const (
	// Scheme is how a reference begins.
	Scheme = "oci://"
	// EnvUser and EnvPassword are the variables with the credentials for the registry; without
	// the first, those that Docker's configuration has for it are used, if any.
	EnvUser = "WASMNODE_REGISTRY_USER"
	// EnvPassword is the other one.
	EnvPassword = "WASMNODE_REGISTRY_PASSWORD"

	// headerTime is how long a registry has to begin its answer to a request.
	headerTime = 30 * time.Second
	// maxRedirects bounds the redirects that are followed from a request.
	maxRedirects = 5
)

// Config says how to talk to a registry.
type Config struct {
	// PlainHTTP talks without TLS, to this machine alone.
	PlainHTTP bool
	// MaxBytes bounds a plugin's file.
	MaxBytes int64
}

// Reference names a plugin in a registry: by a tag, or by the digest of its manifest.
type Reference struct{ registry.Reference }

// Parse reads oci://REGISTRY/REPOSITORY:TAG, or …@sha256:DIGEST.
func Parse(text string) (Reference, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return Reference{}, fmt.Errorf("%q is not a reference: it has the form oci://REGISTRY/REPOSITORY:TAG", text)
	}
	r, err := registry.ParseReference(rest)
	if err != nil {
		return Reference{}, fmt.Errorf("%q is not a reference, such as oci://REGISTRY/REPOSITORY:TAG: %w", text, err)
	}
	if r.Reference == "" {
		return Reference{}, fmt.Errorf("%q names no version: add :TAG, or @sha256:DIGEST", text)
	}
	return Reference{r}, nil
}

// At returns the reference to a manifest of the same repository.
func (r Reference) At(digest string) string {
	return Scheme + r.Registry + "/" + r.Repository + "@" + digest
}

// Name is the last word of the repository.
func (r Reference) Name() string {
	return r.Repository[strings.LastIndexByte(r.Repository, '/')+1:]
}

// open returns the repository that a reference is to.
func (r Reference) open(cfg Config) (*remote.Repository, error) {
	if cfg.PlainHTTP && !isLoopback(r.Host()) {
		return nil, fmt.Errorf("%s is not this machine: -plain-http is for a registry on 127.0.0.1, [::1] or localhost", r.Registry)
	}
	repo, err := remote.NewRepository(r.Registry + "/" + r.Repository)
	if err != nil {
		return nil, err
	}
	find, err := credentialsFor(r.Host())
	if err != nil {
		return nil, err
	}
	guard := guard{plain: cfg.PlainHTTP, registry: r.Host()}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = headerTime
	guard.next = transport
	client := &auth.Client{
		Client: &http.Client{Transport: guard, CheckRedirect: guard.follow},
		Header: http.Header{"User-Agent": {"wasmnode"}}, Credential: find, Cache: auth.NewCache(),
	}
	if cfg.PlainHTTP {
		client.BlockedRealmPrefixes = auth.DefaultBlockedRealmPrefixes()[:0] // it is here, and may be there
	}
	repo.Client, repo.PlainHTTP = client, cfg.PlainHTTP
	repo.MaxMetadataBytes = maxManifest
	return repo, nil
}

// credentialsFor returns where the credentials for a registry come from.
func credentialsFor(host string) (auth.CredentialFunc, error) {
	if user := os.Getenv(EnvUser); user != "" {
		return auth.StaticCredential(host, auth.Credential{Username: user, Password: os.Getenv(EnvPassword)}), nil
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("the configuration of Docker: %w", err)
	}
	return credentials.Credential(store), nil
}

// isLoopback reports whether HOST or HOST:PORT is this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// guard refuses requests that are not as the person who asked for them would have them: in
// plain text to another machine, or elsewhere than to the registry that was named. A
// registry may send on only who fetches a blob, whose digest is known.
type guard struct {
	plain    bool
	registry string // host and port
	next     http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && (r.URL.Scheme != "http" || !g.plain || !isLoopback(r.URL.Host)) {
		return nil, &refusedError{fmt.Sprintf("it leads to %s, which is not TLS", place(r.URL))}
	}
	return g.next.RoundTrip(r)
}

// follow decides whether a redirect is followed.
func (g guard) follow(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return &refusedError{fmt.Sprintf("it redirects more than %d times", maxRedirects)}
	case r.URL.Host == g.registry:
		return nil
	case r.Method != http.MethodGet && r.Method != http.MethodHead || !strings.Contains(via[0].URL.Path, "/blobs/"):
		return &refusedError{fmt.Sprintf("it redirects to %s", place(r.URL))}
	}
	return nil
}

// place is where a URL leads, without what may be secret in it.
func place(u *url.URL) string { return u.Scheme + "://" + u.Host }

// refusedError: a registry leads to where nobody wanted to go.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// isTimeout reports whether nobody answered in time.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
