package standalone

import (
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestAffinitiesAndSpreadsThatAskForNothingThatCanBeAreFaults(t *testing.T) {
	spread := func(weight int8, targets ...*nomad.SpreadTarget) func(*nomad.Job) {
		return func(j *nomad.Job) {
			j.Spreads = []*nomad.Spread{{Attribute: "${node.datacenter}", Weight: &weight, SpreadTarget: targets}}
		}
	}
	affinity := func(op, value string, weight int8) func(*nomad.Job) {
		return func(j *nomad.Job) {
			j.TaskGroups[0].Affinities = []*nomad.Affinity{{LTarget: "${node.class}", Operand: op, RTarget: value, Weight: &weight}}
		}
	}
	for name, c := range map[string]struct {
		kind   string
		change func(*nomad.Job)
		fault  string
	}{
		"right":             {"service", affinity("=", "big", -100), ""},
		"a spread":          {"service", spread(100, &nomad.SpreadTarget{Value: "a", Percent: 60}, &nomad.SpreadTarget{Value: "b", Percent: 40}), ""},
		"weight 0":          {"service", affinity("=", "big", 0), `group "g": affinity: weight: it is 0, but has to be from -100 to 100 and not 0`},
		"weight 101":        {"service", affinity("=", "big", 101), `group "g": affinity: weight: it is 101, but has to be from -100 to 100 and not 0`},
		"no such operator":  {"service", affinity("~", "big", 1), `group "g": affinity: Unknown constraint type "~"`},
		"not an expression": {"service", affinity("regexp", "(", 1), "group \"g\": affinity: Regular expression failed to compile: error parsing regexp: missing closing ): `(`"},
		"of a system job":   {"system", affinity("=", "big", 1), `group "g": System jobs may not have an affinity block`},
		"spread of system":  {"sysbatch", spread(1), "System jobs may not have a spread block"},
		"spread's weight":   {"service", spread(-1), "spread: weight: Spread stanza must have a positive weight from 0 to 100: it is -1"},
		"more than all":     {"service", spread(1, &nomad.SpreadTarget{Value: "a", Percent: 60}, &nomad.SpreadTarget{Value: "b", Percent: 41}), "spread: Sum of spread target percentages must not be greater than 100%; got 101%"},
		"a target twice":    {"service", spread(1, &nomad.SpreadTarget{Value: "a", Percent: 6}, &nomad.SpreadTarget{Value: "a", Percent: 4}), `spread: Spread target value "a" already defined`},
	} {
		t.Run(name, func(t *testing.T) {
			s := withNode(t, "")
			j := testJob("j", c.kind)
			c.change(j)
			faults, _ := s.ValidateJob(j)
			if c.fault == "" {
				require.Empty(t, faults)
			} else {
				require.Equal(t, []string{c.fault}, faults)
			}
		})
	}
}
