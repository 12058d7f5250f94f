package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/managers/catalog"
)

// ofFile is what is listed of a file of the plugin directory.
func (n *node) ofFile(t *testing.T, file string) (found catalog.PluginStatus) {
	t.Helper()
	for _, p := range n.plugins(t) {
		if filepath.Base(p.File) == file {
			found = p
		}
	}
	return found
}

func (n *node) awaitFile(t *testing.T, file string, state catalog.State) (found catalog.PluginStatus) {
	t.Helper()
	require.Eventually(t, func() bool {
		found = n.ofFile(t, file)
		return found.State == state
	}, testTimeout, tick, "waiting for %s to be %s", file, state)
	return found
}

// TestAPluginThatTakesADriversNameGetsNeitherItsGrantsNorItsJobs has another file call itself
// raw_exec: one that sorts before it, from the first start on, and after every change.
func TestAPluginThatTakesADriversNameGetsNeitherItsGrantsNorItsJobs(t *testing.T) {
	s := newSite(t)
	s.grant(t, `plugin "raw_exec" { grant { process { commands = ["/bin/sleep"] } } }`)
	wasm := driver(t, "raw_exec")
	impostor := renamed(t, wasm, "0.1.0", "6.6.6")
	s.drop(t, "aaa.wasm", impostor)
	s.drop(t, "zzz.wasm", impostor)
	n := s.start(t)
	refused := func() {
		t.Helper()
		for _, file := range []string{"aaa.wasm", "zzz.wasm"} {
			p := n.awaitFile(t, file, catalog.StateRejected)
			assert.Equal(t, `it calls itself "raw_exec", a name that the configuration gives to raw_exec.wasm; if this file is meant, write plugin "raw_exec" { file = "`+file+`" }`, p.Reason)
			assert.Empty(t, p.CapabilitiesGranted)
		}
	}
	refused()
	file := writeJob(t, "sleeper", "service", "raw_exec", `
        command = "/bin/sleep"
        args    = ["1000"]`)
	n.out(t, "job", "run", "-detach", file)
	assert.Empty(t, n.allocs(t, "sleeper"), "it waits for the driver that is meant")

	s.drop(t, "raw_exec.wasm", wasm)
	alloc := n.await(t, "sleeper", "running")
	require.Equal(t, "0.1.0", n.ofFile(t, "raw_exec.wasm").Version)
	refused()

	require.NoError(t, os.Remove(filepath.Join(s.plugins, "raw_exec.wasm")))
	n.awaitDriver(t, "raw_exec", false)
	refused()
	require.Zero(t, n.signal(t, syscall.SIGTERM))
	n = s.start(t)
	refused()
	require.False(t, strings.Contains(n.out(t, "plugin", "status"), "healthy"))
	s.drop(t, "raw_exec.wasm", renamed(t, wasm, "0.1.0", "0.1.1")) // an upgrade, and no question
	n.awaitDriver(t, "raw_exec", true)
	assert.Equal(t, alloc.ID, n.await(t, "sleeper", "running").ID)
	refused()
}

// TestSIGHUPReloadsAndNeverKills goes through what an agent does on the signal while a task
// runs.
func TestSIGHUPReloadsAndNeverKills(t *testing.T) {
	s := newSite(t, "raw_exec", "mock")
	before := read(t, s.config)
	n := s.start(t)
	reload := func(config string) string {
		t.Helper()
		write(t, s.config, config)
		return n.reload(t)
	}
	needs := n.awaitPlugin(t, "raw_exec", catalog.StateUnhealthy)
	assert.Contains(t, needs.Reason, "needs grant wasmnode:process/v1: add plugin \"raw_exec\"")

	granted := before + "plugin \"raw_exec\" { grant { process { commands = [\"/bin/sleep\"] } } }\n"
	assert.Contains(t, reload(granted), "the configuration was reloaded: changed=[\"plugin\"]")
	n.awaitDriver(t, "raw_exec", true)
	n.out(t, "job", "run", "-detach", writeJob(t, "sleeper", "service", "raw_exec", "command = \"/bin/sleep\"\nargs = [\"1000\"]"))
	alloc := n.await(t, "sleeper", "running")

	log := reload("plugin \"raw_exec\" { grunt {} }\n" + before)
	assert.Contains(t, log, "the configuration was not reloaded, the one before stays in force: configuration: ")
	assert.Contains(t, n.out(t, "plugin", "status"), "commands:/bin/sleep")
	log = reload(before + "plugin \"raw_exec\" { config { colour = 1 } }\n")
	assert.Contains(t, log, `stays in force: plugin "raw_exec": config.colour: unknown field`)

	log = reload(granted + "log_level = \"debug\"\nname = \"other\"\nrequire_pinned = false\nui { label { text = \"x\" } }\n")
	assert.Contains(t, log, "ui.label has no effect: the page names the node")
	assert.Contains(t, log, "a setting that was changed takes effect after a restart: key=name")
	assert.Contains(t, log, `changed=["log_level", "name"]`)

	log = reload(strings.Replace(granted, "client {", "client {\n  drivers { block = [\"mock_driver\"] }", 1))
	assert.Contains(t, log, "client.drivers.block")
	n.awaitDriver(t, "mock_driver", false)
	assert.Equal(t, `driver "mock_driver" is blocked by this node's configuration`, n.awaitFile(t, "mock.wasm", catalog.StateRejected).Reason)

	reload(before)
	n.awaitDriver(t, "mock_driver", true)
	needs = n.awaitPlugin(t, "raw_exec", catalog.StateUnhealthy)
	assert.Contains(t, needs.Reason, "needs grant wasmnode:process/v1")

	hangUp(t, s.supervisorPID(t))
	reload(granted)
	n.awaitDriver(t, "raw_exec", true)
	after := n.await(t, "sleeper", "running")
	assert.Equal(t, taskEvents(alloc), taskEvents(after), "the task did not notice")
}

// reload has the agent read its configuration again, and returns what it logged of that.
func (n *node) reload(t *testing.T) (log string) {
	t.Helper()
	before := len(n.log.String())
	hangUp(t, n.cmd.Process.Pid)
	require.Eventually(t, func() bool {
		log = n.log.String()[before:]
		return strings.Contains(log, "the configuration was ")
	}, testTimeout, tick)
	return log
}

func hangUp(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGHUP))
}
