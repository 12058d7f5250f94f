package managers

import (
	"context"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/structs"
)

// How a plugin's figures are polled. Its own wish is kept within the bounds of
// fingerprints.
const (
	deviceStatsInterval = 5 * time.Second
	deviceStatsDeadline = 10 * time.Second
	maxStatsPause       = 30 * time.Minute // Nomad's
)

// deviceUnit is one version of a device plugin. The unit's mu guards what it knows,
// which is replaced and never changed.
type deviceUnit struct {
	*unit
	m *DeviceManager

	groups []*structs.DeviceGroup // as it answered last
	index  deviceIndex            // of groups
	stats  groupStats             // as it answered last

	statsDue      time.Time
	statsFailures int // in a row
	statsReason   string
	noStats       bool // it does not measure

	releasesDue     time.Time // when what is owed may be tried again
	releaseFailures int       // of what is owed, in a row
}

func newDeviceUnit(m *DeviceManager, c candidate) (*deviceUnit, error) {
	u, err := newUnit(&m.fleet, c)
	if err != nil {
		return nil, err
	}
	d := &deviceUnit{unit: u, m: m, noStats: !c.plugin.Has(abi.OpDeviceStats)}
	u.kind = d
	return d, nil
}

// deviceOf returns the device plugin that a unit of the device manager's fleet is.
func deviceOf(u *unit) *deviceUnit { return u.kind.(*deviceUnit) }

// fingerprint implements kind.
func (u *deviceUnit) fingerprint(ctx context.Context) (answered, error) {
	answer := &wasmnodev1.DeviceFingerprintResponse{}
	err := u.plugin.Call(ctx, Call{Op: abi.OpDeviceFingerprint, Request: &wasmnodev1.DeviceFingerprintRequest{}, Answer: answer})
	if err != nil {
		return answered{}, err
	}
	groups, err := checkDevices(answer)
	if err != nil {
		return answered{}, err
	}
	others := u.m.fleet.before(u.unit)
	for _, g := range groups {
		if other := provider(others, g.ID); other != nil {
			return answered{}, fmt.Errorf("%s is provided by plugin %q already; remove one of the two", g.ID, other.name)
		}
	}
	u.mu.Lock()
	u.groups, u.index = groups, indexOf(groups)
	u.mu.Unlock()
	return answered{healthy: true, next: time.Duration(answer.NextPollMs) * time.Millisecond}, nil
}

// current returns the devices as they stand now; what is returned is not changed.
func (u *deviceUnit) current(now time.Time) []*structs.DeviceGroup {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.isGone(now):
		return nil
	case u.life.doubted.IsZero():
		return u.groups
	}
	groups := structs.CopyDeviceGroups(u.groups)
	for _, g := range groups {
		for i := range g.Devices {
			g.Devices[i].Health, g.Devices[i].HealthDescription = structs.DeviceUnconfirmed, u.life.reason
		}
	}
	return groups
}

// isGone reports whether the plugin's devices do not count as there any more. The
// caller holds mu.
func (u *deviceUnit) isGone(now time.Time) bool {
	return u.life.over() || !u.life.doubted.IsZero() && now.Sub(u.life.doubted) >= u.m.cfg.Grace
}

// provides reports whether a group is the plugin's, also while it is in doubt.
func (u *deviceUnit) provides(group structs.DeviceGroupID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.index[group] != nil
}

// attend implements kind: it polls the figures, gives devices up that nobody confirms,
// and sees to releases that failed.
func (u *deviceUnit) attend(ctx context.Context) {
	var given time.Time // the doubt whose devices were given up
	for ctx.Err() == nil {
		u.mu.Lock()
		l, moved := u.life, u.moved
		u.mu.Unlock()
		more := u.m.owed.more()
		now := time.Now()
		next := now.Add(maxPollInterval)
		if end := l.doubted.Add(u.m.cfg.Grace); !l.doubted.IsZero() && given != l.doubted {
			next = earlier(next, end)
			if !now.Before(end) {
				given = l.doubted
				u.fleet.announce(u.unit)
			}
		}
		if l.state == StateHealthy {
			next = earlier(next, u.pollStats(ctx, now))
			next = earlier(next, u.settle(ctx))
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
		case <-moved:
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
func (u *deviceUnit) pollStats(ctx context.Context, now time.Time) time.Time {
	u.mu.Lock()
	due, known, none := u.statsDue, u.index, u.noStats
	u.mu.Unlock()
	switch {
	case none:
		return now.Add(maxPollInterval)
	case now.Before(due):
		return due
	}
	stats, wish, err := u.askStats(ctx, known)
	if ctx.Err() != nil {
		return now.Add(maxPollInterval)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	reason := ""
	switch {
	case abi.CodeOf(err) == abi.Unimplemented:
		u.noStats = true
	case err != nil:
		u.statsFailures++
		u.statsDue = time.Now().Add(backoff(retryPause, maxStatsPause, u.statsFailures))
		reason = oneLine(err)
	default:
		u.stats, u.statsFailures = stats, 0
		u.statsDue = time.Now().Add(wish)
	}
	if reason != "" && reason != u.statsReason {
		u.logger.Warn("the plugin's figures cannot be had", "reason", reason)
	}
	u.statsReason = reason
	return u.statsDue
}

func (u *deviceUnit) askStats(ctx context.Context, known deviceIndex) (groupStats, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, deviceStatsDeadline)
	defer cancel()
	answer := &wasmnodev1.DeviceStatsResponse{}
	if err := u.call(ctx, Call{Op: abi.OpDeviceStats, Request: &wasmnodev1.DeviceStatsRequest{}, Answer: answer}); err != nil {
		return nil, 0, err
	}
	stats, err := checkDeviceStats(answer, known, time.Now())
	wish := deviceStatsInterval
	if answer.NextPollMs > 0 {
		wish = min(max(time.Duration(answer.NextPollMs)*time.Millisecond, minPollInterval), maxPollInterval)
	}
	return stats, wish, err
}

// call calls the plugin, which is kept meanwhile.
func (u *deviceUnit) call(ctx context.Context, c Call) error {
	if !u.acquire() {
		return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("device plugin %q is going", u.name))
	}
	defer u.release()
	return u.plugin.Call(ctx, c)
}

// allStats returns copies of the figures of the devices that are still there.
func (u *deviceUnit) allStats() []*structs.DeviceGroupStats {
	u.mu.Lock()
	stats, index, gone := u.stats, u.index, u.isGone(time.Now())
	u.mu.Unlock()
	if gone {
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
func (u *deviceUnit) statsOf(d structs.AllocatedDevice) *structs.DeviceGroupStats {
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
