package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// deviceSite is a node whose devices are the files in a directory.
type deviceSite struct {
	*site
	devices string
	module  string
}

func newDeviceSite(t *testing.T) *deviceSite {
	t.Helper()
	s := &deviceSite{site: newSite(t, "wasi"), devices: t.TempDir()}
	s.drop(t, "example.wasm", guestbuild.Plugin(t, "guest-examples/devices/example"))
	s.module = s.program(t, "files")
	write(t, s.config, read(t, s.config)+fmt.Sprintf(
		"plugin \"example\" {\n config {\n dir = %q\n}\n grant { fs { read_only = [%q] } }\n}\n", s.devices, s.devices))
	return s
}

// plug makes a device.
func (s *deviceSite) plug(t *testing.T, name, content string) {
	t.Helper()
	write(t, filepath.Join(s.devices, name), content)
}

// job is a job whose task says what device it sees and then sleeps.
func (s *deviceSite) job(t *testing.T, id string, device string) string {
	t.Helper()
	text := read(t, writeJob(t, id, "service", "wasi", fmt.Sprintf(
		"module = %q\nargs = [\"env:EXAMPLE_DEVICES\", \"list:/devices\", \"read:/devices/one\", \"sleep:1h\"]", s.module)))
	text = strings.Replace(text, "memory = 32\n", "memory = 32\n"+device+"\n", 1)
	return write(t, filepath.Join(t.TempDir(), id+".nomad.hcl"), text)
}

const oneDevice = `device "nomad/file/mock" { count = 1 }`

// TestADeviceIsOneTasksFromPlugToUnplug gives a device to a task, restarts the agent in
// every way, lets a second job wait for it, and takes it away.
func TestADeviceIsOneTasksFromPlugToUnplug(t *testing.T) {
	s := newDeviceSite(t)
	s.plug(t, "one", "I am a device")
	n := s.start(t)
	n.awaitPlugin(t, "example", catalog.StateHealthy)
	assert.Regexp(t, `nomad/file/mock\[one\] +true`, n.out(t, "node", "status", "-self"))

	n.out(t, "job", "run", s.job(t, "first", oneDevice))
	first := n.await(t, "first", "running")
	seen := func(n *node) bool {
		return n.out(t, "alloc", "logs", first.ID) == "one\none\nI am a device\n"
	}
	require.Eventually(t, func() bool { return seen(n) }, testTimeout, tick, "from inside the running task")
	assert.Contains(t, n.out(t, "alloc", "status", first.ID), "nomad/file/mock[one]")

	blocked := n.run(t, "job", "run", s.job(t, "second", oneDevice))
	require.Equal(t, notPlaced, blocked.code, blocked)
	assert.Contains(t, blocked.stdout, `devices: nomad/file/mock: 1 asked for, 0 free`)
	missing := n.run(t, "job", "run", s.job(t, "third", `device "nomad/file/other" {}`))
	require.Equal(t, notPlaced, missing.code, missing)
	assert.Contains(t, missing.stdout, `Constraint "missing devices"`)

	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		n.signal(t, signal)
		n = s.start(t)
		again := n.await(t, "first", "running")
		require.Equal(t, first.ID, again.ID)
		require.Len(t, again.TaskStates["task"].Events, len(first.TaskStates["task"].Events), "an agent's end changes nothing")
		require.Empty(t, n.allocs(t, "second"), "the device is still taken")
	}

	n.out(t, "job", "stop", "first")
	n.await(t, "first", "complete")
	second := n.await(t, "second", "running")
	assert.Contains(t, n.out(t, "alloc", "status", second.ID), "nomad/file/mock[one]")

	require.NoError(t, os.Remove(filepath.Join(s.devices, "one")))
	require.Eventually(t, func() bool {
		return !strings.Contains(n.out(t, "node", "status", "-self"), "nomad/file/mock[one]")
	}, testTimeout, tick)
	assert.Contains(t, n.out(t, "node", "status", "-self"), "Devices nomad/file/mock: removed")
	require.Equal(t, "running", n.await(t, "second", "running").ClientStatus, "who has it keeps running")
	require.Equal(t, notPlaced, n.run(t, "job", "run", s.job(t, "fourth", oneDevice)).code)
	s.plug(t, "two", "")
	require.Eventually(t, func() bool {
		return regexp.MustCompile(`nomad/file/mock\[two\] +false +the file is empty`).MatchString(n.out(t, "node", "status", "-self"))
	}, testTimeout, tick)
	require.Empty(t, n.allocs(t, "fourth"), "an unhealthy device is given to nobody")
	s.plug(t, "two", "I am another")
	n.awaitAlloc(t, "fourth", func(*nomad.AllocationListStub) bool { return true })
}

// TestFiguresOfDevicesAreThoseOfTheTasksThatHaveThem reads figures as people do.
func TestFiguresOfDevicesAreThoseOfTheTasksThatHaveThem(t *testing.T) {
	s := newDeviceSite(t)
	s.plug(t, "one", "12345")
	s.plug(t, "two", "1234567890")
	n := s.start(t)
	n.out(t, "job", "run", s.job(t, "user", oneDevice))
	alloc := n.await(t, "user", "running")
	require.Eventually(t, func() bool {
		return strings.Contains(n.out(t, "node", "status", "-self", "-stats"), "Device Stats")
	}, testTimeout, tick)
	host := n.out(t, "node", "status", "-self", "-stats")
	assert.Regexp(t, `nomad/file/mock\[one\] += 5 B`, host)
	assert.Regexp(t, `nomad/file/mock\[two\] += 10 B`, host)
	status := n.out(t, "alloc", "status", "-stats", "-verbose", alloc.ID)
	assert.Regexp(t, `nomad/file/mock\[one\] += 5 B`, status)
	assert.Regexp(t, `file.size += 5 B`, status)
	assert.NotContains(t, status, "[two]")
}
