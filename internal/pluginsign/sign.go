package pluginsign

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// payloadType is what a payload says that it is.
const payloadType = "cosign container image signature"

// payload is what is signed of something in a registry, as simple signing has it.
type payload struct {
	Critical critical `json:"critical"`
	// Optional has what the signer adds: with which key, here.
	Optional map[string]any `json:"optional"`
}

type critical struct {
	Identity struct {
		Reference string `json:"docker-reference"`
	} `json:"identity"`
	Image struct {
		Digest string `json:"docker-manifest-digest"`
	} `json:"image"`
	Type string `json:"type"`
}

// optionalKey is where a payload has the ID of the key.
const optionalKey = "key-sha256"

// SignFile signs a file's content. The same content and key are the same signature again.
func (k *PrivateKey) SignFile(content []byte) (*File, error) {
	sum := sha256.Sum256(content)
	signature, err := k.sign(sum)
	if err != nil {
		return nil, err
	}
	public, err := k.Public("")
	if err != nil {
		return nil, err
	}
	return &File{Signatures: []Signature{{Signature: signature, digest: hex.EncodeToString(sum[:]), key: public.ID}}}, nil
}

// SignManifest signs a manifest of a registry by its digest, with its algorithm. The
// repository is said in the signature, for people.
func (k *PrivateKey) SignManifest(repository, digest string) (Signature, error) {
	public, err := k.Public("")
	if err != nil {
		return Signature{}, err
	}
	p := payload{Optional: map[string]any{optionalKey: public.ID}}
	p.Critical.Type, p.Critical.Identity.Reference, p.Critical.Image.Digest = payloadType, repository, digest
	text, err := json.Marshal(p)
	if err != nil {
		return Signature{}, err
	}
	signature, err := k.sign(sha256.Sum256(text))
	if err != nil {
		return Signature{}, err
	}
	return OfManifest(text, signature), nil
}

// OfManifest is a signature of a manifest that was found in a registry.
func OfManifest(text, signature []byte) Signature {
	s := Signature{Payload: text, Signature: signature}
	var p payload
	if json.Unmarshal(text, &p) == nil {
		if id, ok := p.Optional[optionalKey].(string); ok && isHex(id) {
			s.key = id
		}
	}
	return s
}

// isHex reports whether that is a SHA-256 in hexadecimal.
func isHex(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size
}
