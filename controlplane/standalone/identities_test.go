package standalone

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// withIdentities has the task have the default identity and one of an hour.
func withIdentities(j *nomad.Job) {
	j.TaskGroups[0].Tasks[0].Identities = []*nomad.WorkloadIdentity{
		{Name: "aws", Audience: []string{"sts"}, TTL: time.Hour, File: true},
		{File: true},
	}
}

// identified is a control plane with a job whose task has identities.
func identified(t *testing.T, path string) (*ControlPlane, structs.TaskIdentity) {
	t.Helper()
	cp, err := Open(Options{Path: path, ACL: true, Issuer: "https://nomad.test"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = cp.Close() }) // a test may have closed it
	registerNode(t, cp, testNode())
	register(t, cp, testJob("app", nomad.JobTypeBatch, withIdentities))
	return cp, structs.TaskIdentity{AllocID: placed(t, cp, "app").ID, Task: "t"}
}

func signed(t *testing.T, cp *ControlPlane, of structs.TaskIdentity, name string) *structs.IdentityToken {
	t.Helper()
	token, err := cp.ForNode().SignIdentity(t.Context(), of, name)
	require.NoError(t, err)
	return token
}

// said are the claims of a token, and its header.
func said(t *testing.T, token string) (header, claims map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	for i, into := range []*map[string]any{&header, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, into))
	}
	return header, claims
}

func TestATokenSaysWhoATaskIs(t *testing.T) {
	cp, task := identified(t, filepath.Join(t.TempDir(), "server.db"))
	before := time.Now().Unix()
	token := signed(t, cp, task, "default")
	require.Zero(t, token.Expires)
	require.NotContains(t, token.String(), token.JWT)
	header, claims := said(t, token.JWT)
	require.Equal(t, map[string]any{"alg": "RS256", "typ": "JWT", "kid": keysIn(cp, nomad.RootKeyStateActive)[0]}, header)
	id, at := claims["jti"], claims["iat"].(float64)
	require.GreaterOrEqual(t, int64(at), before)
	require.LessOrEqual(t, int64(at), time.Now().Unix())
	require.Len(t, id, 36)
	want := map[string]any{
		"sub": "global:default:app:g:t:default", "aud": "nomadproject.io", "iss": "https://nomad.test", "jti": id,
		"iat": at, "nbf": at,
		"nomad_namespace": "default", "nomad_job_id": "app", "nomad_allocation_id": task.AllocID, "nomad_task": "t",
	}
	require.Equal(t, want, claims)

	named := signed(t, cp, task, "aws")
	_, claims = said(t, named.JWT)
	at = claims["iat"].(float64)
	require.Equal(t, int64(at)+3600, named.Expires.Unix())
	require.NotEqual(t, id, claims["jti"])
	want["sub"], want["aud"], want["jti"] = "global:default:app:g:t:aws", "sts", claims["jti"]
	want["iat"], want["nbf"], want["exp"] = at, at, at+3600
	require.Equal(t, want, claims)

	for name, of := range map[string]structs.TaskIdentity{"gcp": task, "default": {AllocID: task.AllocID, Task: "other"}, "aws": {AllocID: "none", Task: "t"}} {
		_, err := cp.ForNode().SignIdentity(t.Context(), of, name)
		require.ErrorIs(t, err, errdefs.NotFound, name)
	}
}

func TestAChildsTokenIsThatOfItsParentsJob(t *testing.T) {
	cp := open(t, filepath.Join(t.TempDir(), "server.db"))
	registerNode(t, cp, testNode())
	register(t, cp, testJob("work", nomad.JobTypeBatch, withIdentities, func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} }))
	dispatched, err := cp.DispatchJob(&structs.JobDispatch{Namespace: "default", JobID: "work"})
	require.NoError(t, err)
	token := signed(t, cp, structs.TaskIdentity{AllocID: placed(t, cp, dispatched.JobID).ID, Task: "t"}, "default")
	_, claims := said(t, token.JWT)
	require.Equal(t, "work", claims["nomad_job_id"])
	require.Equal(t, "global:default:work:g:t:default", claims["sub"])
	require.NotContains(t, claims, "iss")
	w, err := cp.VerifyIdentity(token.JWT)
	require.NoError(t, err)
	require.True(t, w.MayReadVariable("default", "nomad/jobs/work/g"))
}

