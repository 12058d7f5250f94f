package standalone

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

const (
	// maxACLTokens bounds what each request's secret is compared with.
	maxACLTokens = 1000
	// maxACLTokenName is Nomad's.
	maxACLTokenName = 256
	// maxTokenPolicies and maxTokenRoles bound what is looked at with each of its requests.
	maxTokenPolicies = 64
	maxTokenRoles    = 64
)

// TokenTTL is how long tokens that expire are made for, at the least and at most. What is 0 is
// as in [DefaultTokenTTL].
type TokenTTL struct{ Least, Most time.Duration }

// DefaultTokenTTL is Nomad's.
var DefaultTokenTTL = TokenTTL{time.Minute, 24 * time.Hour}

// BootstrapACL makes the first token, which may do everything. Its secret is the given
// one, a UUID, or is drawn. It is made once; then again, and for the first time where the
// file was damaged or restored and might have told of one, only after somebody has written the index that
// the error tells into the reset file, which takes access to the node's own files.
func (cp *ControlPlane) BootstrapACL(secret string) (token *structs.ACLToken, drawn string, err error) {
	if secret == "" {
		secret = newSecret()
	} else if _, err := uuid.Parse(secret); err != nil {
		return nil, "", invalid("invalid acl token: a bootstrap secret is a UUID")
	}
	err = cp.write(func(t *tx) error {
		if done := t.aclBootstrap; done != 0 && !cp.resetAllowed(done) {
			return invalid("ACL bootstrap already done (reset index: %d)", done)
		}
		if t.tokenOf(hashOf(secret)) != nil {
			return invalid("invalid acl token: another token has this secret")
		}
		token = t.newToken(&structs.ACLToken{Name: "Bootstrap Token", Type: structs.ACLManagement, Global: true}, secret, 0)
		t.aclBootstrap = t.at()
		return nil
	})
	if err == nil {
		err = cp.forgetCopied()
	}
	if err != nil {
		return nil, "", err
	}
	if err := os.Remove(cp.aclReset); err != nil && !errors.Is(err, fs.ErrNotExist) {
		cp.logger.Error("the file that lets the first token be made again cannot be removed", "error", err)
	}
	return token, secret, nil
}

// resetAllowed reports whether the reset file has this index.
func (cp *ControlPlane) resetAllowed(index uint64) bool {
	text, err := os.ReadFile(cp.aclReset) // "": there is none
	return err == nil && strings.TrimSpace(string(text)) == strconv.FormatUint(index, 10)
}

