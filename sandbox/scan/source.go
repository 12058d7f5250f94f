package scan

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

// Source is a file's content with its digest, which is computed once for all that need
// it. It is immutable.
type Source struct {
	content []byte
	digest  string
}

// NewSource returns the file of that content, which must not be changed any more.
func NewSource(content []byte) Source {
	sum := sha256.Sum256(content)
	return Source{content, hex.EncodeToString(sum[:])}
}

// KnownSource returns the file of that content whose digest is known, for whoever computed
// it before.
func KnownSource(content []byte, digest string) Source { return Source{content, digest} }

// Digest names the content: SHA-256 in lower-case hexadecimal.
func (s Source) Digest() string { return s.digest }

// Bytes returns the content, which must not be changed.
func (s Source) Bytes() []byte { return s.content }

// Size returns how many bytes the content has.
func (s Source) Size() int { return len(s.content) }

// Module is a file that [Read] has accepted, for the meter and the engine. It holds the
// file's content; the Spec does not, and may be kept for as long as it is of use.
type Module struct {
	*Spec
	// Binary is the decoded module.
	Binary *wasmbin.Module
}
