package standalone

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs"
)

// The bounds within which a control plane of 1 MB is up, whatever happened to its file.
const (
	openTime   = 5 * time.Second
	openMemory = 128 << 20 // half of what the agent has: of all that was allocated, freed or not
)

// TestADamagedControlPlaneIsUpInBoundedTimeAndMemory damages a file of 1 MB at 2,000 random
// places: bytes are changed, one or hundreds, pages zeroed, the end cut off. Whatever is
// left can be read, listed and written to; with a last good copy nothing is missing that the
// damage made unreadable as a whole.
func TestADamagedControlPlaneIsUpInBoundedTimeAndMemory(t *testing.T) {
	rounds := 2000
	switch {
	case testing.Short():
		rounds = 60
	case raced: // one goroutine reads the file: make check has all places without the detector
		rounds = 200
	}
	t.Setenv(boltfile.StrictEnv, "0") // which reads all of the file after each write
	good := megabyte(t)
	all := 0
	rng := rand.New(rand.NewPCG(1, 2))
	outcomes := map[string]int{}
	var slowest time.Duration
	var largest uint64
	for round := range rounds {
		path := filepath.Join(t.TempDir(), "server.db")
		content, what := damaged(rng, good)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		copied := round%2 == 0
		if copied {
			require.NoError(t, os.WriteFile(boltfile.CopyPath(path), good, 0o600))
		}
		var recovered []boltfile.Recovery
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun := time.Now()
		cp, err := Open(Options{Path: path, SetAside: true, Recovered: func(r boltfile.Recovery) { recovered = append(recovered, r) }})
		took := time.Since(begun)
		runtime.ReadMemStats(&after)
		require.NoError(t, err, "%s", what)
		slowest, largest = max(slowest, took), max(largest, after.TotalAlloc-before.TotalAlloc)
		require.Less(t, took, openTime, "%s", what)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(openMemory), "%s", what)

		jobs := len(cp.Jobs())
		all = max(all, jobs)
		switch {
		case len(recovered) == 0 && cp.Unreadable() == 0:
			outcomes["opened"]++
		case len(recovered) == 0:
			outcomes["rows left out"]++
		case copied:
			outcomes["went on with the copy"]++
			require.Equal(t, all, jobs, "%s", what)
			require.Zero(t, cp.Unreadable())
		default:
			outcomes["went on empty"]++
			require.Zero(t, jobs)
		}
		useAll(t, cp, what)
		require.NoError(t, cp.Close())
		require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	}
	t.Logf("%d places in %d KiB: %v; slowest %s, most memory %d KiB", rounds, len(good)>>10, outcomes, slowest, largest>>10)
	for _, o := range []string{"opened", "rows left out", "went on with the copy", "went on empty"} {
		require.Positive(t, outcomes[o], o)
	}
}

// useAll lists everything and goes on with it.
func useAll(t *testing.T, cp *ControlPlane, what string) {
	t.Helper()
	for _, j := range cp.Jobs() {
		cp.JobVersions(*j.Namespace, *j.ID)
		cp.JobSummary(*j.Namespace, *j.ID)
		cp.JobAllocations(*j.Namespace, *j.ID)
		cp.JobEvaluations(*j.Namespace, *j.ID)
	}
	cp.Allocations()
	cp.Evaluations()
	cp.Nodes()
	_, err := cp.RegisterJob(&structs.JobRegistration{Job: testJob("afterwards", "service")})
	require.NoError(t, err, "%s", what)
	require.NotNil(t, cp.Job("default", "afterwards"))
	cp.CollectGarbage()
}

// megabyte is the file of a control plane that has jobs, allocations and evaluations.
func megabyte(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.db")
	s := open(t, path)
	n := testNode()
	n.Resources = structs.NodeResources{CPUMHz: 100000, Cores: 4, MemoryMB: 100000, DiskMB: 100000}
	registerNode(t, s, n)
	for i := range 110 {
		run(t, s, testJob(fmt.Sprintf("job-%d", i), "service", func(j *nomad.Job) {
			j.Meta = map[string]string{"text": strings.Repeat("x", i*8)}
		}))
	}
	require.NoError(t, s.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1<<20, len(content))
	return content
}

// damaged returns a copy of a file to which something happened.
func damaged(rng *rand.Rand, good []byte) (content []byte, what string) {
	content = bytes.Clone(good)
	page := os.Getpagesize()
	switch rng.IntN(6) {
	case 0:
		at, bit := rng.IntN(len(content)), rng.IntN(8)
		content[at] ^= 1 << bit
		return content, fmt.Sprintf("bit %d of byte %d is another", bit, at)
	case 1:
		n, seed := 1+rng.IntN(300), rng.Uint64()
		bytesAt := rand.New(rand.NewPCG(seed, 0))
		for range n {
			content[bytesAt.IntN(len(content))] = byte(bytesAt.Uint32())
		}
		return content, fmt.Sprintf("%d bytes are others (seed %d)", n, seed)
	case 2: // where the structure is
		at := rng.IntN(len(content)/page)*page + rng.IntN(64)
		content[at] = byte(rng.Uint32())
		return content, fmt.Sprintf("byte %d, in a page's header, is another", at)
	case 3:
		at := rng.IntN(len(content))
		return content[:at], fmt.Sprintf("cut at %d", at)
	case 4:
		at := rng.IntN(len(content)/page) * page
		clear(content[at : at+page])
		return content, fmt.Sprintf("the page at %d is zero", at)
	default:
		from, to := rng.IntN(len(content)/page)*page, rng.IntN(len(content)/page)*page
		copy(content[to:], content[from:from+page])
		return content, fmt.Sprintf("the page at %d is the one at %d", to, from)
	}
}

// Where nothing is left to adopt, the index goes on above what the node has heard all the same.
func TestALostMemoryIsNotTakenForAnOlderOneLater(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "server.db"))
	n := &structs.Node{ID: "n", Name: "n"}
	got, err := s.ForNode().Adopt(t.Context(), n, &structs.NodeKnowledge{ControlPlane: "lost", Index: 50})
	require.NoError(t, err)
	require.NotEmpty(t, got.Why)
	_, err = s.ForNode().Register(t.Context(), n)
	require.NoError(t, err)
	again, err := s.ForNode().Adopt(t.Context(), n, &structs.NodeKnowledge{ControlPlane: got.ControlPlane, Index: got.Index})
	require.NoError(t, err)
	require.Empty(t, again.Why)
}
