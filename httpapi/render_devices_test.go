package httpapi

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestDevicesAreRenderedInNomadsShape(t *testing.T) {
	groups := []*structs.DeviceGroup{{
		ID: structs.DeviceGroupID{Vendor: "acme", Type: "gpu", Name: "x1"},
		Devices: []structs.Device{
			{ID: "a", Health: structs.DeviceHealthy, PCIBusID: "0000:01:00.0"},
			{ID: "b", Health: structs.DeviceUnhealthy, HealthDescription: "hot"},
			{ID: "c", Health: structs.DeviceUnconfirmed, HealthDescription: "restart 1 of 3"},
			{ID: "d", Health: structs.DeviceUnconfirmed},
		},
		Attributes: map[string]structs.Attribute{"memory": structs.IntAttribute(0, "GiB"), "ecc": structs.BoolAttribute(false)},
	}}
	got, err := json.Marshal(nodeDevices(groups))
	require.NoError(t, err)
	require.JSONEq(t, `[{"Vendor": "acme", "Type": "gpu", "Name": "x1",
		"Instances": [
			{"ID": "a", "Healthy": true, "HealthDescription": "", "Locality": {"PciBusID": "0000:01:00.0"}},
			{"ID": "b", "Healthy": false, "HealthDescription": "hot", "Locality": null},
			{"ID": "c", "Healthy": false, "HealthDescription": "unconfirmed: restart 1 of 3", "Locality": null},
			{"ID": "d", "Healthy": false, "HealthDescription": "unconfirmed: its plugin does not answer", "Locality": null}],
		"Attributes": {"memory": {"Int": 0, "Unit": "GiB"}, "ecc": {"Bool": false, "Unit": ""}}}]`, string(got))

	got, err = json.Marshal(allocatedDevices([]structs.AllocatedDevice{{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{"a"}}}))
	require.NoError(t, err)
	require.JSONEq(t, `[{"Vendor": "acme", "Type": "gpu", "Name": "x1", "DeviceIDs": ["a"]}]`, string(got))
	require.Nil(t, allocatedDevices(nil))
}
