// Package cron says when a periodic job is to be launched: a pure function of its periodic
// block and of a time. It knows every time zone, also on a machine that has none installed.
package cron

import (
	"fmt"
	"time"
	_ "time/tzdata" // a small machine has no zones of its own

	"github.com/hashicorp/cronexpr"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// Bounds of a block, so that nobody makes the next launch costly to find.
const (
	maxExpressions = 100
	maxLength      = 1000 // bytes of an expression
)

// Timetable is when a job is to be launched.
type Timetable struct {
	expressions []*cronexpr.Expression
	zone        *time.Location
}

// New reads a block that was canonicalised. Its faults are in Nomad's words, a line each.
func New(p *nomad.PeriodicConfig) (t *Timetable, faults []string) {
	t = &Timetable{}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	one, many := structs.Deref(p.Spec), p.Specs
	switch {
	case one != "" && len(many) > 0:
		fault("Only cron or crons may be used")
	case one == "" && len(many) == 0:
		fault("Must specify a spec")
	case one != "":
		many = []string{one}
	case len(many) > maxExpressions:
		fault("there are %d expressions: at most %d are kept", len(many), maxExpressions)
		many = nil
	}
	if kind := structs.Deref(p.SpecType); kind != nomad.PeriodicSpecCron {
		fault("Unknown periodic specification type %q", kind)
		many = nil
	}
	var err error
	if t.zone, err = time.LoadLocation(structs.Deref(p.TimeZone)); err != nil {
		fault("Invalid time zone %q: %v", structs.Deref(p.TimeZone), err)
	}
	for _, text := range many {
		e, err := parse(text)
		if err != nil {
			fault("Invalid cron spec %q: %v", text, err)
			continue
		}
		t.expressions = append(t.expressions, e)
	}
	return t, faults
}

// parse makes the library's panics errors.
func parse(text string) (e *cronexpr.Expression, err error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("it has more than %d bytes", maxLength)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return cronexpr.Parse(text)
}

// After returns the first instant after from, to the second, that any expression names in the
// block's time zone; zero: none does. Nomad's rules hold when clocks are changed: what is named
// in an hour that is skipped is not launched that day, and in an hour that comes twice it is
// launched in both.
func (t *Timetable) After(from time.Time) (first time.Time) {
	for _, e := range t.expressions {
		if at := after(e, from.In(t.zone)); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// longestSkip is how much of a day clocks have ever left out: a zone that crosses the date
// line has no such day.
const longestSkip = 24 * time.Hour

// after asks the library, which at the edge of a skipped day answers with an instant that is
// over.
func after(e *cronexpr.Expression, from time.Time) time.Time {
	for skip := time.Duration(0); skip <= longestSkip; skip += time.Hour {
		if at := e.Next(from.Add(skip)); at.IsZero() || at.After(from) {
			return at
		}
	}
	return time.Time{}
}
