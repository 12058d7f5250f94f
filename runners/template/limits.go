package template

import (
	"fmt"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// Limits are what a node says of all its templates. The zero value says nothing.
type Limits struct {
	// Wait is for those without a wait of their own.
	Wait Wait
	// WaitBounds are the least Min and the greatest Max of the others; 0: any.
	WaitBounds Wait
	// Denied are functions that no template can call, beside those that never can.
	Denied []string
}

// Wait is for how long nothing that a template is rendered from may have changed before it is
// rendered again, Min, and how long after the first change that is at the latest, Max; 0: at four
// times Min.
type Wait struct{ Min, Max time.Duration }

// Fault is why a wait cannot be; nil: it can.
func (w Wait) Fault() error {
	switch {
	case w.Min < 0 || w.Max < 0:
		return fmt.Errorf("it can't be negative: min is %v and max %v", w.Min, w.Max)
	case w.Max > 0 && w.Min > w.Max:
		return fmt.Errorf("min %v is greater than max %v", w.Min, w.Max)
	}
	return nil
}

// NewWithin checks a template block, as [New] does, for a node with limits. A wait beyond its
// bounds is the bound.
func NewWithin(block *nomad.Template, l Limits) (*Template, error) {
	t := &Template{denied: l.Denied}
	if err := t.read(block); err != nil {
		return nil, err
	}
	if block.Wait == nil {
		t.Wait, t.MaxWait = l.Wait.Min, l.Wait.Max
		if t.MaxWait == 0 {
			t.MaxWait = waitFactor * t.Wait
		}
		return t, nil
	}
	if most := l.WaitBounds.Max; most > 0 {
		t.Wait, t.MaxWait = min(t.Wait, most), min(t.MaxWait, most)
	}
	t.Wait = max(t.Wait, l.WaitBounds.Min)
	t.MaxWait = max(t.MaxWait, t.Wait)
	return t, nil
}

// denial is why a function that the node denies cannot be called; nil: it does not.
func denial(function string, denied []string) error {
	if slices.Contains(denied, function) {
		return fmt.Errorf("error calling %s: %s: the node's configuration has it in its function_denylist", function, disabled)
	}
	return nil
}
