package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/structs"
)

// TestAnAgentIsUpInBoundedMemoryWhateverHappenedToItsFile damages the file of a control
// plane of 1 MB as disks do, and as would have bbolt's own check use all memory: pages that
// say they flow over into millions of others.
func TestAnAgentIsUpInBoundedMemoryWhateverHappenedToItsFile(t *testing.T) {
	const mostKiB = 256 << 10
	s := newSite(t)
	path := filepath.Join(s.data, "server.db")
	require.NoError(t, os.MkdirAll(s.data, 0o700))
	good := megabyte(t, path)
	page := os.Getpagesize()
	rng := rand.New(rand.NewPCG(5, 5))
	flip := func(b []byte) {
		for range 300 {
			b[rng.IntN(len(b))] = byte(rng.Uint32())
		}
	}
	for _, c := range []struct {
		name   string
		copied bool // there is a last good copy
		spoil  func(b []byte)
		want   string
	}{
		{"300 bytes", false, flip, "a damaged file was set aside; starting with an empty one"},
		{"300 bytes, and a copy", true, flip, "a damaged file was set aside; going on with its last good copy"},
		{"pages of millions", false, func(b []byte) {
			for at := 2 * page; at < len(b); at += page {
				copy(b[at+12:], []byte{0xFF, 0xFF, 0xFF, 0})
			}
		}, "a damaged file was set aside; starting with an empty one"},
		{"zeroed", true, func(b []byte) { clear(b[3*page:]) }, "a damaged file was set aside; going on with its last good copy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(path+".last-good"))
			if c.copied {
				write(t, path+".last-good", string(good))
			}
			spoilt := bytes.Clone(good)
			c.spoil(spoilt)
			write(t, path, string(spoilt))
			begun := time.Now()
			n := s.start(t)
			took := time.Since(begun)
			require.Contains(t, n.log.String(), c.want)
			require.Equal(t, c.copied, strings.Contains(n.out(t, "job", "status"), "job-1"))
			_, health := n.health(t)
			require.Contains(t, health, path+": "+c.want)
			memory := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(read(t, fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid)))
			require.Len(t, memory, 2)
			most, err := strconv.Atoi(memory[1])
			require.NoError(t, err)
			require.Less(t, most, mostKiB)
			t.Logf("up after %s with at most %d MiB", took, most>>10)
			require.Zero(t, n.signal(t, syscall.SIGTERM), n.log)
		})
	}
}

// megabyte makes a control plane's file of 1 MiB, of jobs that no node can run.
func megabyte(t *testing.T, path string) []byte {
	t.Helper()
	cp, err := standalone.Open(standalone.Options{Path: path})
	require.NoError(t, err)
	for i := range 100 {
		id := fmt.Sprintf("job-%d", i)
		job := nomad.NewServiceJob(id, id, "global", 50).AddDatacenter("*")
		job.Meta = map[string]string{"text": strings.Repeat("x", 1000)}
		job.AddTaskGroup(nomad.NewTaskGroup("g", 1).AddTask(nomad.NewTask("t", "none_such").Require(&nomad.Resources{CPU: ptr(1), MemoryMB: ptr(10)})))
		_, err := cp.RegisterJob(&structs.JobRegistration{Job: job})
		require.NoError(t, err)
	}
	require.NoError(t, cp.Close())
	content := read(t, path)
	require.Equal(t, 1<<20, len(content))
	return []byte(content)
}
