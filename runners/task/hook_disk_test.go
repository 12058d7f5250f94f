package task_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// smallDisk gives the task a file system of its own that has 64 KiB.
func (f *fixture) smallDisk(t *testing.T) {
	t.Helper()
	dir := filepath.Join(f.dir.Path(), "web")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
}

func TestAFullDiskFailsTheTaskByItsPolicyWithOneEventEachTime(t *testing.T) {
	large := strings.Repeat("x", 128<<10)
	for name, c := range map[string]struct {
		needs func(f *fixture, address string)
		says  string
	}{
		"artifact": {
			func(f *fixture, address string) {
				f.task.Artifacts = []*nomad.TaskArtifact{fetched(address+"/large", nil)}
			},
			`Failed Artifact Download: failed to download artifact "ADDRESS/large": the node's disk is full`,
		},
		"template": {
			func(f *fixture, _ string) { f.task.Templates = []*nomad.Template{inline(large, "local/large")} },
			`Task hook failed: template: "local/large": file "local/large": the node's disk is full`,
		},
		"payload": {
			func(f *fixture, _ string) {
				f.task.DispatchPayload, f.alloc.Job.Payload = &nomad.DispatchPayloadConfig{File: "large"}, []byte(large)
			},
			"Task hook failed: dispatch_payload: the node's disk is full",
		},
	} {
		t.Run(name, func(t *testing.T) {
			twice(t, func(t *testing.T) {
				s := newFileServer(t, map[string]string{"/large": large})
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t, nil)
					f.smallDisk(t)
					c.needs(f, s.URL)
					f.start()
					f.untilDead()
					failed := strings.Replace(c.says, "ADDRESS", s.URL, 1)
					require.Equal(t, []string{
						received, setup, failed, "Restarting: Task restarting in 10s", failed,
						`Not Restarting: Exceeded allowed attempts 1 in interval 1m0s and mode is "fail"`,
					}, slices.DeleteFunc(f.events(), func(e string) bool { return e == downloading }))
					require.NoFileExists(t, filepath.Join(f.dir.Path(), "web/local/large"))
					require.Zero(t, f.world.Started("web"))
					f.finish()
				})
			})
		})
	}
}
