package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// TestADamagedDatabaseIsSetAsideAndTheNodeGoesOn tears the file of the node or of the
// control plane while their tasks run on. What the other knows is what is there
// afterwards: a task runs once, or not at all.
func TestADamagedDatabaseIsSetAsideAndTheNodeGoesOn(t *testing.T) {
	for _, c := range []struct {
		file  string
		knows bool // that there are jobs
	}{{"client.db", true}, {"server.db", false}} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			w := newCrashWorld(t)
			w.start(t)
			for _, process := range []bool{true, false} {
				w.register(t, w.newJob(runsOn, process))
			}
			w.check(t)
			w.killAgent(t)
			path := filepath.Join(w.site.data, c.file)
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(path, info.Size()/2))

			w.start(t)
			require.Equal(t, 1, strings.Count(w.node.log.String(), "a damaged file was set aside; going on with its last good copy: file="+path), "%s", w.node.log)
			aside, err := filepath.Glob(path + ".damaged-*")
			require.NoError(t, err)
			require.Len(t, aside, 1)
			running := map[string]bool{}
			for _, j := range w.jobs {
				if c.knows {
					running[w.awaitReplacement(t, j)] = j.process
				}
			}
			w.checkRunning(t, running)
			w.checkProcesses(t, running)

			for id := range w.jobs {
				_, _, err := w.api(t).Jobs().Deregister(id, true, nil)
				require.Equal(t, c.knows, err == nil, "%v", err)
			}
			clear(w.jobs)
			w.register(t, w.newJob(ends, true))
			w.check(t) // and the directories of what was lost stay, for whoever wants the data
		})
	}
}

// awaitReplacement waits until one allocation of a job runs, which is not the one before,
// and returns it.
func (w *crashWorld) awaitReplacement(t *testing.T, j *crashJob) (id string) {
	t.Helper()
	eventually(t, func() error {
		allocs, _, err := w.api(t).Jobs().Allocations(j.id, true, nil)
		if err != nil {
			return err
		}
		var running []string
		for _, a := range allocs {
			if a.ClientStatus == nomad.AllocClientStatusRunning {
				running = append(running, a.ID)
			}
		}
		if len(running) != 1 || running[0] == j.alloc {
			return fmt.Errorf("of %s run %v", j.id, running)
		}
		id = running[0]
		return nil
	})
	return id
}
