package ui

import (
	"fmt"
	"strings"
	"time"
)

// pluginStatus is a plugin file, as the API tells it.
type pluginStatus struct {
	Name, Type, Version, State, Reason, WouldGrant, Digest, SignedBy, File string
	CapabilitiesImported, CapabilitiesGranted                              []string
	Since                                                                  time.Time
	Stats                                                                  struct {
		Calls, Denied, OutOfTime, OutOfMemory, MemoryBytes, Instances uint64
		Faults                                                        map[string]uint64
		NotGranted                                                    []string
		GuestTime                                                     time.Duration
		AtRest, AtWork                                                int
		Took                                                          []callsWithin
	}
	// Rate is how many calls it had each second, and OwnTime how long each was in its own code, in
	// microseconds, since somebody looks; nil: that is not known yet.
	Rate, OwnTime *spark
}

// callsWithin is how many calls took at most so long, and more than the bound before; of the last,
// Within is zero.
type callsWithin struct {
	Within time.Duration
	Calls  uint64
}

// Base is the file's own name.
func (p pluginStatus) Base() string { return p.File[strings.LastIndexByte(p.File, '/')+1:] }

// Missing are the capabilities that it imports and was not granted. What is granted has its bounds
// behind its name.
func (p pluginStatus) Missing() (names []string) {
	granted := map[string]bool{}
	for _, c := range p.CapabilitiesGranted {
		name, _, _ := strings.Cut(c, "(")
		granted[name] = true
	}
	for _, c := range p.CapabilitiesImported {
		if !granted[c] {
			names = append(names, c)
		}
	}
	return names
}

// InOwnCode is how long its calls were in its own code, as people read it.
func (p pluginStatus) InOwnCode() time.Duration {
	return p.Stats.GuestTime.Round(100 * time.Microsecond)
}

func (s *site) plugins(a *asker) (*view, error) {
	var all []pluginStatus
	if _, err := a.get(&all, path("agent", "plugins"), nil); err != nil {
		return nil, err
	}
	for i := range all {
		p := &all[i]
		before := s.add(a, "plugin "+p.File, float64(p.Stats.Calls), float64(p.Stats.GuestTime.Microseconds()))
		p.Rate, p.OwnTime = sparkOf(rates(before), "calls a second", first), sparkOf(rates(before), "µs of its own for each call", second)
	}
	return &view{template: "plugins", Title: "Plugins", Section: "plugins", Poll: poll, Body: all, JSON: a.asked}, nil
}

// columns are the bars of a picture, and what they say in words.
type columns struct {
	Bars  []bar
	Words string
}

// bar is one of them, as SVG has it.
type bar struct{ X, Y, Width, Height int }

// The size of the picture that bars are drawn in.
const (
	barsWidth, barsHeight = 120, 40
	barWidth              = 14 // of which there is room for 8
)

// Latency draws how long its calls took; nil: there were none.
func (p pluginStatus) Latency() *columns {
	most, words := uint64(0), []string{}
	for i, t := range p.Stats.Took {
		most = max(most, t.Calls)
		switch {
		case t.Calls == 0:
		case t.Within > 0:
			words = append(words, fmt.Sprintf("%d within %v", t.Calls, t.Within))
		case i > 0:
			words = append(words, fmt.Sprintf("%d longer than %v", t.Calls, p.Stats.Took[i-1].Within))
		}
	}
	if most == 0 {
		return nil
	}
	out := &columns{Words: strings.Join(words, ", ")}
	for i, t := range p.Stats.Took {
		height := int(uint64(barsHeight) * t.Calls / most)
		if t.Calls > 0 {
			height = max(1, height)
		}
		out.Bars = append(out.Bars, bar{i * barsWidth / len(p.Stats.Took), barsHeight - height, barWidth, height})
	}
	return out
}