// forge signs what a token says, changed, with another key or algorithm.
func forge(t *testing.T, token string, alg jose.SignatureAlgorithm, kid string, key any, change func(claims map[string]any)) string {
	t.Helper()
	_, claims := said(t, token)
	if change != nil {
		change(claims)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	require.NoError(t, err)
	forged, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(t, err)
	return forged
}

func TestATokenIsTakenThatIsGoodAndNoOther(t *testing.T) {
	cp, task := identified(t, filepath.Join(t.TempDir(), "server.db"))
	register(t, cp, testJob("other", nomad.JobTypeBatch, withIdentities))
	token := signed(t, cp, task, "default").JWT
	w, err := cp.VerifyIdentity(token)
	require.NoError(t, err)
	require.Equal(t, &structs.Workload{
		TaskIdentity: task, Namespace: "default", JobID: "app", Group: "g",
		Variables: []string{"nomad/jobs", "nomad/jobs/app", "nomad/jobs/app/g", "nomad/jobs/app/g/t"},
	}, w)

	kid := keysIn(cp, nomad.RootKeyStateActive)[0]
	own, err := cp.ring.SigningKey(kid)
	require.NoError(t, err)
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	public, err := json.Marshal(jose.JSONWebKey{Key: &own.PublicKey})
	require.NoError(t, err)
	parts := strings.Split(token, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"` + kid + `"}`))
	claim := func(name string, value any) func(map[string]any) {
		return func(claims map[string]any) { claims[name] = value }
	}
	const noToken = "it is no JSON Web Token that is signed with RS256"
	for what, c := range map[string]struct{ token, says string }{
		"nothing":                 {"", noToken},
		"dots":                    {"..", noToken},
		"the algorithm none":      {none + "." + parts[1] + ".", noToken},
		"none, with a signature":  {none + "." + parts[1] + "." + parts[2], noToken},
		"HMAC by the public key":  {forge(t, token, jose.HS256, kid, public, nil), noToken},
		"another RSA algorithm":   {forge(t, token, jose.PS256, kid, own, nil), noToken},
		"a longer hash":           {forge(t, token, jose.RS512, kid, own, nil), noToken},
		"two tokens in one":       {token + "." + token, noToken},
		"no key's ID":             {forge(t, token, jose.RS256, "", own, nil), `there is no key "" to verify it with`},
		"another key's ID":        {forge(t, token, jose.RS256, "../"+kid, own, nil), `there is no key "../` + kid + `" to verify it with`},
		"another key":             {forge(t, token, jose.RS256, kid, foreign, nil), "its signature is not that of its key"},
		"other claims":            {parts[0] + "." + parts[1][:len(parts[1])-4] + "AAAA." + parts[2], "its signature is not that of its key"},
		"no signature":            {parts[0] + "." + parts[1] + ".", "its signature is not that of its key"},
		"expired":                 {forge(t, token, jose.RS256, kid, own, claim("exp", time.Now().Unix())), "it expired at "},
		"not good yet":            {forge(t, token, jose.RS256, kid, own, claim("nbf", time.Now().Add(2*time.Minute).Unix())), "it is not good before "},
		"for others":              {signed(t, cp, task, "aws").JWT, `its audience is not "nomadproject.io"`},
		"of no allocation":        {forge(t, token, jose.RS256, kid, own, claim("nomad_allocation_id", "none")), "allocation does not exist"},
		"of another's allocation": {forge(t, token, jose.RS256, kid, own, claim("nomad_allocation_id", placed(t, cp, "other").ID)), "its allocation has no such task"},
		"of another task":         {forge(t, token, jose.RS256, kid, own, claim("nomad_task", "u")), "its allocation has no such task"},
		"of another namespace":    {forge(t, token, jose.RS256, kid, own, claim("nomad_namespace", "other")), "its allocation has no such task"},
		"too long":                {strings.Repeat("a", 64<<10) + token, "it has more than 65536 bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := cp.VerifyIdentity(c.token)
			require.ErrorIs(t, err, errdefs.PermissionDenied)
			require.ErrorContains(t, err, "Permission denied: identity token: "+c.says)
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, len(err.Error()), 200)
		})
	}
	good := forge(t, token, jose.RS256, kid, own, claim("exp", time.Now().Add(time.Hour).Unix()))
	_, err = cp.VerifyIdentity(good)
	require.NoError(t, err, "the forgeries are refused for what is wrong with them")

	report(t, cp, cp.Allocation(task.AllocID), structs.ClientComplete)
	_, err = cp.VerifyIdentity(good)
	require.EqualError(t, err, "Permission denied: identity token: allocation is terminal")
	_, err = cp.ForNode().SignIdentity(t.Context(), task, "default")
	require.ErrorIs(t, err, errdefs.FailedPrecondition)
}

func TestTokensOutliveARotationAndARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp, task := identified(t, path)
	require.Empty(t, cp.IdentityKeys().Keys)
	before := signed(t, cp, task, "default").JWT
	old := keysIn(cp, nomad.RootKeyStateActive)[0]
	_, err := cp.RotateRootKey(true)
	require.NoError(t, err)
	after := signed(t, cp, task, "default").JWT
	header, _ := said(t, after)
	require.NotEqual(t, old, header["kid"])
	require.NoError(t, cp.Close())

	cp, err = Open(Options{Path: path})
	require.NoError(t, err)
	defer func() { require.NoError(t, cp.Close()) }()
	require.Len(t, cp.IdentityKeys().Keys, 2)
	for _, token := range []string{before, after} {
		_, err = cp.VerifyIdentity(token)
		require.NoError(t, err)
		h, _ := said(t, token)
		key := cp.IdentityKeys().Key(h["kid"].(string))
		require.Len(t, key, 1)
		require.True(t, key[0].IsPublic())
		parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
		require.NoError(t, err)
		require.NoError(t, parsed.Claims(key[0], &map[string]any{}), "others verify it, too")
	}

	require.EqualError(t, cp.DeleteRootKey(old, false), "root key in use, cannot delete")
	require.NoError(t, cp.DeleteRootKey(old, true))
	require.NoFileExists(t, strings.TrimSuffix(keyFile(path, old), ".key")+".rsa")
	_, err = cp.VerifyIdentity(before)
	require.ErrorContains(t, err, "there is no key")
	_, err = cp.VerifyIdentity(after)
	require.NoError(t, err)
}

func TestAKeyWhoseTokensAreAllOverIsRemoved(t *testing.T) {
	cp, task := identified(t, "")
	_ = signed(t, cp, task, "default")
	old := keysIn(cp, nomad.RootKeyStateActive)[0]
	_, err := cp.RotateRootKey(false)
	require.NoError(t, err)
	require.Error(t, cp.DeleteRootKey(old, false))
	report(t, cp, cp.Allocation(task.AllocID), structs.ClientComplete)
	require.NoError(t, cp.DeleteRootKey(old, false))
}

// The data directory of an earlier version has a root key that signs nothing.
func TestAnOldRootKeySignsFromNowOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp, task := identified(t, path)
	putVariable(t, cp, variable("a", "k", "v"))
	kid := keysIn(cp, nomad.RootKeyStateActive)[0]
	beside := strings.TrimSuffix(keyFile(path, kid), ".key") + ".rsa"
	require.NoFileExists(t, beside)
	token := signed(t, cp, task, "default").JWT
	require.FileExists(t, beside)
	header, _ := said(t, token)
	require.Equal(t, kid, header["kid"])

	require.NoError(t, cp.Close())
	require.NoError(t, os.Remove(keyFile(path, kid)))
	cp, err := Open(Options{Path: path})
	require.NoError(t, err)
	defer func() { require.NoError(t, cp.Close()) }()
	_, err = cp.ForNode().SignIdentity(t.Context(), task, "default")
	require.ErrorIs(t, err, errdefs.FailedPrecondition)
	require.ErrorContains(t, err, "put its file back")
	_, err = cp.VerifyIdentity(token)
	require.ErrorContains(t, err, "Permission denied")
}

func TestTheDefaultIdentityIsOneHoweverItIsWritten(t *testing.T) {
	cp := withNode(t, "")
	for _, write := range []func(*nomad.Task){
		func(t *nomad.Task) { t.Identity = &nomad.WorkloadIdentity{Env: true} },
		func(t *nomad.Task) { t.Identities = []*nomad.WorkloadIdentity{{Env: true, Audience: []string{"mine"}}} },
		func(t *nomad.Task) { t.Identities = []*nomad.WorkloadIdentity{{Name: "default", Env: true}} },
	} {
		register(t, cp, testJob("j", nomad.JobTypeBatch, func(j *nomad.Job) { write(j.TaskGroups[0].Tasks[0]) }))
		task := cp.Job("default", "j").TaskGroups[0].Tasks[0]
		require.Equal(t, &nomad.WorkloadIdentity{Name: "default", Audience: []string{"nomadproject.io"}, Env: true}, task.Identity)
		require.Empty(t, task.Identities)
	}
}
