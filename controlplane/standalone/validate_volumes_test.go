package standalone

import (
	"fmt"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestAVolumeThatNoNodeCouldHaveIsAFaultOfTheJob(t *testing.T) {
	s := open(t, "")
	host := func(r nomad.VolumeRequest) *nomad.VolumeRequest { r.Type = "host"; return &r }
	mount := func(volume, destination string) *nomad.VolumeMount {
		return &nomad.VolumeMount{Volume: &volume, Destination: &destination}
	}
	for want, tt := range map[string]struct {
		volume *nomad.VolumeRequest
		mounts []*nomad.VolumeMount
	}{
		`group "g": volume "v": type: volume has unrecognized type "nfs": use "host"`:                                      {volume: &nomad.VolumeRequest{Type: "nfs", Source: "s"}},
		`group "g": volume "v": type: there are no CSI volumes: use one of the type "host"`:                                {volume: &nomad.VolumeRequest{Type: "csi", Source: "s"}},
		`group "g": volume "v": source: volume has an empty source`:                                                        {volume: host(nomad.VolumeRequest{})},
		`group "g": volume "v": access_mode: host volumes cannot be mounted with foo access mode`:                          {volume: host(nomad.VolumeRequest{Source: "s", AccessMode: "foo"})},
		`group "g": volume "v": attachment_mode: host volumes cannot be mounted with foo attachment mode`:                  {volume: host(nomad.VolumeRequest{Source: "s", AttachmentMode: "foo"})},
		`group "g": volume "v": access_mode: single-node-reader-only volumes must be read-only`:                            {volume: host(nomad.VolumeRequest{Source: "s", AccessMode: "single-node-reader-only"})},
		`group "g": volume "v": per_alloc: volume cannot be per_alloc and sticky at the same time`:                         {volume: host(nomad.VolumeRequest{Source: "s", PerAlloc: true, Sticky: true})},
		`TaskGroups[0].Volumes["v"]: it is null`:                                                                           {},
		`group "g": task "t": Volume Mount (0) references undefined volume w`:                                              {volume: host(nomad.VolumeRequest{Source: "s"}), mounts: []*nomad.VolumeMount{mount("w", "/x")}},
		`group "g": task "t": Volume Mount (0): destination: "a/.." is not below the task's root`:                          {volume: host(nomad.VolumeRequest{Source: "s"}), mounts: []*nomad.VolumeMount{mount("v", "a/..")}},
		`group "g": task "t": Volume Mount (1): destination: /x is that of volume mount 0`:                                 {volume: host(nomad.VolumeRequest{Source: "s"}), mounts: []*nomad.VolumeMount{mount("v", "/x"), mount("v", "x/")}},
		fmt.Sprintf(`group "g": task "t": volume_mount: a task has at most %d: this one has %d`, maxVolumes, maxVolumes+1): {volume: host(nomad.VolumeRequest{Source: "s"}), mounts: many(maxVolumes+1, mount)},
		``: {volume: host(nomad.VolumeRequest{Source: "s"}), mounts: many(maxVolumes, mount)},
	} {
		faults, _ := s.ValidateJob(testJob("volumes", "service", func(j *nomad.Job) {
			j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": tt.volume}
			j.TaskGroups[0].Tasks[0].VolumeMounts = tt.mounts
		}))
		if want == "" {
			require.Empty(t, faults)
			continue
		}
		require.Len(t, faults, 1, want)
		require.Contains(t, faults[0], want)
	}
	faults, _ := s.ValidateJob(testJob("volumes", "service", func(j *nomad.Job) {
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{}
		for i := range maxVolumes + 1 {
			j.TaskGroups[0].Volumes[fmt.Sprint(i)] = host(nomad.VolumeRequest{Source: "s"})
		}
	}))
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "volumes: a group has at most 100: this one has 101")
	for want, change := range map[string]func(*nomad.Job){
		"per_alloc: volume cannot be per_alloc for system or sysbatch jobs": func(j *nomad.Job) { j.Type = new("system") },
		"per_alloc: volume cannot be per_alloc when canaries are in use":    func(j *nomad.Job) { j.Update = &nomad.UpdateStrategy{Canary: new(1)} },
		"": func(*nomad.Job) {},
	} {
		faults, _ := s.ValidateJob(testJob("volumes", "service", change, func(j *nomad.Job) {
			j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": host(nomad.VolumeRequest{Source: "s", PerAlloc: true})}
		}))
		require.Equal(t, want != "", len(faults) == 1, faults)
		if want != "" {
			require.Contains(t, faults[0], want)
		}
	}
}

func many(n int, mount func(volume, destination string) *nomad.VolumeMount) (mounts []*nomad.VolumeMount) {
	for i := range n {
		mounts = append(mounts, mount("v", fmt.Sprint("/", i)))
	}
	return mounts
}
