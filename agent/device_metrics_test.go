package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestDeviceMetricsHaveUnitsAndBounds(t *testing.T) {
	id := structs.DeviceGroupID{Vendor: "acme", Type: "gpu", Name: "x1"}
	used, text := int64(3), "cold"
	m := deviceMetrics{
		func() []*structs.DeviceGroup {
			return []*structs.DeviceGroup{{ID: id, Devices: []structs.Device{{ID: "a", Health: structs.DeviceHealthy}, {ID: "b", Health: structs.DeviceUnconfirmed}}}}
		},
		func() []*structs.DeviceGroupStats {
			return []*structs.DeviceGroupStats{{ID: id, Devices: map[string]*structs.DeviceStats{
				"a": {Summary: &structs.StatValue{Int: &used, Unit: "MiB"}},
				"b": {Summary: &structs.StatValue{String: &text}},
				"c": {},
			}}}
		},
	}
	require.NoError(t, testutil.CollectAndCompare(m, strings.NewReader(`
# HELP wasmnode_device_summary The most significant figure of a device, in the unit given: B, B/s, Hz, W, V, s, C, % or rpm.
# TYPE wasmnode_device_summary gauge
wasmnode_device_summary{device="a",group="acme/gpu/x1",unit="B"} 3.145728e+06
# HELP wasmnode_devices Devices of the node, by group and health.
# TYPE wasmnode_devices gauge
wasmnode_devices{group="acme/gpu/x1",health="healthy"} 1
wasmnode_devices{group="acme/gpu/x1",health="unconfirmed"} 1
wasmnode_devices{group="acme/gpu/x1",health="unhealthy"} 0
`)))

	many := &structs.DeviceGroupStats{ID: id, Devices: map[string]*structs.DeviceStats{}}
	for i := range 2 * maxDeviceSeries {
		many.Devices[fmt.Sprint(i)] = &structs.DeviceStats{Summary: &structs.StatValue{Int: &used}}
	}
	m.stats = func() []*structs.DeviceGroupStats { return []*structs.DeviceGroupStats{many} }
	require.Equal(t, maxDeviceSeries, testutil.CollectAndCount(m, "wasmnode_device_summary"))
}
