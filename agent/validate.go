package agent

import (
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone"
)

// ValidateJob returns what any agent would find wrong with a job, and its warnings, without one:
// nothing is known of a machine, and no driver is asked. It canonicalises the job.
func ValidateJob(job *nomad.Job) (faults, warnings []string) { return standalone.ValidateJob(job) }
