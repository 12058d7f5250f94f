package standalone

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// reader is what a token that may only read is made from.
func reader(name string) *structs.ACLToken {
	return &structs.ACLToken{Name: name, Type: structs.ACLClient, Policies: []string{structs.ACLReadOnly}}
}

func TestTheFirstACLTokenIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	reset := filepath.Join(dir, "acl-bootstrap-reset")
	s, err := Open(Options{Path: filepath.Join(dir, "server.db"), ACLReset: reset})
	require.NoError(t, err)
	token, secret, err := s.BootstrapACL("")
	require.NoError(t, err)
	require.Equal(t, structs.ACLManagement, token.Type)
	require.Len(t, secret, 36)
	_, _, err = s.BootstrapACL("")
	require.EqualError(t, err, fmt.Sprintf("ACL bootstrap already done (reset index: %d)", token.CreateIndex))

	// Neither a restart nor the token's end opens it again.
	require.NoError(t, s.DeleteACLToken(token.AccessorID))
	require.NoError(t, s.Close())
	s, err = Open(Options{Path: filepath.Join(dir, "server.db"), ACLReset: reset})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, _, err = s.BootstrapACL("")
	require.ErrorIs(t, err, errdefs.InvalidArgument)

	require.NoError(t, os.WriteFile(reset, []byte("999\n"), 0o600))
	_, _, err = s.BootstrapACL("")
	require.ErrorContains(t, err, "already done", "another index")
	require.NoError(t, os.WriteFile(reset, fmt.Appendln(nil, token.CreateIndex), 0o600))
	_, another, err := s.CreateACLToken(&structs.ACLToken{Type: structs.ACLClient, Policies: []string{structs.ACLReadOnly}}, 0)
	require.NoError(t, err)
	_, _, err = s.BootstrapACL(another)
	require.ErrorContains(t, err, "another token has this secret", "who has it may read, and no more")
	again, secret, err := s.BootstrapACL("3a1f8f9e-8f0f-4a8e-9a55-0123456789ab")
	require.NoError(t, err)
	require.Equal(t, "3a1f8f9e-8f0f-4a8e-9a55-0123456789ab", secret)
	require.NoFileExists(t, reset, "it is used up")
	found, err := s.ResolveACLToken(secret)
	require.NoError(t, err)
	require.Equal(t, again, found)
	_, _, err = s.BootstrapACL("")
	require.ErrorContains(t, err, fmt.Sprintf("(reset index: %d)", again.CreateIndex))
}

// That somebody has made the first token may be what was lost.
func TestADamagedFileDoesNotMakeWhoComesFirstItsManager(t *testing.T) {
	dir := t.TempDir()
	opts := Options{Path: filepath.Join(dir, "server.db"), ACLReset: filepath.Join(dir, "acl-bootstrap-reset"), SetAside: true}
	require.NoError(t, os.WriteFile(opts.Path, []byte("damaged"), 0o600))
	for range 2 { // also when it was damaged the time before
		s, err := Open(opts)
		require.NoError(t, err)
		_, _, err = s.BootstrapACL("")
		require.EqualError(t, err, "ACL bootstrap already done (reset index: 1)")
		_, err = s.ForNode().Register(t.Context(), testNode())
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	require.NoError(t, os.WriteFile(opts.ACLReset, []byte("1"), 0o600))
	s, err := Open(opts)
	require.NoError(t, err)
	_, _, err = s.BootstrapACL("")
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestABootstrapSecretIsAUUID(t *testing.T) {
	_, _, err := open(t, "").BootstrapACL("hunter2")
	require.EqualError(t, err, "invalid acl token: a bootstrap secret is a UUID")
}

func TestATokenLivesInTheFileAsAHash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	s, err := Open(Options{Path: path})
	require.NoError(t, err)
	token, secret, err := s.CreateACLToken(reader("watcher"), 0)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(content), token.AccessorID)
	require.NotContains(t, string(content), secret)

	s = open(t, path)
	found, err := s.ResolveACLToken(secret)
	require.NoError(t, err)
	require.Equal(t, token, found)
	require.NotEqual(t, token.AccessorID, secret)
	_, err = s.ResolveACLToken(token.AccessorID)
	require.ErrorIs(t, err, structs.ErrACLTokenNotFound, "the public name is no secret")
	_, err = s.ResolveACLToken(strings.ToUpper(secret))
	require.ErrorIs(t, err, structs.ErrACLTokenNotFound)
}

