package node

import (
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestTheMachineIsLookedAtAgain(t *testing.T) {
	memory, disk, address, system, fault := 1000, 1000, "10.0.0.1", "old", error(nil)
	machine := func(n *structs.Node, _ string) error {
		n.Resources.MemoryMB, n.Resources.DiskMB = memory, disk
		n.Attributes["unique.network.ip-address"], n.Attributes[bytesFree] = address, string(rune('a'+disk%26))
		if system != "" {
			n.Attributes["os.version"] = system
		}
		return fault
	}
	first := &structs.Node{Attributes: map[string]string{"driver.mock": "1"}, Resources: structs.NodeResources{CPUMHz: 5, Cores: 2}}
	require.NoError(t, machine(first, ""))
	n := &Node{logger: hclog.NewNullLogger(), self: newSelf(first), machine: machine}
	n.Refingerprint()
	require.Same(t, first, n.Structs(), "nothing has changed")

	disk = 995
	n.Refingerprint()
	require.Same(t, first, n.Structs(), "the disk has changed by less than a hundredth")

	for name, change := range map[string]func(){
		"memory":  func() { memory = 2000 },
		"disk":    func() { disk = 900 },
		"full":    func() { disk = 0 },
		"address": func() { address = "10.0.0.2" },
		"system":  func() { system = "" },
	} {
		before := n.Structs()
		change()
		n.Refingerprint()
		now := n.Structs()
		require.NotSame(t, before, now, name)
		require.Equal(t, memory, now.Resources.MemoryMB, name)
		require.Equal(t, disk, now.Resources.DiskMB, name)
		require.Equal(t, address, now.Attributes["unique.network.ip-address"], name)
		require.Equal(t, system, now.Attributes["os.version"], name)
		require.Equal(t, "1", now.Attributes["driver.mock"], "what others found stays")
		require.Equal(t, 5, now.Resources.CPUMHz)
	}
	require.NotContains(t, n.Structs().Attributes, "os.version", "what is gone is gone")

	before := n.Structs()
	memory, fault = 1, errors.New("no")
	n.Refingerprint()
	require.Same(t, before, n.Structs(), "a machine that cannot be looked at is as it was")
}

func TestWhatTheMachineHasIsTheSameAtAnyLook(t *testing.T) {
	first := &structs.Node{Name: "here"}
	dir := t.TempDir()
	require.NoError(t, fingerprint(first, dir))
	again := &structs.Node{Attributes: map[string]string{}}
	require.NoError(t, fingerprintMachine(again, dir))
	for key, value := range again.Attributes {
		if key != bytesFree {
			require.Equal(t, first.Attributes[key], value, key)
		}
	}
	require.Equal(t, first.Resources.MemoryMB, again.Resources.MemoryMB)
}
