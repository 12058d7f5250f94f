package failpoint_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAProcessDiesAtThePointNamedAndNotBefore runs a program of both builds.
func TestAProcessDiesAtThePointNamedAndNotBefore(t *testing.T) {
	for _, c := range []struct {
		name, tags, point, log string
		killed                 bool
	}{
		{"the second time", "failpoint", "agent/b.c:2", "agent/a\nagent/b.c\nagent/a\nagent/b.c\n", true},
		{"never reached", "failpoint", "agent/b.c:4", "agent/a\nagent/b.c\nagent/a\nagent/b.c\nagent/a\nagent/b.c\n", false},
		{"another process's", "failpoint", "supervisor/b.c:2", "agent/a\nagent/b.c\nagent/a\nagent/b.c\nagent/a\nagent/b.c\n", false},
		{"an ordinary build", "", "agent/b.c:2", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			program, log := filepath.Join(dir, "program"), filepath.Join(dir, "log")
			out, err := exec.Command("go", "build", "-tags", c.tags, "-o", program, "./testdata/walk").CombinedOutput()
			require.NoError(t, err, "%s", out)
			cmd := exec.Command(program, "agent")
			cmd.Env = append(os.Environ(), "WASMNODE_FAILPOINT="+c.point, "WASMNODE_FAILPOINT_LOG="+log)
			err = cmd.Run()
			var exit *exec.ExitError
			killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
			require.Equal(t, c.killed, killed, "%v", err)
			seen, _ := os.ReadFile(log) // there is none in an ordinary build
			require.Equal(t, c.log, string(seen))

			cmd = exec.Command(program, "agent")
			cmd.Env = append(os.Environ(), "WASMNODE_FAILPOINT="+c.point, "WASMNODE_FAILPOINT_MARK="+program)
			require.NoError(t, cmd.Run(), "another has died there already")
		})
	}
}
