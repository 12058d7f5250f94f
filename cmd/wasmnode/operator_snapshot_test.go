package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestASnapshotIsSavedInspectedAndRestored: the agent that takes it has nothing changed
// until it is started again.
func TestASnapshotIsSavedInspectedAndRestored(t *testing.T) {
	s := newSite(t, "mock")
	n := s.start(t)
	n.out(t, "job", "run", "-detach", writeJob(t, "saved", "service", "mock_driver", `run_for = "1h"`))
	n.await(t, "saved", "running")
	dir := t.TempDir()
	file := filepath.Join(dir, "state.snap")
	write(t, filepath.Join(dir, ".killed.snap.unfinished"), "secret")
	require.Equal(t, "State file written to "+file+"\n", n.out(t, "operator", "snapshot", "save", file))
	r := n.run(t, "operator", "snapshot", "save", file)
	require.Equal(t, 1, r.code)
	require.Equal(t, "Error: "+file+" is there already: name another file\n", r.stderr)
	r = n.run(t, "operator", "snapshot", "save", filepath.Join(dir, "none", "state.snap"))
	require.Equal(t, "Error: "+filepath.Join(dir, "none", "state.snap")+": no such file or directory\n", r.stderr)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing half done is left")

	var m struct{ Size, Jobs, Allocations, Schema int }
	r = command(t, "127.0.0.1:1", "operator", "snapshot", "inspect", "-json", file)
	require.Zero(t, r.code, r.stderr)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &m))
	require.Positive(t, m.Size)
	require.Equal(t, []int{1, 1, 1}, []int{m.Jobs, m.Allocations, m.Schema})
	require.Regexp(t, `Jobs += 1\n`, command(t, "127.0.0.1:1", "operator", "snapshot", "inspect", file).stdout)

	n.out(t, "job", "stop", "-purge", "saved")
	n.out(t, "operator", "snapshot", "restore", file)
	require.Contains(t, n.run(t, "job", "status", "saved").stderr, "no job begins with")
	status, health := n.health(t)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, health, "a restored snapshot takes the place of the control plane's state when the agent is started again")
	require.Zero(t, n.signal(t, syscall.SIGTERM), n.log)

	n = s.start(t)
	require.Contains(t, n.log.String(), "a restored snapshot took a file's place: file="+filepath.Join(s.data, "server.db"))
	require.Contains(t, n.out(t, "job", "status"), "saved")
	replaced, err := filepath.Glob(filepath.Join(s.data, "server.db.replaced-*"))
	require.NoError(t, err)
	require.Len(t, replaced, 1)
	_, health = n.health(t)
	require.NotContains(t, health, "snapshot")
}

// TestASnapshotThatIsNotGoodIsRefusedWhole, by inspect and by the agent.
func TestASnapshotThatIsNotGoodIsRefusedWhole(t *testing.T) {
	s := newSite(t)
	n := s.start(t)
	file := filepath.Join(t.TempDir(), "state.snap")
	n.out(t, "operator", "snapshot", "save", file)
	content := read(t, file)
	for what, c := range map[string]struct{ content, want string }{
		"text": {"no snapshot", "snapshot: it is not one: gzip: invalid header\n"},
		"cut":  {content[:len(content)/2], "snapshot: state.bin: unexpected EOF\n"},
	} {
		t.Run(what, func(t *testing.T) {
			bad := write(t, filepath.Join(t.TempDir(), "bad.snap"), c.content)
			for do, where := range map[string]string{"inspect": bad + ": ", "restore": ""} {
				r := n.run(t, "operator", "snapshot", do, bad)
				require.Equal(t, 1, r.code)
				require.Equal(t, "Error: "+where+c.want, r.stderr, do)
			}
			left, err := filepath.Glob(filepath.Join(s.data, "server.db.restore*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// TestNomadsClientSavesAndRestores: its client compares the digest of what it got.
func TestNomadsClientSavesAndRestores(t *testing.T) {
	s := newSite(t)
	n := s.start(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	api, err := nomad.NewClient(&nomad.Config{Address: "http://" + n.address, HttpClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	snap, err := api.Operator().Snapshot(nil)
	require.NoError(t, err)
	defer snap.Close()
	_, err = api.Operator().SnapshotRestore(snap, nil)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(s.data, "server.db.restore"))
}
