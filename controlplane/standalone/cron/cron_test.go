package cron

import (
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func block(zone string, expressions ...string) *nomad.PeriodicConfig {
	p := &nomad.PeriodicConfig{Specs: expressions}
	if zone != "" {
		p.TimeZone = &zone
	}
	p.Canonicalize()
	return p
}

func TestLaunchesFollowTheClocksOfTheirZone(t *testing.T) {
	for name, c := range map[string]struct {
		zone, expression, from string
		want                   []string
	}{
		"UTC by default": {"", "30 2 * * *", "2026-03-08T00:00:00Z",
			[]string{"2026-03-08T02:30:00Z", "2026-03-09T02:30:00Z"}},
		"a skipped hour has no launch": {"America/New_York", "30 2 * * *", "2026-03-07T02:30:00-05:00",
			[]string{"2026-03-09T02:30:00-04:00", "2026-03-10T02:30:00-04:00"}},
		"nor has its first instant": {"America/New_York", "0 2 * * *", "2026-03-07T02:00:00-05:00",
			[]string{"2026-03-09T02:00:00-04:00"}},
		"every hour, over a skipped one": {"America/New_York", "@hourly", "2026-03-08T00:59:59-05:00",
			[]string{"2026-03-08T01:00:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-08T04:00:00-04:00"}},
		"a doubled hour has two launches": {"America/New_York", "30 1 * * *", "2026-10-31T12:00:00-04:00",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00", "2026-11-02T01:30:00-05:00"}},
		"every hour, over a doubled one": {"America/New_York", "@hourly", "2026-11-01T00:00:00-04:00",
			[]string{"2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"}},
		"Berlin in spring": {"Europe/Berlin", "30 2 * * *", "2026-03-28T02:30:00+01:00",
			[]string{"2026-03-30T02:30:00+02:00"}},
		"Berlin in autumn": {"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00+02:00",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-26T02:30:00+01:00"}},
		"half an hour is skipped": {"Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00+10:30",
			[]string{"2026-10-05T02:15:00+11:00"}},
		"half an hour comes twice": {"Australia/Lord_Howe", "*/15 1 * * *", "2026-04-05T01:15:00+11:00",
			[]string{"2026-04-05T01:30:00+11:00", "2026-04-05T01:45:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T01:45:00+10:30", "2026-04-06T01:00:00+10:30"}},
		"midnight is skipped": {"America/Santiago", "@daily", "2026-09-05T12:00:00-04:00",
			[]string{"2026-09-07T00:00:00-03:00"}},
		"a zone without such clocks": {"Asia/Tokyo", "30 2 * * *", "2026-03-08T00:00:00+09:00",
			[]string{"2026-03-08T02:30:00+09:00", "2026-03-09T02:30:00+09:00"}},
		"a day that never was": {"Pacific/Apia", "0 12 * * *", "2011-12-29T12:00:00-10:00",
			[]string{"2011-12-31T12:00:00+14:00"}},
		"every second": {"", "* * * * * * *", "2026-01-01T23:59:58Z",
			[]string{"2026-01-01T23:59:59Z", "2026-01-02T00:00:00Z"}},
		"the last day of the month": {"", "0 0 L * *", "2028-02-01T00:00:00Z",
			[]string{"2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z"}},
		"six fields end with the year": {"", "0 0 1 1 * 2027", "2026-01-01T00:00:00Z",
			[]string{"2027-01-01T00:00:00Z", ""}},
		"never": {"", "0 0 31 2 *", "2026-01-01T00:00:00Z", []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			table, faults := New(block(c.zone, c.expression))
			require.Empty(t, faults)
			at, err := time.Parse(time.RFC3339, c.from)
			require.NoError(t, err)
			for _, want := range c.want {
				next := table.After(at)
				if want == "" {
					require.Zero(t, next)
					return
				}
				require.Equal(t, want, next.Format(time.RFC3339))
				at = next
			}
		})
	}
}

func TestTheEarliestOfSeveralExpressionsCounts(t *testing.T) {
	table, faults := New(block("", "0 12 * * *", "0 0 31 2 *", "0 6 * * *"))
	require.Empty(t, faults)
	at := time.Date(2026, 1, 1, 7, 0, 0, 0, time.UTC)
	for _, hour := range []int{12, 6, 12} {
		at = table.After(at)
		require.Equal(t, hour, at.Hour())
	}
}

func TestFaultsAreInNomadsWords(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*nomad.PeriodicConfig)
		want   string
	}{
		"no expression":   {func(p *nomad.PeriodicConfig) { p.Specs = nil }, "Must specify a spec"},
		"both":            {func(p *nomad.PeriodicConfig) { p.Spec = new("@daily") }, "Only cron or crons may be used"},
		"too few fields":  {func(p *nomad.PeriodicConfig) { p.Specs[0] = "* *" }, `Invalid cron spec "* *": missing field(s)`},
		"no such minute":  {func(p *nomad.PeriodicConfig) { p.Specs[0] = "60 * * * *" }, `Invalid cron spec "60 * * * *": syntax error in minute field: '60'`},
		"no such zone":    {func(p *nomad.PeriodicConfig) { p.TimeZone = new("Atlantis/Here") }, `Invalid time zone "Atlantis/Here": unknown time zone Atlantis/Here`},
		"a zone's path":   {func(p *nomad.PeriodicConfig) { p.TimeZone = new("../etc/passwd") }, `Invalid time zone "../etc/passwd": time: invalid location name`},
		"another kind":    {func(p *nomad.PeriodicConfig) { p.SpecType = new("moon") }, `Unknown periodic specification type "moon"`},
		"too many":        {func(p *nomad.PeriodicConfig) { p.Specs = make([]string, 101) }, "there are 101 expressions: at most 100 are kept"},
		"a long sentence": {func(p *nomad.PeriodicConfig) { p.Specs[0] = strings.Repeat("1,", 500) + "1 * * * *" }, "it has more than 1000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			p := block("", "@daily")
			c.change(p)
			_, faults := New(p)
			require.Len(t, faults, 1)
			require.Contains(t, faults[0], c.want)
		})
	}
}

// FuzzExpressions has any text be refused, or name instants that follow one another.
func FuzzExpressions(f *testing.F) {
	for _, seed := range []string{"@daily", "*/15 * * * * *", "0 0 L * *", "* * * * * * *", "30 2 * * MON#2", "0 0 31 2 *", "5/0 * * * *", "0 0 15W * *"} {
		f.Add(seed, "America/New_York", int64(1772953000))
		f.Add(seed, "Pacific/Apia", int64(1325203200))
	}
	f.Fuzz(func(t *testing.T, expression, zone string, unix int64) {
		table, faults := New(block(zone, expression))
		if len(faults) > 0 {
			return
		}
		const year = 365 * 24 * 3600
		from := time.Unix(unix%(200*year), 0)
		for range 3 {
			next := table.After(from)
			if next.IsZero() {
				return
			}
			if !next.After(from) {
				t.Fatalf("%q in %q: %s is not after %s", expression, zone, next, from)
			}
			from = next
		}
	})
}
