package standalone

import (
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/cron"
)

// children finds the faults of what launches and dispatches a job's children, in Nomad's
// words.
func (v *validation) children(j *nomad.Job) {
	batch := *j.Type == nomad.JobTypeBatch || *j.Type == nomad.JobTypeSysbatch
	if p := j.Periodic; p != nil {
		if !batch {
			v.fault("Periodic can only be used with %q or %q scheduler", nomad.JobTypeBatch, nomad.JobTypeSysbatch)
		}
		if *p.Enabled { // as in Nomad: what is off may be unfinished
			_, faults := cron.New(p)
			for _, f := range faults {
				v.fault("periodic: %s", f)
			}
		}
	}
	p := j.ParameterizedJob
	if p == nil {
		return
	}
	if !batch {
		v.fault("Parameterized job can only be used with %q or %q scheduler", nomad.JobTypeBatch, nomad.JobTypeSysbatch)
	}
	if !slices.Contains([]string{payloadOptional, payloadRequired, payloadForbidden}, p.Payload) {
		v.fault("parameterized: Unknown payload requirement: %q", p.Payload)
	}
	var both []string
	for _, key := range p.MetaRequired {
		if slices.Contains(p.MetaOptional, key) {
			both = append(both, key)
		}
	}
	if len(both) > 0 {
		v.fault("parameterized: Required and optional meta keys should be disjoint. Following keys exist in both: %v", both)
	}
}
