package hostinfo

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestThisMachineIsRead(t *testing.T) {
	memory, err := ReadMemory()
	require.NoError(t, err)
	require.Positive(t, memory.Free)
	require.Equal(t, memory.Total, memory.Used+memory.Available)

	disk, err := ReadDisk(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, disk.Free)
	require.LessOrEqual(t, disk.Used+disk.Free, disk.Total)
	require.LessOrEqual(t, disk.UsedPercent, 100.0)
	require.LessOrEqual(t, disk.InodesUsedPercent, 100.0)

	_, err = ReadProcessor()
	require.NoError(t, err)

	times, err := ReadTimes()
	require.NoError(t, err)
	require.NotEmpty(t, times)
	require.Equal(t, "cpu0", times[0].CPU)
	require.Positive(t, times[0].Idle)

	uptime, err := Uptime()
	require.NoError(t, err)
	require.Greater(t, uptime, time.Second)

	system := ReadSystem()
	hostname, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, hostname, system.Hostname)
	require.NotEmpty(t, system.Kernel)
}

func TestADirectoryThatIsMissingHasNoDisk(t *testing.T) {
	_, err := ReadDisk(filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "missing")
}

func TestADistributionIsNamedAsNomadsClientsNameIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  System
	}{
		{"nothing told", nil, System{}},
		{"Ubuntu", map[string]string{"os-release": "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n", "debian_version": "trixie/sid\n"}, System{Name: "ubuntu", Version: "24.04"}},
		{"Debian", map[string]string{"os-release": "ID=debian\nVERSION_ID=\"12\"\n", "debian_version": "12.5\n"}, System{Name: "debian", Version: "12.5"}},
		{"Red Hat", map[string]string{"os-release": "ID=\"rhel\"\nVERSION_ID='9.4'"}, System{Name: "redhat", Version: "9.4"}},
		{"Amazon", map[string]string{"os-release": "ID=\"amzn\"\nVERSION_ID=\"2023\""}, System{Name: "amazon", Version: "2023"}},
		{"Oracle", map[string]string{"os-release": "ID=\"ol\"\nVERSION_ID=\"9.4\""}, System{Name: "oracle", Version: "9.4"}},
		{"without a version", map[string]string{"os-release": "# rolling\nID=arch\n"}, System{Name: "arch"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			etc := t.TempDir()
			for name, text := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(etc, name), []byte(text), 0o600))
			}
			require.Equal(t, c.want, readDistribution(etc))
		})
	}
}
