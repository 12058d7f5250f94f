package standalone_test

import (
	"path/filepath"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/node/controlplanetest"
	"github.com/wasmnode/wasmnode/structs"
)

var _ httpapi.ControlPlane = (*standalone.ControlPlane)(nil)

func TestTheEmbeddedControlPlaneConforms(t *testing.T) {
	controlplanetest.Run(t, func(t *testing.T) controlplanetest.Plane {
		s, err := standalone.Open(standalone.Options{Path: filepath.Join(t.TempDir(), "server.db")})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		job := "" // the last that was placed
		return controlplanetest.Plane{
			ControlPlane: s.ForNode(),
			Place: func(t *testing.T) string {
				job += "x"
				name := job
				_, err := s.RegisterJob(&structs.JobRegistration{Job: &nomad.Job{
					ID: &name, Type: new("batch"),
					TaskGroups: []*nomad.TaskGroup{{Name: new("g"), Tasks: []*nomad.Task{{Name: "t", Driver: "mock"}}}},
				}})
				require.NoError(t, err)
				list := s.JobAllocations("default", job)
				require.Len(t, list, 1)
				return list[0].ID
			},
			Stop: func(t *testing.T, _ string) {
				_, err := s.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: job})
				require.NoError(t, err)
			},
			Status: func(_ *testing.T, id string) structs.ClientStatus { return s.Allocation(id).ClientStatus },
		}
	})
}
