package standalone

import (
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestADeviceRequestThatNoNodeCouldMeetIsAFaultOfTheJob(t *testing.T) {
	s := open(t, "")
	for want, d := range map[string]*nomad.RequestedDevice{
		`device "": a device is asked for as "TYPE"`:           {},
		`device "a/b/c/d": a device is asked for as "TYPE"`:    {Name: "a/b/c/d"},
		`device "nvidia/": a device is asked for as "TYPE"`:    {Name: "nvidia/"},
		`device "gpu": count: there has to be at least one`:    {Name: "gpu", Count: new(uint64(0))},
		`constraint 1: Unknown constraint type "~"`:            {Name: "gpu", Constraints: []*nomad.Constraint{{LTarget: "x", Operand: "~", RTarget: "y"}}},
		`constraint 1: distinct_hosts is for jobs and groups`:  {Name: "gpu", Constraints: []*nomad.Constraint{{Operand: "distinct_hosts"}}},
		`affinity: weight: it is 101, but has to be from -100`: {Name: "gpu", Affinities: []*nomad.Affinity{{LTarget: "x", Weight: new(int8(101))}}},
		`affinity: No LTarget provided but is required`:        {Name: "gpu", Affinities: []*nomad.Affinity{{Weight: new(int8(1))}}},
		"Resources.Devices[0].Constraints[0]: it is null":      {Name: "gpu", Constraints: []*nomad.Constraint{nil}},
		"Resources.Devices[0].Affinities[0]: it is null":       {Name: "gpu", Affinities: []*nomad.Affinity{nil}},
		"Resources.Devices[0]: it is null":                     nil,
	} {
		faults, _ := s.ValidateJob(testJob("devices", "service", func(j *nomad.Job) {
			j.TaskGroups[0].Tasks[0].Resources.Devices = []*nomad.RequestedDevice{d}
		}))
		require.Len(t, faults, 1, want)
		require.Contains(t, faults[0], want)
	}
	faults, _ := s.ValidateJob(testJob("devices", "service", func(j *nomad.Job) {
		j.TaskGroups[0].Tasks[0].Resources.Devices = []*nomad.RequestedDevice{
			{Name: "gpu"}, {Name: "nvidia/gpu"}, {Name: "nvidia/gpu/GTX 1080 Ti", Count: new(uint64(3))},
			{Name: "gpu", Constraints: []*nomad.Constraint{{LTarget: "${device.attr.memory}", Operand: ">=", RTarget: "4 GiB"}}},
		}
	}))
	require.Empty(t, faults)
	faults, _ = s.ValidateJob(testJob("devices", "service", func(j *nomad.Job) {
		for range 65 {
			r := j.TaskGroups[0].Tasks[0].Resources
			r.Devices = append(r.Devices, &nomad.RequestedDevice{Name: "gpu"})
		}
	}))
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "65 blocks, the limit is 64")
}
