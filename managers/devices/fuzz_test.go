package devices

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	pb "github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/structs"
)

// What a plugin hands over is bytes. Whatever they are, what is taken of them is
// within the bounds, and taking it twice gives the same.

func FuzzDeviceFingerprint(f *testing.F) {
	good, err := goodFingerprint().MarshalVT()
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0x00})
	f.Fuzz(func(t *testing.T, data []byte) {
		a := &pb.DeviceFingerprintResponse{}
		if a.UnmarshalVT(data) != nil {
			return
		}
		groups, err := checkDevices(a)
		if err != nil {
			require.Less(t, len(catalog.OneLine(err)), 2*catalog.MaxReason)
			return
		}
		ids := map[string]bool{}
		for _, g := range groups {
			require.NoError(t, checkName(g.ID.Vendor))
			require.NotEmpty(t, g.Devices)
			require.LessOrEqual(t, len(g.Attributes), maxGroupAttributes)
			for _, d := range g.Devices {
				require.False(t, ids[d.ID])
				ids[d.ID] = true
				require.True(t, isLine(d.HealthDescription))
			}
			for _, a := range g.Attributes {
				require.True(t, a.IsSet())
				order, ok := a.Compare(a)
				require.True(t, ok)
				require.Zero(t, order)
			}
		}
		require.LessOrEqual(t, len(ids), maxDevices)
		again, err := checkDevices(a)
		require.NoError(t, err)
		require.True(t, (&list{groups}).Same(&list{again}))
	})
}

func FuzzDeviceReservation(f *testing.F) {
	good, err := (&pb.DeviceReserveResponse{ContainerEdits: &pb.ContainerEdits{
		Env: []string{"A=b"}, DeviceNodes: []*pb.EditedDeviceNode{{Path: "/dev/acme0", Permissions: "r"}},
		Mounts: []*pb.EditedMount{{HostPath: "/srv/x", ContainerPath: "/x", Options: []string{"ro"}}},
	}}).MarshalVT()
	require.NoError(f, err)
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		a := &pb.DeviceReserveResponse{}
		if a.UnmarshalVT(data) != nil {
			return
		}
		r, err := checkReservation(a, "p", deviceGrants)
		if err != nil {
			return
		}
		require.LessOrEqual(t, max(len(r.Env), len(r.Mounts), len(r.Nodes)), maxEdits)
		require.Empty(t, a.GetContainerEdits().GetHooks())
		for _, m := range r.Mounts {
			require.True(t, deviceGrants.Mountable(m.HostPath, m.ReadOnly))
			require.NoError(t, cleanPath("", m.HostPath))
			require.NoError(t, cleanPath("", m.TaskPath))
		}
		for _, n := range r.Nodes {
			require.True(t, deviceGrants.NodeGranted(n.HostPath))
			require.NoError(t, cleanPath("", n.HostPath))
		}
	})
}

func FuzzDeviceStats(f *testing.F) {
	good, err := (&pb.DeviceStatsResponse{Groups: []*pb.DeviceGroupStats{{Id: protoGroupID(gpu), Devices: map[string]*pb.DeviceStats{
		"a": {Summary: &pb.StatValue{Value: &pb.StatValue_FloatValue{FloatValue: 0.5}, Denominator: &pb.StatValue_FloatDenominator{FloatDenominator: 1}},
			Stats: []*pb.DeviceStat{{Path: []string{"a", "b"}, Value: &pb.StatValue{Value: &pb.StatValue_StringValue{StringValue: "x"}}}}},
	}}}}).MarshalVT()
	require.NoError(f, err)
	f.Add(good)
	known := index{gpu: {"a": {}, "b": {}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		a := &pb.DeviceStatsResponse{}
		if a.UnmarshalVT(data) != nil {
			return
		}
		now := time.Unix(1000, 0)
		stats, err := checkDeviceStats(a, known, now)
		if err != nil {
			return
		}
		for id, g := range stats {
			require.Equal(t, gpu, id)
			for device, s := range g.Devices {
				require.Contains(t, known[gpu], device)
				require.False(t, s.Time.After(now))
				require.LessOrEqual(t, figures(t, s.Stats, 1), maxFigures)
			}
			require.Equal(t, g, g.Copy())
		}
	})
}

// figures counts, and sees to it that nothing is nil or too deep.
func figures(t *testing.T, o *structs.StatObject, depth int) int {
	require.LessOrEqual(t, depth, maxFigureDepth)
	n := len(o.Attributes)
	for _, v := range o.Attributes {
		require.NotNil(t, v)
	}
	for _, nested := range o.Nested {
		require.NotNil(t, nested)
		n += figures(t, nested, depth+1)
	}
	return n
}
