package node

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/go-version"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// What job files for Nomad have constraints on is there, and compares as they mean it.
func TestTheNodeHasTheAttributesThatJobFilesAskFor(t *testing.T) {
	n := &structs.Node{
		Name: "here", Version: "0.1.0-7-gabcdef", HTTPAddress: "127.0.0.1:4646",
		Reserved: structs.NodeResources{CPUMHz: 100},
	}
	require.NoError(t, fingerprint(n, t.TempDir()))
	a := n.Attributes
	claimed, err := version.NewSemver(a["nomad.version"])
	require.NoError(t, err)
	atLeast, err := version.NewConstraint(">= 1.5")
	require.NoError(t, err)
	require.True(t, atLeast.Check(claimed))
	require.Equal(t, n.Version, a["wasmnode.version"])
	require.Equal(t, "linux", a["kernel.name"])
	if runtime.GOARCH == "amd64" {
		require.Equal(t, "x86_64", a["kernel.arch"])
	}
	signals := strings.Split(a["os.signals"], ",")
	require.Subset(t, signals, []string{"SIGHUP", "SIGINT", "SIGTERM", "SIGKILL", "SIGUSR1", "SIGSYS"})
	require.Equal(t, "127.0.0.1:4646", a["unique.advertise.address"])
	require.Equal(t, strconv.Itoa(runtime.NumCPU()), a["cpu.reservablecores"])
	total, err := strconv.Atoi(a["cpu.totalcompute"])
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(total-100), a["cpu.usablecompute"])
	count, err := strconv.Atoi(a["numa.node.count"])
	require.NoError(t, err)
	require.Positive(t, count)
	require.Contains(t, a, "os.name")
	for key, value := range a {
		require.NotEmpty(t, value, key)
	}
}
