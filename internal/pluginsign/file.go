package pluginsign

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/wasmnode/wasmnode/internal/regularfile"
)

const (
	// Suffix is what the name of a plugin's file has after it where its signature is.
	Suffix = ".sig"
	// MaxBytes bounds a signature's file.
	MaxBytes = 1 << 20
	// maxSignatures bounds the signatures of one file.
	maxSignatures = 64

	// The media types of signatures' files: cosign's bundle, and ours of what was signed in a
	// registry.
	mediaBundle   = "application/vnd.dev.sigstore.bundle.v0.3+json"
	bundlePrefix  = "application/vnd.dev.sigstore.bundle"
	mediaManifest = "application/vnd.wasmnode.signed-manifest.v1+json"
	// hashName is how a bundle calls SHA-256.
	hashName = "SHA2_256"
)

// File is what is in a signature's file: either signatures of the file itself, or those of a
// registry's manifest, which has the file's digest in it.
type File struct {
	Manifest   []byte // nil: the file itself is signed
	Signatures []Signature
}

// Signature is one signature. What it says of itself is not to be believed before it is
// verified, and is for people then.
type Signature struct {
	Payload   []byte // which has the digest of the manifest in it; nil: there is none
	Signature []byte
	digest    string // which the signed file is said to have, in hexadecimal; "": not said
	key       string // with whose ID it is said to be made; "": not said
}

// bundle is the part of a bundle of cosign's that a signature with a key needs.
type bundle struct {
	MediaType            string               `json:"mediaType"`
	VerificationMaterial verificationMaterial `json:"verificationMaterial"`
	MessageSignature     *messageSignature    `json:"messageSignature"`
}

type verificationMaterial struct {
	PublicKey *struct {
		Hint string `json:"hint"`
	} `json:"publicKey"`
}

type messageSignature struct {
	MessageDigest struct {
		Algorithm string `json:"algorithm"`
		Digest    []byte `json:"digest"`
	} `json:"messageDigest"`
	Signature []byte `json:"signature"`
}

// signedManifest is the form of a signature's file of what was signed in a registry.
type signedManifest struct {
	MediaType  string            `json:"mediaType"`
	Manifest   []byte            `json:"manifest"`
	Signatures []signedReference `json:"signatures"`
}

type signedReference struct {
	Payload   []byte `json:"payload"`
	Signature []byte `json:"signature"`
}

// ReadFile reads a signature's file. The error is one of [io/fs.ErrNotExist] if there is none.
func ReadFile(path string) (*File, error) {
	text, err := regularfile.Read(path, MaxBytes)
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// Parse reads the text of a signature's file: a bundle of cosign's, the bare signature that
// cosign and openssl make, in base64, or what [File.Text] made. The error says on one line
// what is wrong.
func Parse(text []byte) (*File, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	if !strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		bare, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
		if err != nil || len(bare) == 0 {
			return nil, errors.New("it is neither a bundle nor a signature in base64")
		}
		return &File{Signatures: []Signature{{Signature: bare}}}, nil
	}
	var kind struct {
		MediaType string `json:"mediaType"`
	}
	if err := decode(text, &kind); err != nil {
		return nil, err
	}
	switch {
	case kind.MediaType == mediaManifest:
		return parseManifest(text)
	case strings.HasPrefix(kind.MediaType, bundlePrefix):
		return parseBundle(text)
	}
	return nil, fmt.Errorf("it is of type %.80q, which is no signature that is known here", kind.MediaType)
}

// decode reads one value of JSON.
func decode(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("it is damaged: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its end")
	}
	return nil
}

func parseBundle(text []byte) (*File, error) {
	var b bundle
	if err := decode(text, &b); err != nil {
		return nil, err
	}
	switch m := b.MessageSignature; {
	case m == nil:
		return nil, errors.New("it is a bundle with something else than the signature of a file")
	case b.VerificationMaterial.PublicKey == nil:
		return nil, errors.New("it is signed with a certificate, not with a key pair")
	case m.MessageDigest.Algorithm != hashName || len(m.MessageDigest.Digest) != sha256.Size:
		return nil, errors.New("it has no SHA-256 of the file that is signed")
	case len(m.Signature) == 0:
		return nil, errors.New("it has no signature")
	}
	s := Signature{Signature: b.MessageSignature.Signature, digest: hex.EncodeToString(b.MessageSignature.MessageDigest.Digest)}
	if id, err := base64.StdEncoding.DecodeString(b.VerificationMaterial.PublicKey.Hint); err == nil && len(id) == sha256.Size {
		s.key = hex.EncodeToString(id)
	}
	return &File{Signatures: []Signature{s}}, nil
}

func parseManifest(text []byte) (*File, error) {
	var m signedManifest
	if err := decode(text, &m); err != nil {
		return nil, err
	}
	switch n := len(m.Signatures); {
	case len(m.Manifest) == 0:
		return nil, errors.New("it has no manifest")
	case n == 0:
		return nil, errors.New("it has no signature")
	case n > maxSignatures:
		return nil, fmt.Errorf("it has %d signatures, the limit is %d", n, maxSignatures)
	}
	f := &File{Manifest: m.Manifest}
	for _, s := range m.Signatures {
		if len(s.Payload) == 0 || len(s.Signature) == 0 {
			return nil, errors.New("it has an empty signature")
		}
		f.Signatures = append(f.Signatures, OfManifest(s.Payload, s.Signature))
	}
	return f, nil
}

// Text is what Parse reads.
func (f *File) Text() ([]byte, error) {
	var form any
	switch {
	case f.Manifest != nil:
		m := signedManifest{MediaType: mediaManifest, Manifest: f.Manifest}
		for _, s := range f.Signatures {
			m.Signatures = append(m.Signatures, signedReference{s.Payload, s.Signature})
		}
		form = m
	case f.Signatures[0].digest == "":
		return []byte(base64.StdEncoding.EncodeToString(f.Signatures[0].Signature) + "\n"), nil
	default:
		form = f.Signatures[0].bundle()
	}
	text, err := json.MarshalIndent(form, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// bundle is the form of a signature of a file.
func (s Signature) bundle() bundle {
	b := bundle{MediaType: mediaBundle, MessageSignature: &messageSignature{Signature: s.Signature}}
	id, _ := hex.DecodeString(s.key) // which this package has written
	b.VerificationMaterial.PublicKey = &struct {
		Hint string `json:"hint"`
	}{base64.StdEncoding.EncodeToString(id)}
	b.MessageSignature.MessageDigest.Algorithm = hashName
	b.MessageSignature.MessageDigest.Digest, _ = hex.DecodeString(s.digest)
	return b
}
