package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
)

// maxReadCPU is what a read of a variable may take of a processor.
const maxReadCPU = time.Millisecond

// BenchmarkVariables asks an API with 10,000 variables for one, for pages, and for those that a
// filter fits, without ACLs and with a token that a policy allows it.
func BenchmarkVariables(b *testing.B) {
	const count = 10_000
	cp := plane(b)
	for i := range count {
		_, _, err := cp.PutVariable(&nomad.Variable{Namespace: "default", Path: fmt.Sprintf("app/%05d", i), Items: items("user", "root", "password", "correct-horse")}, nil)
		require.NoError(b, err)
	}
	_, err := cp.PutACLPolicy(structs.ACLPolicy{Name: "app", Rules: `
namespace "default" {
  variables {
    path "app/*" { capabilities = ["read", "list"] }
  }
}`})
	require.NoError(b, err)
	_, secret, err := cp.CreateACLToken(&structs.ACLToken{Type: structs.ACLClient, Policies: []string{"app"}}, 0)
	require.NoError(b, err)
	for rights, token := range map[string]string{"": "", " by token": secret} {
		api := httpapi.Handler(httpapi.Config{
			Logger: hclog.NewNullLogger(), ControlPlane: cp, Plugins: noPlugins{}, ACL: token != "",
			Agent:      httpapi.AgentInfo{Name: "here", Region: "global"},
			Conditions: func() []structs.Condition { return nil },
		})
		for name, path := range map[string]string{
			"read":       "/v1/var/app/05000",
			"first page": "/v1/vars?per_page=100",
			"late page":  "/v1/vars?per_page=100&next_token=default.app/09000",
			"filter":     `/v1/vars?filter=Path+matches+"00$"`,
		} {
			b.Run(name+rights, func(b *testing.B) {
				before := processor()
				for b.Loop() {
					r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
					r.Header.Set("X-Nomad-Token", token)
					w := httptest.NewRecorder()
					api.ServeHTTP(w, r)
					require.Equal(b, http.StatusOK, w.Code, w.Body)
				}
				each := (processor() - before) / time.Duration(b.N)
				b.ReportMetric(float64(each)/float64(time.Millisecond), "cpu-ms/op")
				if enough := b.N >= 100; enough && name == "read" && each > maxReadCPU {
					b.Errorf("a read takes %v of a processor, more than %v", each, maxReadCPU)
				}
			})
		}
	}
}

// processor is the time of processors that this process has had.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
