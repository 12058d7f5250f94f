package jobspec

import (
	"fmt"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// Validation is the answer of /v1/validate/job about a job whose own faults and warnings are
// known: its drivers are asked, as by [DriverFaults], once it has no faults of its own.
func Validation(job *nomad.Job, faults, warnings []string, check func(driver string, config map[string]any) ([]string, error)) *nomad.JobValidateResponse {
	asked := true
	if len(faults) == 0 {
		var unchecked []string
		faults, unchecked = DriverFaults(job, check)
		warnings, asked = append(warnings, unchecked...), len(unchecked) == 0
	}
	return &nomad.JobValidateResponse{
		DriverConfigValidated: asked,
		ValidationErrors:      faults,
		Error:                 strings.Join(faults, "\n"),
		Warnings:              WarningText(warnings),
	}
}

// WarningText renders warnings as Nomad does.
func WarningText(warnings []string) string {
	if len(warnings) == 0 {
		return ""
	}
	noun := "warnings"
	if len(warnings) == 1 {
		noun = "warning"
	}
	return fmt.Sprintf("%d %s:\n\n* %s", len(warnings), noun, strings.Join(warnings, "\n* "))
}
