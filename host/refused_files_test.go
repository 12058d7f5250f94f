package host_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

func TestAFileThatIsNotGrantedIsRefusedAndToldWithItsGrant(t *testing.T) {
	granted := t.TempDir()
	put(t, granted, "file", []byte("granted"))
	p := newWorld(t, host.Limits{}).ready(t, guestbuild.Plugin(t, "host/testdata/files"), host.Grants{FS: host.FSGrant{ReadOnly: []string{granted}}})
	scope := taskWithFiles(t, "web")
	require.Equal(t, "granted", does(t, p, scope, "read", granted+"/file"))
	require.Empty(t, p.Stats().NotGranted)

	for _, c := range []struct{ do, path, said string }{
		{"read", "/etc/passwd", "open /etc/passwd: Permission denied"},
		{"read", "/etc/../none/such", "open /etc/../none/such: Permission denied"},
		{"list", "/etc", "open /etc: Permission denied"},
		{"write", "/var/lib/x/state", "open /var/lib/x/state: Permission denied"},
		{"read", "/etc/passwd", "open /etc/passwd: Permission denied"},
	} {
		require.Equal(t, c.said, does(t, p, scope, c.do, c.path))
	}
	grant := func(key, dir string) string {
		return fmt.Sprintf(`plugin "files" { grant { fs { %s = [%q] } } }`, key, dir)
	}
	stats := p.Stats()
	require.Equal(t, []string{grant("read_only", "/etc"), grant("read_only", "/none"), grant("read_only", "/etc"), grant("read_write", "/var/lib/x")}, stats.WouldGrant)
	require.Equal(t, "file /etc/passwd is not granted: add "+grant("read_only", "/etc"), stats.NotGranted[0])
	require.EqualValues(t, 5, stats.Denied)

	config := *scope.Config
	config.DriverConfig = []byte(`{"do": "need", "path": "/srv/data"}`)
	err := p.Invoke(t.Context(), host.Call{
		Op: abi.OpDriverStartTask, Task: &config, Request: &wasmnodev1.DriverStartTaskRequest{Task: &config}, Answer: &wasmnodev1.DriverStartTaskResponse{},
	})
	require.ErrorContains(t, err, "open /srv/data: Permission denied (file /srv/data is not granted: add "+grant("read_only", "/srv")+")")
	config.DriverConfig = []byte(`{"do": "need", "path": "/task/none"}`)
	err = p.Invoke(t.Context(), host.Call{
		Op: abi.OpDriverStartTask, Task: &config, Request: &wasmnodev1.DriverStartTaskRequest{Task: &config}, Answer: &wasmnodev1.DriverStartTaskResponse{},
	})
	require.ErrorContains(t, err, "No such file")
	require.NotContains(t, err.Error(), "granted", "that was in the call before")

	config.Env = map[string]string{"NOMAD_TOKEN": "a-secret-token"}
	config.DriverConfig = []byte(`{"do": "need", "path": "/srv/a-secret-token/x"}`)
	err = p.Invoke(t.Context(), host.Call{
		Op: abi.OpDriverStartTask, Task: &config, Request: &wasmnodev1.DriverStartTaskRequest{Task: &config}, Answer: &wasmnodev1.DriverStartTaskResponse{},
	})
	require.ErrorContains(t, err, "is not granted")
	require.NotContains(t, fmt.Sprint(err, p.Stats().NotGranted, p.Stats().WouldGrant), "a-secret-token", "a path is told as other words of the guest's")

	for i := range 20 {
		does(t, p, scope, "read", fmt.Sprintf("/many/%d/x", i))
	}
	require.Len(t, p.Stats().NotGranted, 8, "the last are kept")
}
