package standalone

import (
	"fmt"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// affinities checks what a job would have of its nodes. Weights are -100 to 100, as in
// Nomad.
func (v *validation) affinities(list []*nomad.Affinity) {
	for i, a := range list {
		v.in(numbered("affinity", i, len(list)), func() { v.affinity(a) })
	}
}

func (v *validation) affinity(a *nomad.Affinity) {
	if w := structs.Deref(a.Weight); a.Weight != nil && (w == 0 || w < -100 || w > 100) {
		v.fault("weight: it is %d, but has to be from -100 to 100 and not 0", w)
		return
	}
	if a.LTarget == "" {
		v.fault("No LTarget provided but is required by affinity")
		return
	}
	if a.Operand == "" {
		v.fault("Missing affinity operand")
		return
	}
	v.constraint(&nomad.Constraint{LTarget: a.LTarget, RTarget: a.RTarget, Operand: a.Operand}, false)
}

// numbered names a block of a list that has no names: with its number if there are others.
func numbered(block string, i, of int) string {
	if of == 1 {
		return block
	}
	return fmt.Sprintf("%s %d", block, i+1)
}

// spreads checks by what a group's allocations are to be spread.
func (v *validation) spreads(list []*nomad.Spread) {
	for i, sp := range list {
		v.in(numbered("spread", i, len(list)), func() { v.spread(sp) })
	}
}

func (v *validation) spread(sp *nomad.Spread) {
	if sp.Attribute == "" {
		v.fault("Missing spread attribute")
	}
	if w := structs.Deref(sp.Weight); sp.Weight != nil && (w <= 0 || w > 100) {
		v.fault("weight: Spread stanza must have a positive weight from 0 to 100: it is %d", w)
	}
	seen, total := map[string]bool{}, 0
	for _, target := range sp.SpreadTarget {
		if seen[target.Value] {
			v.fault("Spread target value %q already defined", target.Value)
		}
		seen[target.Value] = true
		if target.Percent > 100 {
			v.fault("Spread target percentage for value %q must be between 0 and 100", target.Value)
		}
		total += int(target.Percent)
	}
	if total > 100 {
		v.fault("Sum of spread target percentages must not be greater than 100%%; got %d%%", total)
	}
}

// ranking checks what of a job says which of its nodes suit best. What runs on every node
// has no choice.
func (v *validation) ranking(j *nomad.Job, affinities []*nomad.Affinity, spreads []*nomad.Spread) {
	perNode := schedule.PerNode(j)
	if perNode && len(affinities) > 0 {
		v.fault("System jobs may not have an affinity block")
	}
	if perNode && len(spreads) > 0 {
		v.fault("System jobs may not have a spread block")
	}
	v.affinities(affinities)
	v.spreads(spreads)
}
