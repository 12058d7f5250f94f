package pluginregistry

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// maxReason bounds what is shown of a registry's own words, in bytes.
const maxReason = 300

// explain says on one line what came of a request, and what to do about it.
func (r Reference) explain(err error) error {
	if err == nil {
		return nil
	}
	ask := fmt.Sprintf("log in with docker login %s, or set %s and %s", r.Registry, EnvUser, EnvPassword)
	var answered *errcode.ErrorResponse
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("%s: %w: refused", r.Registry, refused)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fmt.Errorf("%s asks for credentials: %s", r.Registry, ask)
	case errors.As(err, &answered) && answered.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%s does not take these credentials, or asks for some: %s", r.Registry, ask)
	case errors.As(err, &answered) && answered.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s does not permit this: %s", r.Registry, plaintext.Line(answered.Errors.Error(), maxReason))
	case errors.Is(err, errdef.ErrNotFound), errors.As(err, &answered) && answered.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s%s: there is no such plugin in the registry", Scheme, r)
	case isTimeout(err):
		return fmt.Errorf("%s does not answer in time: try it again, or give it longer with -timeout", r.Registry)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s talks without TLS: on this machine, -plain-http permits that", r.Registry)
	case errors.Is(err, content.ErrMismatchedDigest):
		return fmt.Errorf("%s: what it sends has not the digest that it should have", r.Registry)
	case errors.Is(err, errdef.ErrSizeExceedsLimit):
		return fmt.Errorf("%s: the manifest has more than %d bytes", r.Registry, maxManifest)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the answer was cut off", r.Registry)
	}
	return fmt.Errorf("%s: %s", r.Registry, plaintext.Line(err.Error(), maxReason))
}
