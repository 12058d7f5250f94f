package httpapi

import (
	"crypto/ed25519"
	"crypto/x509"
	"net/http"

	"github.com/go-jose/go-jose/v4"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/internal/jobpayload"
)

// givenJob is a job with its payload as it was given.
func givenJob(j *serversJob) (any, error) {
	if j == nil {
		return nil, notFound("job not found")
	}
	return j, jobpayload.Unpack(j.Job)
}

// givenVersions are those of a job that there is.
func givenVersions(decode func(any) error) (any, told, error) {
	got, t, err := answerOf[jobVersions](decode)
	if err == nil && len(got.Versions) == 0 {
		err = notFound("job versions not found")
	}
	return got, t, err
}

func givenAllocation(a *nomad.Allocation) (any, error) {
	if a == nil {
		return nil, notFound("alloc not found")
	}
	return a, jobpayload.Unpack(a.Job)
}

// publicKeys are those that the tokens of tasks are verified with. What is no key, or of a kind that
// nobody here knows, is left out.
var publicKeys = passOn("Keyring.ListPublic", nil, func(decode func(any) error) (any, told, error) {
	var got struct {
		PublicKeys []*struct {
			KeyID, Algorithm, Use string
			PublicKey             []byte
		}
	}
	if err := decode(&got); err != nil {
		return nil, told{}, err
	}
	set := &jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range got.PublicKeys {
		if k == nil {
			continue
		}
		key := jose.JSONWebKey{KeyID: k.KeyID, Algorithm: k.Algorithm, Use: k.Use, Key: publicKey(k.Algorithm, k.PublicKey)}
		if _, err := key.MarshalJSON(); err == nil {
			set.Keys = append(set.Keys, key)
		}
	}
	return set, told{}, nil
})

// publicKey reads a key; nil: it is none.
func publicKey(algorithm string, bytes []byte) any {
	switch jose.SignatureAlgorithm(algorithm) {
	case jose.EdDSA:
		if len(bytes) == ed25519.PublicKeySize {
			return ed25519.PublicKey(bytes)
		}
	case jose.RS256:
		if key, err := x509.ParsePKCS1PublicKey(bytes); err == nil {
			return key
		}
	}
	return nil
}

// discovered is where those keys are.
var discovered = passOn("Keyring.GetConfig", nil, func(decode func(any) error) (any, told, error) {
	var got struct {
		OIDCDiscovery *struct {
			Issuer, JWKS                         string
			IDTokenAlgs, ResponseTypes, Subjects []string
		}
	}
	if err := decode(&got); err != nil {
		return nil, told{}, err
	}
	d := got.OIDCDiscovery
	if d == nil {
		return nil, told{}, notFound("OIDC Discovery endpoint disabled")
	}
	return &discovery{Issuer: d.Issuer, JWKS: d.JWKS, Algorithms: d.IDTokenAlgs, ResponseTypes: d.ResponseTypes, SubjectTypes: d.Subjects}, told{}, nil
})

// volumes are those of the type that a request names; there are none of no type.
func volumes(h *handler, w http.ResponseWriter, r *http.Request) error {
	switch kind := r.URL.Query().Get("type"); kind {
	case "":
		return h.reply(w, r, []any{})
	case "host":
		args := queried(map[string]string{"NodeID": "node_id", "NodePool": "node_pool"})
		return listed[*nomad.HostVolumeStub]("HostVolume.List", "Volumes", args)(h, w, r)
	case "csi":
		args := queried(map[string]string{"NodeID": "node_id", "PluginID": "plugin_id"})
		return listed[*nomad.CSIVolumeListStub]("CSIVolume.List", "Volumes", args)(h, w, r)
	}
	return notFound("resource not found")
}

// serverHealth is how servers tell of each other, where a number says whether one is there.
type serverHealth struct {
	nomad.ServerHealth
	SerfStatus int
}

// serfStatuses are the words for these numbers.
var serfStatuses = []string{"none", "alive", "leaving", "left", "failed"}

// health tells whether the servers are well, with Nomad's status where they are not.
var health = passOn("Operator.ServerHealth", nil, func(decode func(any) error) (any, told, error) {
	var got struct {
		Healthy          bool
		FailureTolerance int
		Servers          []*serverHealth
		Leader           string
		Voters           []string
	}
	if err := decode(&got); err != nil {
		return nil, told{}, err
	}
	out := nomad.OperatorHealthReply{Healthy: got.Healthy, FailureTolerance: got.FailureTolerance, Leader: got.Leader, Voters: got.Voters}
	for _, s := range got.Servers {
		if s == nil {
			continue
		}
		if s.SerfStatus >= 0 && s.SerfStatus < len(serfStatuses) {
			s.ServerHealth.SerfStatus = serfStatuses[s.SerfStatus]
		}
		out.Servers = append(out.Servers, s.ServerHealth)
	}
	if !got.Healthy {
		return withStatus{out, http.StatusTooManyRequests}, told{}, nil
	}
	return out, told{}, nil
})
