package httpapi_test

import (
	"net/http"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// Statuses and texts are those that Nomad's community edition was seen to answer.
func TestWhatIsNotHereAnswersAsInNomad(t *testing.T) {
	w := newWorld(t)
	const (
		enterprise = "Nomad Enterprise only endpoint"
		disabled   = "ACL support disabled"
	)
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		{"/v1/quotas", 501, enterprise},
		{"/v1/quota/x", 501, enterprise},
		{"/v1/quota-usages", 501, enterprise},
		{"/v1/sentinel/policies", 501, enterprise},
		{"/v1/sentinel/policy/x", 501, enterprise},
		{"/v1/recommendations", 501, enterprise},
		{"/v1/recommendation/x", 501, enterprise},
		{"/v1/operator/license", 204, ""},
		{"/v1/acl/policies", 400, disabled},
		{"/v1/acl/tokens", 400, disabled},
		{"/v1/acl/roles", 400, disabled},
		{"/v1/acl/auth-methods", 400, disabled},
		{"/v1/acl/binding-rules", 400, disabled},
		{"/v1/acl/token/x", 400, disabled},
		{"/v1/namespace/nope", 404, "Namespace not found"},
		{"/v1/volumes?type=host", 200, "[]"},
		{"/v1/volumes?type=csi", 200, "[]"},
		{"/v1/volume/csi/x", 404, "volume not found"},
		{"/v1/volumes/external?plugin_id=x", 500, "no such plugin"},
		{"/v1/volumes/snapshot?plugin_id=x", 500, "no such plugin"},
		{"/v1/volume/host/x", 404, "volume not found"},
		{"/v1/plugins?type=csi", 200, "[]"},
		{"/v1/plugin/csi/x", 404, "plugin not found"},
		{"/v1/vars", 200, "[]"},
		{"/v1/var/nomad/jobs/x", 404, "variable not found"},
		{"/v1/services", 200, "[]"},
		{"/v1/service/x", 200, "[]"},
		{"/v1/regions", 200, `["global"]`},
		{"/v1/job/x/services", 404, "job not found"},
		{"/v1/allocation/11111111-1111-1111-1111-111111111111/services", 404, "allocation not found"},
		{"/v1/jobs?region=eu", 500, "No path to region"},
		{"/v1/search", 405, "Invalid method"},
		{"/v1/search/fuzzy", 405, "Invalid method"},
	} {
		r := w.get(t, c.path)
		require.Equal(t, c.status, r.status, c.path)
		require.Equal(t, c.body, r.body, c.path)
	}
	for _, method := range []string{http.MethodPut, http.MethodPost, http.MethodDelete} {
		require.Equal(t, 501, w.do(t, method, "/v1/quota/x", "").status)
	}
	_, _, err := w.Client.CSIVolumes().Create(&nomad.CSIVolume{ID: "x"}, nil)
	require.ErrorContains(t, err, "501 (CSI volumes are not supported)")
	space, _, err := w.Client.Namespaces().Info("default", nil)
	require.NoError(t, err)
	require.Equal(t, "default", space.Name)
	self, _, err := w.Client.ACLTokens().Self(nil)
	require.NoError(t, err)
	require.Equal(t, "acls-disabled", self.AccessorID)
	peers, err := w.Client.Status().Peers()
	require.NoError(t, err)
	require.Len(t, peers, 1)
}
