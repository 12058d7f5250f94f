package standalone

import (
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestCoresAndTheirPlaceAreDoneRefusedOrWarnedAbout(t *testing.T) {
	s, err := Open(Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	const at = `group "g": task "t": resources: `
	for name, c := range map[string]struct {
		driver, affinity string
		fault, warning   string
	}{
		"of a process":      {driver: "mock"},
		"of a WASI program": {driver: "wasi", warning: at + "cores: they are reserved, but a WASI program is not kept on them: only processes are"},
		"anywhere":          {driver: "mock", affinity: "none"},
		"near each other": {
			driver: "mock", affinity: "prefer",
			warning: at + "numa: affinity: it has no effect: the cores that a task gets are the lowest free ones",
		},
		"nowhere else": {
			driver: "mock", affinity: "require",
			fault: at + `numa: affinity: what "require" asks for cannot be promised: cores are given without regard to where they are`,
		},
		"in no way": {
			driver: "mock", affinity: "close",
			fault: at + `numa: affinity: Invalid affinity "close" (it is one of none, prefer, require)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			faults, warnings := s.ValidateJob(testJob("j", "service", func(j *nomad.Job) {
				task := j.TaskGroups[0].Tasks[0]
				task.Driver, task.Resources = c.driver, &nomad.Resources{Cores: new(1), MemoryMB: new(100)}
				if c.affinity != "" {
					task.Resources.NUMA = &nomad.NUMAResource{Affinity: c.affinity}
				}
			}))
			require.Equal(t, []string{c.fault}, append(faults, "")[:1])
			require.Equal(t, []string{c.warning}, append(warnings, "")[:1])
		})
	}
}
