package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
)

// BenchmarkVariables asks an API with 10,000 variables for one, for pages, and for those that a
// filter fits.
func BenchmarkVariables(b *testing.B) {
	const count = 10_000
	cp := plane(b)
	for i := range count {
		_, _, err := cp.PutVariable(&nomad.Variable{Namespace: "default", Path: fmt.Sprintf("app/%05d", i), Items: items("user", "root", "password", "correct-horse")}, nil)
		require.NoError(b, err)
	}
	api := httpapi.Handler(httpapi.Config{
		Logger: hclog.NewNullLogger(), ControlPlane: cp, Plugins: noPlugins{},
		Agent:      httpapi.AgentInfo{Name: "here", Region: "global"},
		Conditions: func() []structs.Condition { return nil },
	})
	for name, path := range map[string]string{
		"read":       "/v1/var/app/05000",
		"first page": "/v1/vars?per_page=100",
		"late page":  "/v1/vars?per_page=100&next_token=default.app/09000",
		"filter":     `/v1/vars?filter=Path+matches+"00$"`,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w := httptest.NewRecorder()
				api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
				require.Equal(b, http.StatusOK, w.Code)
			}
		})
	}
}
