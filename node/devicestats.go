package node

import "github.com/wasmnode/wasmnode/structs"

// deviceStats are the newest figures of the devices that a task was given. What has none
// is left out. Its cost is that of the devices given.
func (n *Node) deviceStats(given []structs.AllocatedDevice) (all []*structs.DeviceGroupStats) {
	if n.cfg.Devices == nil {
		return nil
	}
	for _, d := range given {
		g, err := n.cfg.Devices.DeviceStats(d)
		if err != nil {
			n.logger.Debug("no statistics of a device", "error", err)
			continue
		}
		if len(g.Devices) > 0 {
			all = append(all, g)
		}
	}
	return all
}
