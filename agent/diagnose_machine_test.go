package agent

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sandbox"
)

// TestADoctorNamesWhatAMachineLacks takes one thing after the other away from a machine that has all.
func TestADoctorNamesWhatAMachineLacks(t *testing.T) {
	for name, c := range map[string]struct {
		without func(m *features)
		want    Finding // its Text is how it begins
	}{
		"platform": {func(m *features) { m.processor = "riscv64" }, Finding{FindingFailed, "machine", "platform", "linux/riscv64: there is a compiler for", "use a machine"}},
		"instructions": {func(m *features) { m.instructions = sandbox.ErrProcessor },
			Finding{FindingFailed, "machine", "platform", "linux/amd64: the processor has no SSE4.1, .*: the API answers, and no plugin is loaded", "use a processor made since 2008"}},
		"system":    {func(m *features) { m.os = "plan9" }, Finding{FindingFailed, "machine", "platform", "plan9/amd64: there is a compiler for", "use a machine"}},
		"root":      {func(m *features) { m.uid = 1000 }, Finding{FindingWarning, "machine", "user", "this is user 1000: an agent of root's may do", "sudo wasmnode doctor"}},
		"cgroups":   {func(m *features) { m.cgroups = false }, Finding{FindingWarning, "machine", "cgroups", "no cgroup v2 hierarchy can be written to: processes are", "mount -t cgroup2"}},
		"isolation": {func(m *features) { m.isolation = errors.New("no seccomp") }, Finding{FindingWarning, "machine", "isolation", "the driver exec does not work: no seccomp", "run the agent as root"}},
		"landlock":  {func(m *features) { m.paths = errors.New("not booted") }, Finding{FindingWarning, "machine", "landlock", "processes that a plugin starts cannot be held to paths: not booted", "use Linux 6.2"}},
		"userns":    {func(m *features) { m.namespaces = false }, Finding{FindingWarning, "machine", "userns", "there are no user namespaces: container engines", "sysctl user.max"}},
		"cni": {func(m *features) { m.missingCNI = []string{"bridge", "portmap"} },
			Finding{FindingWarning, "machine", "cni", "groups with a network of mode bridge find no place: bridge, portmap is not in /opt/cni/bin", "apt install containernetworking-plugins"}},
		"time":  {func(m *features) { m.synchronized = false }, Finding{FindingWarning, "machine", "clock", "nothing keeps it right: certificates", "timedatectl"}},
		"clock": {func(m *features) { m.now = time.Unix(1, 0).UTC() }, Finding{FindingFailed, "machine", "clock", "it says 1970-01-01: certificates", "timedatectl"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := features{os: "linux", processor: "amd64", kernel: "6.2", cgroups: true, namespaces: true, cniPath: "/opt/cni/bin", now: clockEpoch, synchronized: true}
			var well, ill Findings
			well.judge(m)
			c.without(&m)
			ill.judge(m)
			require.Len(t, ill.Findings, len(well.Findings), "each is told of once")
			for i, f := range ill.Findings {
				require.Equal(t, FindingOK, well.Findings[i].Status)
				require.Empty(t, well.Findings[i].Next)
				if f.Name != c.want.Name {
					require.Equal(t, well.Findings[i], f)
					continue
				}
				require.Equal(t, [2]string{c.want.Status, c.want.Part}, [2]string{f.Status, f.Part})
				require.Regexp(t, "^"+c.want.Text, f.Text)
				require.Regexp(t, "^"+c.want.Next, f.Next)
			}
			require.Equal(t, c.want.Status == FindingFailed, ill.Failed())
		})
	}
}

// What a user's own process cannot do the machine may have.
func TestADoctorOfAUserSendsToRootsFirst(t *testing.T) {
	var d Findings
	d.judge(features{os: "linux", processor: "amd64", kernel: "6.2", uid: 1000, isolation: errors.New("only root can")})
	for _, f := range d.Findings {
		switch f.Name {
		case "cgroups":
			require.Equal(t, "user 1000 can write to no cgroup v2 hierarchy: processes are found and killed one by one, and have no limits", f.Text)
		case "user", "isolation":
		default:
			continue
		}
		require.Equal(t, "sudo wasmnode doctor", f.Next)
	}
}
