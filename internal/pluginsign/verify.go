package pluginsign

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Keys are those that somebody trusts. They are not changed.
type Keys []PublicKey

// ReadKeys reads the files of public keys.
func ReadKeys(paths []string) (Keys, error) {
	var keys Keys
	for _, path := range paths {
		k, err := ReadPublicKey(path)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// Has reports whether a key of that ID is among them.
func (k Keys) Has(id string) bool {
	for _, key := range k {
		if key.ID == id {
			return true
		}
	}
	return false
}

// String is what people see of the keys.
func (k Keys) String() string {
	var all []string
	for _, key := range k {
		all = append(all, key.String())
	}
	return strings.Join(all, ", ")
}

// Verify returns which of the keys has signed the file that has a SHA-256, in hexadecimal. The
// error says on one line why none has, and who is said to have signed what.
func (k Keys) Verify(f *File, digest string) (PublicKey, error) {
	var first error
	for _, s := range f.Signatures {
		by, err := k.verify(f.Manifest, s, digest)
		if err == nil {
			return by, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = errors.New("it has no signature")
	}
	return PublicKey{}, first
}

// verify is Verify of one signature.
func (k Keys) verify(manifest []byte, s Signature, digest string) (none PublicKey, err error) {
	sum, err := s.signed(manifest, digest)
	if err != nil {
		return none, err
	}
	for _, key := range k {
		if ecdsa.VerifyASN1(key.key, sum, s.Signature) {
			return key, nil
		}
	}
	for _, key := range k {
		if key.ID == s.key {
			return none, fmt.Errorf("the signature is damaged: it says that it is made with %s, and does not verify", key)
		}
	}
	if s.key == "" {
		return none, fmt.Errorf("it is not signed with a trusted key, or the signature is damaged or that of another file; trusted: %s", k)
	}
	return none, fmt.Errorf("it is signed with the key %s, which is not trusted; trusted: %s", short(s.key), k)
}

// signed returns the hash that a signature has to be of, if it is to be one of the file that
// has a digest. What it says of itself is compared, so that people know which other file it is
// of.
func (s Signature) signed(manifest []byte, digest string) ([]byte, error) {
	if manifest == nil {
		if s.digest != "" && s.digest != digest {
			return nil, otherFile(s.digest, digest)
		}
		return hex.DecodeString(digest)
	}
	var p payload
	if err := json.Unmarshal(s.Payload, &p); err != nil || p.Critical.Type != payloadType {
		return nil, errors.New("the signature is damaged: what it signs is not the digest of a manifest")
	}
	sum := sha256.Sum256(manifest)
	if signed := p.Critical.Image.Digest; signed != "sha256:"+hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("it is the signature of another manifest, %.80q of %.200q", signed, p.Critical.Identity.Reference)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil || len(m.Layers) != 1 {
		return nil, errors.New("what is signed is not the manifest of one file")
	}
	if of := m.Layers[0].Digest.String(); of != "sha256:"+digest {
		return nil, otherFile(strings.TrimPrefix(of, "sha256:"), digest)
	}
	of := sha256.Sum256(s.Payload)
	return of[:], nil
}

func otherFile(signed, digest string) error {
	return fmt.Errorf("it is the signature of another file: that has the SHA-256 %.64q, this one has %q", signed, digest)
}
