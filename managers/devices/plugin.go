package devices

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/catalog/owed"
	"github.com/wasmnode/wasmnode/structs"
)

// How a plugin's figures are polled. The interval that it asks for is kept within the bounds of
// fingerprints.
const (
	deviceStatsInterval = 5 * time.Second
	deviceStatsDeadline = 10 * time.Second
	maxStatsPause       = 30 * time.Minute // Nomad's
)

// plugin is one version of a device plugin. What it knows is replaced and never
// changed.
type plugin struct {
	*catalog.Unit
	m *Manager

	mu     sync.Mutex
	groups []*structs.DeviceGroup // as it answered last
	index  index                  // of groups
	stats  groupStats             // as it answered last

	statsDue      time.Time
	statsFailures int // in a row
	statsReason   string
	noStats       bool // it does not measure

	releases owed.Pace // of what is owed
}

// newPlugin returns the device plugin that a unit is.
func (m *Manager) newPlugin(u *catalog.Unit) (catalog.Kind, error) {
	return &plugin{Unit: u, m: m, noStats: !u.Plugin().Has(abi.OpDeviceStats)}, nil
}

// pluginOf returns the device plugin that a unit of the manager's registry is.
func pluginOf(u *catalog.Unit) *plugin { return u.Kind().(*plugin) }

// Fingerprint implements [catalog.Kind].
func (u *plugin) Fingerprint(ctx context.Context) (catalog.Answer, error) {
	answer := &wasmnodev1.DeviceFingerprintResponse{}
	err := u.Plugin().Invoke(ctx, host.Call{Op: abi.OpDeviceFingerprint, Request: &wasmnodev1.DeviceFingerprintRequest{}, Answer: answer})
	if err != nil {
		return catalog.Answer{}, err
	}
	groups, err := checkDevices(answer)
	if err != nil {
		return catalog.Answer{}, err
	}
	others := u.m.registry.Before(u.Unit)
	for _, g := range groups {
		if other := provider(others, g.ID); other != nil {
			return catalog.Answer{}, fmt.Errorf("%s is provided by plugin %q already; remove one of the two", g.ID, other.Name())
		}
	}
	u.mu.Lock()
	u.groups, u.index = groups, indexOf(groups)
	u.mu.Unlock()
	return catalog.Answer{Healthy: true, NextPoll: time.Duration(answer.NextPollMs) * time.Millisecond}, nil
}

// current returns the devices as they are now; what is returned is not changed.
func (u *plugin) current(now time.Time) []*structs.DeviceGroup {
	health, _ := u.Health()
	u.mu.Lock()
	known := u.groups
	u.mu.Unlock()
	switch {
	case u.isGone(health, now):
		return nil
	case health.UnconfirmedSince.IsZero():
		return known
	}
	groups := structs.CopyDeviceGroups(known)
	for _, g := range groups {
		for i := range g.Devices {
			g.Devices[i].Health, g.Devices[i].HealthDescription = structs.DeviceUnconfirmed, health.Reason
		}
	}
	return groups
}

// isGone reports whether the devices of a plugin that is in that health do not count as
// there any more.
func (u *plugin) isGone(h catalog.Health, now time.Time) bool {
	return h.Over() || !h.UnconfirmedSince.IsZero() && now.Sub(h.UnconfirmedSince) >= u.m.cfg.Grace
}

// provides reports whether a group is the plugin's, also while it is not confirmed.
func (u *plugin) provides(group structs.DeviceGroupID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.index[group] != nil
}

