package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
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

// driverWarnings is what the drivers refuse of a job that is registered all the same, as
// Nomad's servers do: a driver may be another one when the task starts.
func (h *handler) driverWarnings(job *nomad.Job) []string {
	warnings, _ := h.driverFaults(job)
	for i := range warnings {
		warnings[i] += " (the task cannot start with this)"
	}
	return warnings
}

// driverFaults is what the drivers refuse of a valid job, and what could not be checked
// because a driver is not here.
func (h *handler) driverFaults(job *nomad.Job) (faults, unchecked []string) {
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			refused, err := h.Node.CheckDriverConfig(t.Driver, t.Config)
			where := fmt.Sprintf("group %q: task %q", structs.Deref(g.Name), t.Name)
			if err != nil {
				unchecked = append(unchecked, fmt.Sprintf("%s: its config was not checked: %v", where, err))
			}
			for _, fault := range refused {
				if !refers(blamed(t.Config, fault)) {
					faults = append(faults, where+": "+fault)
				}
			}
		}
	}
	return faults, unchecked
}

// blamed is what of a configuration a fault is about, such as "config.args[0]: …"; nil: of
// what it has not.
func blamed(config map[string]any, fault string) any {
	path, ok := strings.CutPrefix(fault, "config.")
	end := strings.IndexAny(path, ".[:")
	if !ok || end < 0 {
		return config
	}
	return config[path[:end]]
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
