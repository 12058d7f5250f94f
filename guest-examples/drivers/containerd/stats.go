package main

import (
	"context"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// metrics are figures of a container's cgroup.
type metrics struct {
	total, user, system uint64 // processor time in nanoseconds
	resident, most      uint64 // memory in bytes; most: 0 where the kernel does not tell
	oomKills            uint64
}

// metrics asks for a container's. NOT_FOUND: it has no processes.
func (c *client) metrics(id string) (metrics, error) {
	m := &message{}
	m.texts(1, []string{"id==" + id})
	answer, err := c.ask("tasks.v1.Tasks/Metrics", m)
	if err != nil {
		return metrics{}, err
	}
	data := answer.get(1, 3)
	of := data.get(2)
	switch name := data.text(1); {
	case strings.HasSuffix(name, "io.containerd.cgroups.v1.Metrics"):
		return metrics{
			total: of.number(3, 1, 1), system: of.number(3, 1, 2), user: of.number(3, 1, 3),
			resident: of.number(4, 2), most: of.number(4, 33, 3), oomKills: of.number(9, 3),
		}, nil
	case strings.HasSuffix(name, "io.containerd.cgroups.v2.Metrics"):
		return metrics{
			total: of.number(2, 1) * 1000, user: of.number(2, 2) * 1000, system: of.number(2, 3) * 1000,
			resident: of.number(4, 1), most: of.number(4, 36), oomKills: of.number(8, 5),
		}, nil
	case name == "":
		return metrics{}, abi.NewError(abi.NotFound, "the container has no figures")
	default:
		return metrics{}, abi.NewError(abi.Unimplemented, "figures of the type "+name+" are not known")
	}
}

// TaskStats asks containerd.
func (d *containerd) TaskStats(ctx context.Context, _ string, h *driver.TaskHandle) (*driver.TaskStats, error) {
	ctx, cancel := context.WithTimeout(ctx, patience.stats)
	defer cancel()
	c, id, err := d.of(ctx, h)
	if err != nil {
		return nil, err
	}
	defer c.close()
	m, err := c.metrics(id)
	if err != nil {
		return nil, err
	}
	stats := &driver.TaskStats{TimeNs: time.Now().UnixNano(), CpuTotalNs: &m.total, CpuUserNs: &m.user, CpuSystemNs: &m.system, MemoryRssBytes: &m.resident}
	if m.most > 0 {
		stats.MemoryMaxBytes = &m.most
	}
	return stats, nil
}
