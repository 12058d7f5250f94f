package task_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/allocdir/allocdirtest"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

// TestSecretsAreMadeAnewWhereTheMachinesEndTookThem has a task find all of them: what was done before
// is done again for what is in memory, and only for that.
func TestSecretsAreMadeAnewWhereTheMachinesEndTookThem(t *testing.T) {
	if why, can := allocdir.SecretsInMemory(t.TempDir()); !can {
		t.Skip("secrets cannot be in memory here: ", why)
	}
	s := newFileServer(t, map[string]string{"/secret": "a certificate", "/plain": "a program"})
	f := newFixture(t, map[string]any{"run_for": "1h"}).service()
	allocdirtest.Unmount(t, f.dir.Path())
	f.cfg.SecretsInMemory = true
	f.cfg.API, f.cfg.Identities = &greeter{}, &signer{}
	f.task.Resources = &nomad.Resources{SecretsMB: ptr(3)}
	f.task.Identity = &nomad.WorkloadIdentity{File: true}
	f.task.Templates = []*nomad.Template{{EmbeddedTmpl: ptr("rendered"), DestPath: ptr("secrets/rendered")}}
	secret, plain := fetched(s.URL+"/secret", nil), fetched(s.URL+"/plain", nil)
	secret.RelativeDest = ptr("${NOMAD_SECRETS_DIR}/")
	f.task.Artifacts = []*nomad.TaskArtifact{secret, plain}
	secrets := filepath.Join(f.dir.Path(), "web", "secrets")
	whole := func() {
		t.Helper()
		f.awaitState(structs.TaskRunning)
		for _, name := range []string{"secret", "rendered", "nomad_token"} {
			require.FileExists(t, filepath.Join(secrets, name))
		}
		require.Eventually(t, func() bool { return greeted(t, secrets) == nil }, time.Minute, time.Millisecond)
		var system unix.Statfs_t
		require.NoError(t, unix.Statfs(secrets, &system))
		require.EqualValues(t, unix.TMPFS_MAGIC, system.Type)
		require.EqualValues(t, 3<<20, int64(system.Blocks)*system.Bsize)
	}
	f.start()
	whole()
	require.NoError(t, os.WriteFile(filepath.Join(secrets, "own"), nil, 0o600))

	f.restartAgent()
	whole()
	require.FileExists(t, filepath.Join(secrets, "own"), "the agent's end changes nothing")
	require.Len(t, s.requests(), 2)

	f.r.Shutdown()
	<-f.r.WaitCh()
	f.world.Lose()
	require.NoError(t, allocdir.UnmountBelow(f.dir.Path()))
	f.build()
	require.NoError(t, f.r.Restore())
	go f.r.Run()
	require.Eventually(t, func() bool { return f.world.Started("web") == 2 }, time.Minute, time.Millisecond)
	whole()
	require.NoFileExists(t, filepath.Join(secrets, "own"))
	require.Equal(t, []string{"/secret", "/plain", "/secret"}, s.requests())

	// An operator unmounts them while the task runs: nothing is written to the disk from then on.
	f.r.Shutdown()
	<-f.r.WaitCh()
	require.NoError(t, allocdir.UnmountBelow(f.dir.Path()))
	f.build()
	require.NoError(t, f.r.Restore())
	go f.r.Run()
	require.Eventually(t, func() bool { return greeted(t, secrets) == nil }, time.Minute, time.Millisecond)
	require.NoFileExists(t, filepath.Join(secrets, "secret"))
	require.NoError(t, f.r.Restart(task.RestartRequest{Reason: "wanted"}))
	require.Eventually(t, func() bool { return f.world.Started("web") == 3 }, time.Minute, time.Millisecond)
	whole()

	f.finish()
	entries, err := os.ReadDir(secrets)
	require.NoError(t, err)
	require.Empty(t, entries, "they end with the task")
}
