package httpapi_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
)

func TestTheLogSaysWhetherAllIsSealedAnew(t *testing.T) {
	for query, want := range map[string]string{"": "full=false", "?full": "full=true", "?full=true": "full=true", "?full=false": "full=false"} {
		var log bytes.Buffer
		h := httpapi.Handler(httpapi.Config{Logger: hclog.New(&hclog.LoggerOptions{Output: &log}), ControlPlane: plane(t), Node: idle{}, Plugins: noPlugins{}})
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodPut, "http://127.0.0.1/v1/operator/keyring/rotate"+query, nil))
		require.Equal(t, http.StatusOK, answer.Code, answer.Body)
		require.Contains(t, log.String(), want, query)
	}
}