// CreateACLToken makes a token with the name, type, policies and roles, by their IDs or names, of
// the one given, which is not kept. A ttl of 0 has it never expire. The secret is returned this
// once.
func (cp *ControlPlane) CreateACLToken(wanted *structs.ACLToken, ttl time.Duration) (token *structs.ACLToken, secret string, err error) {
	if err := cp.ttlFault(ttl); err != nil {
		return nil, "", err
	}
	if err := tokenFault(wanted); err != nil {
		return nil, "", err
	}
	secret = newSecret()
	err = cp.write(func(t *tx) error {
		made, err := t.resolved(wanted)
		if err != nil {
			return err
		}
		count := 0
		t.tokens.all(func(id string, old *structs.ACLToken) {
			if old.Expired(t.now) {
				t.deleteToken(id)
				return
			}
			count++
		})
		if count >= maxACLTokens {
			return errdefs.New(errdefs.FailedPrecondition, "there are %d ACL tokens, as many as there can be: delete some", count)
		}
		token = t.newToken(made, secret, ttl)
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return token, secret, nil
}

// ttlFault is why no token can be made to live so long; nil: one can.
func (cp *ControlPlane) ttlFault(ttl time.Duration) error {
	least, most := cmp.Or(cp.tokenTTL.Least, DefaultTokenTTL.Least), cmp.Or(cp.tokenTTL.Most, DefaultTokenTTL.Most)
	switch {
	case ttl == 0:
		return nil
	case ttl < 0:
		return invalid("token expiration TTL '%s' should not be negative", ttl)
	case ttl > most:
		return invalid("expiration time cannot be more than %s in the future (was %s)", most, ttl)
	case ttl < least:
		return invalid("expiration time cannot be less than %s in the future (was %s)", least, ttl)
	}
	return nil
}

// tokenFault is why there can be no such token, whatever else there is; nil: there can.
func tokenFault(t *structs.ACLToken) error {
	granted := len(t.Policies) + len(t.Roles)
	switch {
	case t.Type != structs.ACLClient && t.Type != structs.ACLManagement:
		return invalid("token type must be client or management")
	case t.Type == structs.ACLManagement && granted > 0:
		return invalid("management token cannot be associated with policies or roles")
	case t.Type == structs.ACLClient && granted == 0:
		return invalid("client token missing policies or roles: the policy %q is built in, and acl policy apply makes others", structs.ACLReadOnly)
	case len(t.Policies) > maxTokenPolicies:
		return invalid("a token has at most %d policies", maxTokenPolicies)
	case len(t.Roles) > maxTokenRoles:
		return invalid("a token has at most %d roles", maxTokenRoles)
	case len(t.Name) > maxACLTokenName || strings.ContainsFunc(t.Name, unicode.IsControl):
		return invalid("token name: it has more than %d bytes, or control characters", maxACLTokenName)
	}
	return nil
}

// resolved is a token whose policies are there, with the IDs of its roles.
func (t *tx) resolved(wanted *structs.ACLToken) (*structs.ACLToken, error) {
	for _, p := range wanted.Policies {
		if !t.hasPolicy(p) {
			return nil, invalid("there is no ACL policy %q: acl policy apply makes one, and %q is built in", p, structs.ACLReadOnly)
		}
	}
	token := wanted.Copy()
	for i, name := range token.Roles {
		role := t.roles.get(name)
		if role == nil {
			role = t.roleNamed(name)
		}
		if role == nil {
			return nil, invalid("cannot find role %s", name)
		}
		token.Roles[i] = role.ID
	}
	token.Roles = distinct(token.Roles)
	return token, nil
}

func (t *tx) hasPolicy(name string) bool {
	return name == structs.ACLReadOnly || t.policies.get(name) != nil
}

// UpdateACLToken gives a token the name, type, policies and roles, by their IDs or names, of the
// one given: what it may do changes at once, also after the file was damaged and its last good
// copy took its place. Its secret and its expiry stay.
func (cp *ControlPlane) UpdateACLToken(accessorID string, wanted *structs.ACLToken) (token *structs.ACLToken, err error) {
	if err := tokenFault(wanted); err != nil {
		return nil, err
	}
	err = cp.write(func(t *tx) error {
		old := t.tokens.get(accessorID)
		if old == nil {
			return notFound("%s", structs.ErrACLTokenNotFound)
		}
		now, err := t.resolved(wanted)
		if err != nil {
			return err
		}
		token = old.Copy()
		token.Name, token.Type, token.Policies, token.Roles = now.Name, now.Type, now.Policies, now.Roles
		t.putToken(token)
		return nil
	})
	if err == nil {
		err = cp.forgetCopied()
	}
	return token, err
}

// DeleteACLToken deletes a token: whoever shows its secret from now on is refused, also after
// the file was damaged and its last good copy took its place.
func (cp *ControlPlane) DeleteACLToken(accessorID string) error {
	err := cp.write(func(t *tx) error {
		if t.tokens.get(accessorID) == nil {
			return notFound("%s", structs.ErrACLTokenNotFound)
		}
		t.deleteToken(accessorID)
		return nil
	})
	if err != nil {
		return err
	}
	return cp.forgetCopied()
}

// forgetCopied has the last good copy know who was let in, and who is no more.
func (cp *ControlPlane) forgetCopied() error {
	if cp.file == nil {
		return nil
	}
	if err := cp.file.Forget(); err != nil {
		return fmt.Errorf("it is done, and the last good copy of the control plane's file, which does not know it, can neither be renewed nor removed: %w", err)
	}
	return nil
}

// ResolveACLToken finds the token of a secret. The errors are [structs.ErrACLTokenNotFound]
// and [structs.ErrACLTokenExpired].
func (cp *ControlPlane) ResolveACLToken(secret string) (*structs.ACLToken, error) {
	hash := hashOf(secret)
	found := read(cp, func(t *tables) (found *structs.ACLToken) {
		for _, token := range t.tokens { // all of them, whichever it is
			if subtle.ConstantTimeCompare(token.Hash, hash) == 1 {
				found = token
			}
		}
		return found
	})
	switch {
	case found == nil:
		return nil, structs.ErrACLTokenNotFound
	case found.Expired(cp.now()):
		return nil, structs.ErrACLTokenExpired
	}
	return found, nil
}

// ACLTokens returns all tokens, in no order.
func (cp *ControlPlane) ACLTokens() []*structs.ACLToken {
	return read(cp, func(t *tables) []*structs.ACLToken {
		return slices.AppendSeq(make([]*structs.ACLToken, 0, len(t.tokens)), maps.Values(t.tokens))
	})
}

// ACLToken returns a token; nil: there is none.
func (cp *ControlPlane) ACLToken(accessorID string) *structs.ACLToken {
	return read(cp, func(t *tables) *structs.ACLToken { return t.tokens[accessorID] })
}

// newToken stores a token like the one wanted, with that secret.
func (t *tx) newToken(wanted *structs.ACLToken, secret string, ttl time.Duration) *structs.ACLToken {
	made := &structs.ACLToken{
		AccessorID: t.cp.newID(), Hash: hashOf(secret), Created: t.now.UTC(),
		Name: wanted.Name, Type: wanted.Type, Policies: slices.Clone(wanted.Policies),
		Roles: slices.Clone(wanted.Roles), Global: wanted.Global,
	}
	if ttl != 0 {
		made.Expires = made.Created.Add(ttl)
	}
	t.putToken(made)
	return made
}

// tokenOf finds the token with a secret of that hash.
func (t *tx) tokenOf(hash []byte) (found *structs.ACLToken) {
	t.tokens.all(func(_ string, token *structs.ACLToken) {
		if subtle.ConstantTimeCompare(token.Hash, hash) == 1 {
			found = token
		}
	})
	return found
}

func (t *tx) putToken(token *structs.ACLToken) {
	t.touched[TableACLTokens] = t.at()
	token.ModifyIndex = t.at()
	if token.CreateIndex == 0 {
		token.CreateIndex = token.ModifyIndex
	}
	t.tokens.put(token.AccessorID, token)
}

func (t *tx) deleteToken(accessorID string) {
	t.touched[TableACLTokens] = t.at()
	t.tokens.delete(accessorID)
}

// hashOf is what is kept of a secret. It has 128 random bits, so nobody can try them all,
// and a hash that is slow on purpose would gain nothing.
func hashOf(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// newSecret draws 128 bits, in the form of a UUID as Nomad's tools print it.
func newSecret() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
