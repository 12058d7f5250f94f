package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func deviceGroup(health ...structs.DeviceHealth) []*structs.DeviceGroup {
	g := &structs.DeviceGroup{ID: structs.DeviceGroupID{Vendor: "acme", Type: "gpu", Name: "x1"}}
	for i, h := range health {
		g.Devices = append(g.Devices, structs.Device{ID: string(rune('a' + i)), Health: h})
	}
	return []*structs.DeviceGroup{g}
}

func TestTheControlPlaneIsToldOfDevicesThatHaveChanged(t *testing.T) {
	s := newSelf(&structs.Node{Attributes: map[string]string{}})
	s.updateDevices(deviceGroup(structs.DeviceUnhealthy))
	s.updateDevices(deviceGroup(structs.DeviceHealthy))
	require.Equal(t, deviceGroup(structs.DeviceHealthy), s.get().Devices)
	<-s.changed.C()
	s.updateDevices(deviceGroup(structs.DeviceHealthy))
	require.Empty(t, s.changed.C(), "nothing has changed")
	s.updateDevices(nil)
	require.Len(t, s.changed.C(), 1)
	require.Empty(t, s.get().Devices)
}

func TestAnEventIsEmittedForEachGroupThatChanged(t *testing.T) {
	n := &structs.Node{}
	require.True(t, mergeDevices(n, deviceGroup(structs.DeviceHealthy, structs.DeviceHealthy, structs.DeviceUnhealthy)))
	require.True(t, mergeDevices(n, deviceGroup(structs.DeviceUnconfirmed, structs.DeviceUnconfirmed, structs.DeviceUnconfirmed)))
	described := deviceGroup(structs.DeviceUnconfirmed, structs.DeviceUnconfirmed, structs.DeviceUnconfirmed)
	described[0].Devices[0].HealthDescription = "restart 2 of 3"
	require.True(t, mergeDevices(n, described), "a new reason is registered, but no event")
	require.True(t, mergeDevices(n, nil))
	require.False(t, mergeDevices(n, nil))
	var messages []string
	for _, e := range n.Events {
		require.Equal(t, "Device", e.Subsystem)
		require.Equal(t, "acme/gpu/x1", e.Details["device"])
		messages = append(messages, e.Message)
	}
	require.Equal(t, []string{
		"Devices acme/gpu/x1: 2 healthy, 1 unhealthy",
		"Devices acme/gpu/x1: 3 unconfirmed",
		"Devices acme/gpu/x1: removed",
	}, messages)
}
