package main

import (
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

// TestIsolatedTasksLiveAsOthersDo runs them as a user would: they end with their exit
// codes, outlive the agent, are stopped and run out of memory.
func TestIsolatedTasksLiveAsOthersDo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can isolate processes")
	}
	s := newSite(t, "exec")
	s.grant(t, `plugin "exec" {
  grant {
    process {
      commands  = ["/usr/bin/*", "/bin/*"]
      users     = ["nobody"]
      isolation = "full"
    }
  }
}`)
	n := s.start(t)
	run := func(n *node, job, kind, config string) {
		n.out(t, "job", "run", "-detach", writeJob(t, job, kind, "exec", config))
	}
	run(n, "look", "batch", `command = "sh"
		args = ["-c", "id -un; echo $$; pwd; echo $NOMAD_TASK_DIR; echo mine >/local/file && cat local/file; ls /root; true"]`)
	run(n, "stay", "service", `command = "sleep"
		args = ["1000"]`)
	run(n, "hog", "batch", `command = "tail"
		args = ["/dev/zero"]`)
	run(n, "denied", "batch", `command = "local/own"`)

	look := n.await(t, "look", "complete")
	require.Equal(t, "nobody\n1\n/\n/local\nmine\n", n.out(t, "alloc", "logs", look.ID))
	require.Contains(t, n.out(t, "alloc", "logs", "-stderr", look.ID), "'/root': No such file or directory")
	require.Contains(t, n.out(t, "alloc", "status", look.ID), "Exit Code: 0")

	hog := n.await(t, "hog", "failed")
	require.Contains(t, n.out(t, "alloc", "status", hog.ID), `Exit Code: 137, Signal: 9, Exit Message: "OOM Killed"`)
	denied := n.await(t, "denied", "failed")
	require.Contains(t, n.out(t, "alloc", "status", denied.ID),
		`command /local/own is not granted: add plugin "exec" { grant { process { commands = ["/local/own"] } } }`)

	stay := n.await(t, "stay", "running")
	n.signal(t, syscall.SIGKILL)
	n = s.start(t)
	require.Equal(t, taskEvents(stay), taskEvents(n.await(t, "stay", "running")), "nothing happened to it")
	n.out(t, "job", "stop", "stay")
	stay = n.await(t, "stay", "complete")
	require.Contains(t, n.out(t, "alloc", "status", stay.ID), "Exit Code: 130, Signal: 2")
}

// Each start of an isolated task runs this program once more, whose initialization takes many times as
// long as that: it does not wait for what it has no use for.
func TestAProcessIsIsolatedBeforeTheRestOfTheProgramIsThere(t *testing.T) {
	initialized := func(argument0 string) (packages []string) {
		cmd := exec.Command(binary)
		cmd.Args = []string{argument0, "version"}
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		out, _ := cmd.CombinedOutput() // nobody has sent it what to isolate
		for _, m := range regexp.MustCompile(`(?m)^init (\S+) @`).FindAllSubmatch(out, -1) {
			packages = append(packages, string(m[1]))
		}
		return packages
	}
	all, early := initialized("wasmnode"), initialized(isolate.Program)
	require.Contains(t, all, "net/http")
	require.Contains(t, early, "encoding/json")
	for _, late := range []string{"net/http", "github.com/wasmnode/wasmnode/sandbox", "google.golang.org/protobuf/proto"} {
		require.NotContains(t, early, late, "see the initialization of package isolate")
	}
	require.Less(t, len(early), len(all)/2)
}
