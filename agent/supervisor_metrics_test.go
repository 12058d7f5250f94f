package agent

import (
	"bufio"
	"os"
	"os/exec"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestTheMemoryOfTheSupervisorIsItsOwn(t *testing.T) {
	cmd := exec.Command("sh", "-c", "x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo; read line", "-data-dir=/here")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid := cmd.Process.Pid
	of := func(pid int, data string) int {
		return testutil.CollectAndCount(supervisorMetrics{func() int { return pid }, data})
	}
	require.Equal(t, 1, of(pid, "/here"))
	require.Greater(t, testutil.ToFloat64(supervisorMetrics{func() int { return pid }, "/here"}), 20e6)
	require.Zero(t, of(pid, "/there"), "a process that has the number of a supervisor that ended")
	require.Zero(t, of(os.Getpid(), "/here"))
	require.Zero(t, of(0, "/here"), "no supervisor")
	require.NoError(t, in.Close())
	_ = cmd.Wait() // there was no line to read
	require.Zero(t, of(pid, "/here"), "it has ended")
}