// Run implements [catalog.Kind]: it polls the figures, drops devices that are not confirmed,
// and sees to releases that failed.
func (u *plugin) Run(ctx context.Context) {
	var given time.Time // the UnconfirmedSince whose devices were dropped
	for ctx.Err() == nil {
		health, changed := u.Health()
		more := u.m.pending.More()
		now := time.Now()
		next := now.Add(catalog.MaxPollInterval)
		if end := health.UnconfirmedSince.Add(u.m.cfg.Grace); !health.UnconfirmedSince.IsZero() && given != health.UnconfirmedSince {
			next = earlier(next, end)
			if !now.Before(end) {
				given = health.UnconfirmedSince
				u.m.registry.Announce(u.Unit)
			}
		}
		if health.State == catalog.StateHealthy {
			next = earlier(next, u.pollStats(ctx, now))
			next = earlier(next, u.settle(ctx))
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
		case <-changed:
		case <-more:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// pollStats asks for the figures when they are due, and returns when they are next. A
// plugin that cannot answer is asked less and less often, and for ever: a device is
// not worse for want of figures.
func (u *plugin) pollStats(ctx context.Context, now time.Time) time.Time {
	u.mu.Lock()
	due, known, none := u.statsDue, u.index, u.noStats
	u.mu.Unlock()
	switch {
	case none:
		return now.Add(catalog.MaxPollInterval)
	case now.Before(due):
		return due
	}
	stats, next, err := u.askStats(ctx, known)
	if ctx.Err() != nil {
		return now.Add(catalog.MaxPollInterval)
	}
	reason := ""
	u.mu.Lock()
	switch {
	case abi.CodeOf(err) == abi.Unimplemented:
		u.noStats = true
	case err != nil:
		u.statsFailures++
		u.statsDue = time.Now().Add(catalog.Backoff(catalog.RetryPause, maxStatsPause, u.statsFailures))
		reason = catalog.OneLine(err)
	default:
		u.stats, u.statsFailures = stats, 0
		u.statsDue = time.Now().Add(next)
	}
	news := reason != u.statsReason
	u.statsReason, due = reason, u.statsDue
	u.mu.Unlock()
	if news && reason != "" {
		u.Logger().Warn("the plugin's statistics cannot be read", "reason", reason)
	}
	return due
}

func (u *plugin) askStats(ctx context.Context, known index) (groupStats, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, deviceStatsDeadline)
	defer cancel()
	answer := &wasmnodev1.DeviceStatsResponse{}
	if err := u.call(ctx, host.Call{Op: abi.OpDeviceStats, Request: &wasmnodev1.DeviceStatsRequest{}, Answer: answer}); err != nil {
		return nil, 0, err
	}
	stats, err := checkDeviceStats(answer, known, time.Now())
	next := deviceStatsInterval
	if answer.NextPollMs > 0 {
		next = min(max(time.Duration(answer.NextPollMs)*time.Millisecond, catalog.MinPollInterval), catalog.MaxPollInterval)
	}
	return stats, next, err
}

// call calls the plugin, which is kept meanwhile.
func (u *plugin) call(ctx context.Context, c host.Call) error {
	if !u.Acquire() {
		return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("device plugin %q is shutting down", u.Name()))
	}
	defer u.Release()
	return u.Plugin().Invoke(ctx, c)
}

// allStats returns copies of the figures of the devices that are still there.
func (u *plugin) allStats() []*structs.DeviceGroupStats {
	health, _ := u.Health()
	u.mu.Lock()
	stats, index := u.stats, u.index
	u.mu.Unlock()
	if u.isGone(health, time.Now()) {
		return nil
	}
	var all []*structs.DeviceGroupStats
	for id, g := range stats {
		c := &structs.DeviceGroupStats{ID: id, Devices: map[string]*structs.DeviceStats{}}
		for device, s := range g.Devices {
			if _, there := index[id][device]; there {
				c.Devices[device] = s.Copy()
			}
		}
		if index[id] != nil {
			all = append(all, c)
		}
	}
	return all
}

// statsOf returns copies of the figures of some devices.
func (u *plugin) statsOf(d structs.AllocatedDevice) *structs.DeviceGroupStats {
	u.mu.Lock()
	stats, index := u.stats[d.Group()], u.index[d.Group()]
	u.mu.Unlock()
	c := &structs.DeviceGroupStats{ID: d.Group(), Devices: map[string]*structs.DeviceStats{}}
	if stats == nil {
		return c
	}
	for _, id := range d.DeviceIDs {
		if _, there := index[id]; there && stats.Devices[id] != nil {
			c.Devices[id] = stats.Devices[id].Copy()
		}
	}
	return c
}
