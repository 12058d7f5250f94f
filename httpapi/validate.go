package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// validateJob tells every fault of a job, also those that its drivers find in what it
// configures them with: a job that is registered would be told of those when it starts.
func (h *handler) validateJob(r *http.Request) (any, error) {
	req, unknown, err := h.readProposal(r)
	if err != nil {
		return nil, err
	}
	faults, warnings := h.ControlPlane.ValidateJob(req.Job)
	asked := len(faults) == 0
	if asked {
		var unchecked []string
		faults, unchecked = h.driverFaults(req.Job)
		warnings, asked = append(warnings, unchecked...), len(unchecked) == 0
	}
	return &nomad.JobValidateResponse{
		DriverConfigValidated: asked,
		ValidationErrors:      faults,
		Error:                 strings.Join(faults, "\n"),
		Warnings:              warningText(append(warnings, unknown...)),
	}, nil
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

// driverFaults is what the drivers refuse of a valid job, and what could not be checked
// because a driver is not here.
func (h *handler) driverFaults(job *nomad.Job) (faults, unchecked []string) {
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			err := h.Node.CheckDriverConfig(t.Driver, t.Config)
			where := fmt.Sprintf("group %q: task %q", structs.Deref(g.Name), t.Name)
			switch {
			case err == nil, refers(t.Config):
			case errdefs.ClassOf(err) == errdefs.Unavailable:
				unchecked = append(unchecked, fmt.Sprintf("%s: its config was not checked: %v", where, err))
			default:
				faults = append(faults, fmt.Sprintf("%s: %v", where, err))
			}
		}
	}
	return faults, unchecked
}

// refers reports whether a configuration has references, which may stand for what is no
// text.
func refers(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, "${")
	case []any:
		for _, item := range v {
			if refers(item) {
				return true
			}
		}
	case map[string]any:
		for _, item := range v {
			if refers(item) {
				return true
			}
		}
	}
	return false
}
