// Package idtoken writes and reads the tokens of workloads: JSON Web Tokens with Nomad's claims,
// signed with RS256. It knows the keys that it is given, and neither where they are from nor
// whether what a token tells of is still there. [Claims] is where to start reading.
package idtoken

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/wasmnode/wasmnode/structs"
)

// maxToken bounds what is read as a token, in bytes. Those that are made have some 1,500, and more
// by their audiences.
const maxToken = 64 << 10

// skew is how much earlier than now a clock may be that was set back since a token was signed.
const skew = time.Minute

// Claims is what a token says.
type Claims struct {
	jwt.Claims

	Namespace    string `json:"nomad_namespace"`
	JobID        string `json:"nomad_job_id"`
	AllocationID string `json:"nomad_allocation_id"`
	TaskName     string `json:"nomad_task,omitempty"`
}

// New returns claims with the times of a token that is signed now and is good for ttl; 0: it does
// not expire.
func New(now time.Time, ttl time.Duration) *Claims {
	at := jwt.NewNumericDate(now)
	c := &Claims{Claims: jwt.Claims{IssuedAt: at, NotBefore: at}}
	if ttl > 0 {
		c.Expiry = jwt.NewNumericDate(now.Add(ttl))
	}
	return c
}

// Expires is when the token is good no more; zero: it does not expire.
func (c *Claims) Expires() time.Time {
	if c.Expiry == nil {
		return time.Time{}
	}
	return c.Expiry.Time()
}

// Sign writes a token, signed with the key of an ID.
func Sign(c *Claims, id string, key *rsa.PrivateKey) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: id}},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", fmt.Errorf("signing an identity token: %w", err)
	}
	token, err := jwt.Signed(signer).Claims(c).Serialize()
	if err != nil {
		return "", fmt.Errorf("signing an identity token: %w", err)
	}
	return token, nil
}

// Verify reads a token that is signed with one of the keys that find knows, nil for an ID that it
// does not, and is good at a time. The error is one line that has nothing of the token's secret.
func Verify(token string, now time.Time, find func(id string) (*rsa.PublicKey, error)) (*Claims, error) {
	if len(token) > maxToken {
		return nil, fmt.Errorf("it has more than %d bytes", maxToken)
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return nil, errors.New("it is no JSON Web Token that is signed with RS256")
	}
	id := parsed.Headers[0].KeyID
	key, err := find(id)
	switch {
	case err != nil:
		return nil, err
	case key == nil:
		return nil, fmt.Errorf("there is no key %q to verify it with", clipped(id))
	}
	var c Claims
	if err := parsed.Claims(key, &c); err != nil {
		return nil, errors.New("its signature is not that of its key")
	}
	return &c, c.check(now)
}

// check returns why a token is good for nothing at a time.
func (c *Claims) check(now time.Time) error {
	switch {
	case c.Expiry != nil && !now.Before(c.Expiry.Time()):
		return fmt.Errorf("it expired at %s", c.Expiry.Time().UTC().Format(time.RFC3339))
	case c.NotBefore != nil && now.Add(skew).Before(c.NotBefore.Time()):
		return fmt.Errorf("it is not good before %s", c.NotBefore.Time().UTC().Format(time.RFC3339))
	case !c.Audience.Contains(structs.DefaultAudience):
		return fmt.Errorf("its audience is not %q", structs.DefaultAudience)
	}
	return nil
}

// clipped bounds what somebody else has written.
func clipped(text string) string { return text[:min(len(text), 64)] }

// KeySet are the public keys by their IDs, as whoever verifies tokens reads them.
func KeySet(keys map[string]*rsa.PublicKey) *jose.JSONWebKeySet {
	set := &jose.JSONWebKeySet{Keys: make([]jose.JSONWebKey, 0, len(keys))}
	for id, key := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(jose.RS256), Use: "sig"})
	}
	return set
}
