package enginetest

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Prometheus starts Debian's prometheus with a configuration file and returns the URL that it
// answers at. It ends with the test.
func Prometheus(t testing.TB, config string) (url string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts prometheus")
	}
	Program(t, "prometheus", "prometheus")
	dir := directory(t)
	address := ownAddress(t)
	start(t, dir, exec.Command("prometheus", "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address), func() {})
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, longest, 20*time.Millisecond, "prometheus does not start")
	return "http://" + address
}
