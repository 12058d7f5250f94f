package httpapi

import (
	"cmp"
	"fmt"
	"net/http"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/jobspec"
	"github.com/wasmnode/wasmnode/structs"
)

// serversJob is a job as servers take it and tell of it: by the names of its fields it is one of
// Nomad's API, but for links.
type serversJob struct {
	*nomad.Job
	UI *serversUI
}

type serversUI struct {
	Description string
	Links       []*serversLink
}

type serversLink struct{ Label, Url string }

// registered passes on a job that is to run.
func registered(h *handler, w http.ResponseWriter, r *http.Request) error {
	var unknown []string
	return passOn("Job.Register", func(r *http.Request) (all map[string]any, err error) {
		var body nomad.JobRegisterRequest
		if all, unknown, err = h.proposed(r, &body, &body.Job, &body.WriteRequest); err != nil {
			return nil, err
		}
		if s := body.Submission; s != nil {
			s.Canonicalize()
			all["Submission"] = s
		}
		all["EnforceIndex"], all["JobModifyIndex"] = body.EnforceIndex, body.JobModifyIndex
		all["PolicyOverride"], all["PreserveCounts"], all["PreserveResources"] = body.PolicyOverride, body.PreserveCounts, body.PreserveResources
		all["EvalPriority"] = body.EvalPriority
		return all, nil
	}, func(decode func(any) error) (any, told, error) { return warned(decode, unknown) })(h, w, r)
}

// warned is what servers answer for a job, with what was ignored of it.
func warned(decode func(any) error, unknown []string) (any, told, error) {
	got, t, err := answerOf[object](decode)
	if out := *got; len(unknown) > 0 && out != nil {
		out["Warnings"] = fmt.Sprint(cmp.Or[any](out["Warnings"], ""), jobspec.WarningText(unknown))
	}
	return got, t, err
}

// validated passes on a job that is only looked at.
func validated(h *handler, w http.ResponseWriter, r *http.Request) error {
	var unknown []string
	return passOn("Job.Validate", func(r *http.Request) (all map[string]any, err error) {
		var body nomad.JobValidateRequest
		all, unknown, err = h.proposed(r, &body, &body.Job, &body.WriteRequest)
		return all, err
	}, func(decode func(any) error) (any, told, error) { return warned(decode, unknown) })(h, w, r)
}

// planned passes on a job that is compared with the one that there is.
func planned(h *handler, w http.ResponseWriter, r *http.Request) error {
	var unknown []string
	return passOn("Job.Plan", func(r *http.Request) (all map[string]any, err error) {
		var body nomad.JobPlanRequest
		if all, unknown, err = h.proposed(r, &body, &body.Job, &body.WriteRequest); err != nil {
			return nil, err
		}
		all["Diff"], all["PolicyOverride"] = body.Diff, body.PolicyOverride
		return all, nil
	}, func(decode func(any) error) (any, told, error) {
		out, t, err := answerOf[nomad.JobPlanResponse](decode)
		if err != nil {
			return nil, t, err
		}
		if len(unknown) > 0 {
			out.Warnings += jobspec.WarningText(unknown)
		}
		return indexed{wirePlan{out, timeOrNull(out.NextPeriodicLaunch)}, t.Index}, t, nil
	})(h, w, r)
}

// proposed reads a request with a job into body, and is the arguments of what servers are to do with
// it, and what of it they are not told because nobody knows it.
func (h *handler) proposed(r *http.Request, body any, job **nomad.Job, by *nomad.WriteRequest) (all map[string]any, unknown []string, err error) {
	if unknown, err = decodeJob(r, body); err != nil {
		return nil, nil, err
	}
	j := *job
	if j == nil {
		return nil, nil, badRequest("Job must be specified")
	}
	if structs.Deref(j.ID) == "" {
		return nil, nil, badRequest("Job ID hasn't been provided")
	}
	if id, _ := jobPath(r); id != "" && id != *j.ID {
		return nil, nil, badRequest("Job ID does not match")
	}
	v := r.URL.Query()
	namespace := cmp.Or(v.Get("namespace"), by.Namespace, structs.Deref(j.Namespace), nomad.DefaultNamespace)
	region := cmp.Or(v.Get("region"), by.Region, structs.Deref(j.Region))
	if region == "" || region == nomad.GlobalRegion {
		region = h.Agent.Region
	}
	j.Namespace, j.Region = &namespace, &region
	own, err := forServers(j)
	if err != nil {
		return nil, nil, err
	}
	return map[string]any{"Job": own, "Namespace": namespace, "Region": region}, unknown, nil
}

// forServers is a job in full, in the form that servers take, who expect what agents have filled in.
func forServers(j *nomad.Job) (own *serversJob, err error) {
	defer func() { // of what Nomad's own types do with a list that has nothing at a place
		if p := recover(); p != nil {
			own, err = nil, badRequest("the job has an empty object where it needs one: %v", p)
		}
	}()
	j.Canonicalize()
	if u := j.Update; u != nil { // the rest of it is in the groups now
		j.Update = nil
		if structs.Deref(u.MaxParallel) > 0 {
			j.Update = &nomad.UpdateStrategy{Stagger: u.Stagger, MaxParallel: u.MaxParallel}
		}
	}
	for _, g := range j.TaskGroups {
		scaling(g.Scaling, j, g, nil)
		checks(g.Services, true)
		for _, t := range g.Tasks {
			for _, p := range t.ScalingPolicies {
				scaling(p, j, g, t)
			}
			checks(t.Services, false)
			if t.Vault != nil && structs.Deref(t.Vault.Namespace) == "" {
				t.Vault.Namespace = j.VaultNamespace
			}
		}
	}
	return &serversJob{Job: j, UI: linked(j.UI)}, nil
}

// linked is what a job shows to people.
func linked(ui *nomad.JobUIConfig) *serversUI {
	if ui == nil {
		return nil
	}
	out := &serversUI{Description: ui.Description}
	for _, l := range ui.Links {
		if l != nil {
			out.Links = append(out.Links, &serversLink{l.Label, l.URL})
		}
	}
	return out
}

// scaling has a policy say what it is of, and all of its bounds.
func scaling(p *nomad.ScalingPolicy, j *nomad.Job, g *nomad.TaskGroup, t *nomad.Task) {
	if p == nil {
		return
	}
	p.Type = cmp.Or(p.Type, nomad.ScalingPolicyTypeHorizontal)
	p.Target = map[string]string{"Namespace": *j.Namespace, "Job": *j.ID, "Group": *g.Name}
	least := int64(structs.Deref(g.Count))
	if t != nil {
		p.Target["Task"], least = t.Name, 0
	}
	most, on := int64(-1), true // servers refuse a policy without a most
	p.Min, p.Max, p.Enabled = cmp.Or(p.Min, &least), cmp.Or(p.Max, &most), cmp.Or(p.Enabled, &on)
}

// checks inherit what their service does on updates. A group's name the task that they run in.
func checks(services []*nomad.Service, ofGroup bool) {
	for _, s := range services {
		for i := range s.Checks {
			c := &s.Checks[i]
			c.OnUpdate = cmp.Or(c.OnUpdate, s.OnUpdate)
			if !ofGroup {
				c.TaskName = ""
			}
		}
	}
}
