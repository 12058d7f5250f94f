package httpapi

import (
	"net/http"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/jobspec"
)

// validateJob tells every fault of a job, also those that its drivers find in what it
// configures them with: a job that is registered would be told of those when it starts.
func (h *handler) validateJob(r *http.Request) (any, error) {
	req, unknown, err := h.readProposal(r)
	if err != nil {
		return nil, err
	}
	faults, warnings := h.ControlPlane.ValidateJob(req.Job)
	return jobspec.Validation(req.Job, faults, append(warnings, unknown...), h.Node.CheckDriverConfig), nil
}

// readProposal reads a request about a job that it does not register: to plan it or, with no
// more than the job, to validate it. It returns what is unknown in the job, too.
func (h *handler) readProposal(r *http.Request) (req *nomad.JobPlanRequest, unknown []string, err error) {
	req = new(nomad.JobPlanRequest)
	if unknown, err = decodeJob(r, req); err != nil {
		return nil, nil, err
	}
	if err := h.checkRegion(req.Region); err != nil {
		return nil, nil, err
	}
	return req, unknown, h.checkJob(r, req.Job)
}

// driverWarnings is what the drivers refuse of a job that is registered all the same, as
// Nomad's servers do: a driver may be another one when the task starts.
func (h *handler) driverWarnings(job *nomad.Job) []string {
	warnings, _ := h.driverFindings(job)
	return warnings
}

// driverFindings is what driverWarnings is, and which tasks' configuration no driver has checked.
func (h *handler) driverFindings(job *nomad.Job) (warnings, unchecked []string) {
	warnings, unchecked = jobspec.DriverFaults(job, h.Node.CheckDriverConfig)
	for i := range warnings {
		warnings[i] += " (the task cannot start with this)"
	}
	return warnings, unchecked
}