func TestADeletedTokenIsWorthNothing(t *testing.T) {
	s := open(t, "")
	token, secret, err := s.CreateACLToken(reader("x"), 0)
	require.NoError(t, err)
	renamed, err := s.UpdateACLToken(token.AccessorID, reader("y"))
	require.NoError(t, err)
	require.Equal(t, "y", renamed.Name)
	require.Equal(t, "x", token.Name, "what was handed out does not change")
	_, err = s.ResolveACLToken(secret)
	require.NoError(t, err)
	require.NoError(t, s.DeleteACLToken(token.AccessorID))
	_, err = s.ResolveACLToken(secret)
	require.ErrorIs(t, err, structs.ErrACLTokenNotFound)
	require.ErrorIs(t, s.DeleteACLToken(token.AccessorID), errdefs.NotFound)
	_, err = s.UpdateACLToken(token.AccessorID, reader("z"))
	require.ErrorIs(t, err, errdefs.NotFound)
	require.Nil(t, s.ACLToken(token.AccessorID))
}

func TestATokenExpiresAndIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which time passes at once
		s := open(t, "")
		token, secret, err := s.CreateACLToken(reader("brief"), time.Minute)
		require.NoError(t, err)
		require.WithinDuration(t, token.Created.Add(time.Minute), token.Expires, 0)
		time.Sleep(time.Minute - 1)
		_, err = s.ResolveACLToken(secret)
		require.NoError(t, err)
		time.Sleep(time.Nanosecond)
		_, err = s.ResolveACLToken(secret)
		require.ErrorIs(t, err, structs.ErrACLTokenExpired)
		_, _, err = s.CreateACLToken(reader("next"), 0)
		require.NoError(t, err)
		require.Len(t, s.ACLTokens(), 1, "what has expired goes when another is made")
	})
}

func TestTokensThatCannotBe(t *testing.T) {
	s := open(t, "")
	for want, token := range map[string]*structs.ACLToken{
		"token type must be client or management": {Type: "root"},
		"client token missing policies or roles: the policy \"readonly\" is built in, and acl policy apply makes others": {Type: structs.ACLClient},
		"management token cannot be associated with policies or roles":                                                   {Type: structs.ACLManagement, Policies: []string{structs.ACLReadOnly}},
		"there is no ACL policy \"admin\": acl policy apply makes one, and \"readonly\" is built in":                     {Type: structs.ACLClient, Policies: []string{structs.ACLReadOnly, "admin"}},
		"token name: it has more than 256 bytes, or control characters":                                                  {Type: structs.ACLManagement, Name: strings.Repeat("x", 257)},
	} {
		_, _, err := s.CreateACLToken(token, 0)
		require.ErrorIs(t, err, errdefs.InvalidArgument)
		require.EqualError(t, err, want)
	}
	require.Empty(t, s.ACLTokens())
}

