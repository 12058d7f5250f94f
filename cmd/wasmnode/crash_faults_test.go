package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/runners/allocdir/allocdirtest"
)

// faults is what goes wrong in one round of a campaign.
type faults struct {
	agent      syscall.Signal // what ends the agent; 0: nothing
	supervisor bool           // it is killed
	after      time.Duration  // the beginning of the round
	full       bool           // the disk of the agent's and the supervisor's files is
	room       int            // bytes that are left on it
	early      bool           // it is full before the agent dies, else only at the start
	start      bool           // the next agent starts on the full disk
	hold       time.Duration  // before there is room again
	bulk       int            // bytes of a job, more than what the files may have free in them

	// What happens before the next agent starts, if one does.
	upgrade  bool     // it is another build
	older    []string // these files become ones of an older schema
	damaged  string   // this file is cut short, after an agent that has ended in order
	restless bool     // an agent before it is killed while it starts
}

// drawFaults chooses the faults of a round.
func drawFaults(rng *rand.Rand) *faults {
	f := &faults{after: time.Duration(rng.IntN(150)) * time.Millisecond}
	chance := func(in int) bool { return rng.IntN(in) == 0 }
	switch {
	case chance(5):
		f.supervisor = true
	case chance(4):
		f.supervisor, f.agent = true, syscall.SIGKILL
	case chance(3):
		f.agent = syscall.SIGTERM
	default:
		f.agent = syscall.SIGKILL
	}
	if f.full = chance(4); f.full {
		f.room, f.early, f.start = 4096*rng.IntN(16), chance(2), chance(2)
		f.bulk = rng.IntN(100 << 10)
		f.hold = time.Duration(rng.IntN(600)) * time.Millisecond
	}
	f.upgrade = chance(3)
	for _, file := range []string{"client.db", "server.db"} {
		if chance(5) {
			f.older = append(f.older, file)
		}
		// An agent that could not write has no copy as new as the file.
		if f.agent == syscall.SIGTERM && !f.full && chance(4) {
			f.damaged = file
		}
	}
	f.restless = chance(3)
	return f
}

// String tells them apart in the log.
func (f *faults) String() string {
	said := []string{fmt.Sprintf("after %s", f.after)}
	add := func(is bool, format string, args ...any) {
		if is {
			said = append(said, fmt.Sprintf(format, args...))
		}
	}
	add(f.full, "a disk with room for %d bytes (early: %v, at the start: %v, for %s)", f.room, f.early, f.start, f.hold)
	add(f.supervisor, "the supervisor is killed")
	add(f.agent != 0, "the agent gets %v", f.agent)
	if f.agent != 0 {
		add(f.upgrade, "another build")
		add(len(f.older) > 0, "an older schema of %v", f.older)
		add(f.damaged != "", "a damaged %s", f.damaged)
		add(f.restless, "a start that is killed")
	}
	return strings.Join(said, ", ")
}

// plainBinary builds the program as it is released, once: another build than the one
// whose failpoints work.
var plainBinary = sync.OnceValues(func() (string, error) {
	path := binary + "-plain"
	out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X github.com/wasmnode/wasmnode/agent.Version=9.9.9", "-o", path, ".").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, err
})

// swapProgram has the other build be the node's program.
func (w *crashWorld) swapProgram(t *testing.T) {
	t.Helper()
	one, err := failpointBinary()
	require.NoError(t, err)
	other, err := plainBinary()
	require.NoError(t, err)
	if w.site.binary == one {
		w.site.binary = other
	} else {
		w.site.binary = one
	}
}

// The campaign's disks: the small one is filled, and has the agent's and the supervisor's
// files. What the tasks write is on the other, as its absence is told by them only.
const (
	stateDisk = "size=64m" // for fifty ended allocations, in each file and its copies
	allocDisk = "size=256m"
)

// campaignDir is a directory whose data directory is on disks of its own, if this machine
// lets the test mount them: they leave with what the site's tasks have mounted on them.
func campaignDir(t *testing.T) (dir string, mounted bool) {
	t.Helper()
	dir = t.TempDir()
	allocdirtest.Unmount(t, dir)
	data := filepath.Join(dir, "data")
	for _, m := range []struct{ dir, size string }{{data, stateDisk}, {filepath.Join(data, "alloc"), allocDisk}} {
		require.NoError(t, os.Mkdir(m.dir, 0o700))
		if err := syscall.Mount("none", m.dir, "tmpfs", 0, m.size); err != nil {
			t.Logf("no disk is filled: this machine lets the test mount nothing: %v", err)
			return dir, false
		}
	}
	return dir, true
}

// fill fills the disk but for some room.
func (s *site) fill(t *testing.T, room int) {
	t.Helper()
	path := filepath.Join(s.data, "fill")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	block, size := make([]byte, 1<<20), int64(0)
	for len(block) >= 4096 {
		n, err := f.Write(block)
		size += int64(n)
		if err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			block = block[:len(block)/2]
		}
	}
	require.NoError(t, f.Truncate(max(0, size-int64(room))))
}

// free makes room again.
func (s *site) free(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(s.data, "fill")); !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
}

// spoil changes the files of an agent that has ended.
func (c *campaign) spoil(t *testing.T, f *faults) {
	t.Helper()
	for _, file := range f.older {
		path := filepath.Join(c.site.data, file)
		makeOlder(t, path)
		if f.damaged == file {
			makeOlder(t, boltfile.CopyPath(path))
		}
	}
	if f.damaged != "" {
		require.NoError(t, os.Truncate(filepath.Join(c.site.data, f.damaged), 9000))
	}
}

// makeOlder has a file say that an older program wrote it. What it says of its content is
// true: the schemas so far differ in their number only.
func makeOlder(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("meta"))
		header := map[string]any{}
		if err := json.Unmarshal(b.Get([]byte("header")), &header); err != nil {
			return err
		}
		header["Schema"] = 0
		delete(header, "Sum") // which older programs did not write
		value, err := json.Marshal(header)
		if err != nil {
			return err
		}
		return b.Put([]byte("header"), value)
	}))
	require.NoError(t, db.Close())
}

// checkOlder wants an older file's copy to be there, which an older program could go on with.
func (c *campaign) checkOlder(t *testing.T, f *faults) {
	t.Helper()
	for _, file := range f.older {
		kept := filepath.Join(c.site.data, file+".schema-0")
		require.FileExists(t, kept)
		require.NoError(t, os.Remove(kept))
	}
}