func TestHowLongATokenCanLive(t *testing.T) {
	for _, c := range []struct {
		bounds     TokenTTL
		can        []time.Duration
		less, more time.Duration // the first that cannot be
		least      string
		most       string
	}{
		{TokenTTL{}, []time.Duration{0, time.Minute, 24 * time.Hour}, time.Minute - 1, 24*time.Hour + 1, "1m0s", "24h0m0s"},
		{TokenTTL{Least: time.Second}, []time.Duration{time.Second, 24 * time.Hour}, time.Second - 1, 24*time.Hour + 1, "1s", "24h0m0s"},
		{TokenTTL{time.Hour, 2 * time.Hour}, []time.Duration{time.Hour, 2 * time.Hour}, time.Hour - 1, 2*time.Hour + 1, "1h0m0s", "2h0m0s"},
	} {
		s, err := Open(Options{TokenTTL: c.bounds})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		for _, ttl := range c.can {
			_, _, err := s.CreateACLToken(reader("x"), ttl)
			require.NoError(t, err)
		}
		_, _, err = s.CreateACLToken(reader("x"), c.less)
		require.EqualError(t, err, fmt.Sprintf("expiration time cannot be less than %s in the future (was %s)", c.least, c.less))
		_, _, err = s.CreateACLToken(reader("x"), c.more)
		require.EqualError(t, err, fmt.Sprintf("expiration time cannot be more than %s in the future (was %s)", c.most, c.more))
		_, _, err = s.CreateACLToken(reader("x"), -time.Hour)
		require.EqualError(t, err, "token expiration TTL '-1h0m0s' should not be negative")
	}
}

func TestTokensAreBounded(t *testing.T) {
	s := open(t, "")
	for range maxACLTokens {
		_, _, err := s.CreateACLToken(reader("x"), 0)
		require.NoError(t, err)
	}
	_, _, err := s.CreateACLToken(reader("x"), 0)
	require.EqualError(t, err, "there are 1000 ACL tokens, as many as there can be: delete some")
}

// A copy that takes a damaged file's place knows who was let in, and who is no more.
func TestTheLastGoodCopyBringsNoTokenBack(t *testing.T) {
	opts := Options{Path: filepath.Join(t.TempDir(), "server.db"), SetAside: true}
	s, err := Open(opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	// fromCopy is the control plane that comes up where the file is damaged now.
	fromCopy := func() *ControlPlane {
		copied, err := os.ReadFile(boltfile.CopyPath(opts.Path))
		require.NoError(t, err)
		other := Options{Path: filepath.Join(t.TempDir(), "server.db"), SetAside: true}
		require.NoError(t, os.WriteFile(boltfile.CopyPath(other.Path), copied, 0o600))
		cp, err := Open(other)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, cp.Close()) })
		return cp
	}
	_, first, err := s.BootstrapACL("")
	require.NoError(t, err)
	cp := fromCopy()
	_, err = cp.ResolveACLToken(first)
	require.NoError(t, err)
	_, _, err = cp.BootstrapACL("")
	require.ErrorContains(t, err, "already done")

	token, secret, err := s.CreateACLToken(reader("ci"), 0)
	require.NoError(t, err)
	require.NoError(t, s.file.Forget())
	_, err = fromCopy().ResolveACLToken(secret)
	require.NoError(t, err)
	require.NoError(t, s.DeleteACLToken(token.AccessorID))
	_, err = fromCopy().ResolveACLToken(secret)
	require.ErrorIs(t, err, structs.ErrACLTokenNotFound)
}

func TestASnapshotFromBeforeTheFirstTokenDoesNotLetItBeMadeAgain(t *testing.T) {
	opts := Options{Path: filepath.Join(t.TempDir(), "server.db")}
	s, err := Open(opts)
	require.NoError(t, err)
	_, err = s.ForNode().Register(t.Context(), testNode())
	require.NoError(t, err)
	var snap bytes.Buffer
	require.NoError(t, s.SaveSnapshot(&snap))
	_, _, err = s.BootstrapACL("")
	require.NoError(t, err)
	require.NoError(t, s.RestoreSnapshot(&snap))
	require.NoError(t, s.Close())
	s, err = Open(opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.Empty(t, s.ACLTokens())
	_, _, err = s.BootstrapACL("")
	require.ErrorContains(t, err, "already done")
}
