package jobspec

import (
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// normalise applies what reading a job file gives a job, as opposed to what a server
// does with it later: `nomad job run -output` shows it.
func normalise(j *nomad.Job, id string) {
	orValue(&j.ID, id)
	orValue(&j.Name, id)
	if p := j.Periodic; p != nil && (p.Spec != nil || p.Specs != nil) {
		cron := nomad.PeriodicSpecCron
		p.SpecType = &cron
	}
	for _, g := range j.TaskGroups {
		splitPorts(g.Networks)
		for _, t := range g.Tasks {
			if t.Resources != nil {
				splitPorts(t.Resources.Networks)
			}
			normaliseTask(t)
		}
	}
}

func normaliseTask(t *nomad.Task) {
	if v := t.Vault; v != nil {
		orValue(&v.Env, true)
		orValue(&v.DisableFile, false)
		orValue(&v.ChangeMode, "restart")
	}
	for _, tm := range t.Templates {
		normaliseTemplate(tm)
	}
	for i, w := range t.Identities {
		if w.Name == "" || w.Name == "default" {
			t.Identity = w
			t.Identities = append(t.Identities[:i:i], t.Identities[i+1:]...)
			break
		}
	}
}

func normaliseTemplate(t *nomad.Template) {
	orValue(&t.ChangeMode, "restart")
	orValue(&t.Perms, "0644")
	orValue(&t.Splay, 5*time.Second)
	orValue(&t.ErrMissingKey, false)
	if c := t.ChangeScript; c != nil {
		if c.Args == nil {
			c.Args = []string{}
		}
		orValue(&c.Timeout, 5*time.Second)
		orValue(&c.FailOnError, false)
		orValue(&c.RunOnFirstRender, false)
	}
}

// splitPorts separates ports with a fixed number from those that the node chooses.
func splitPorts(networks []*nomad.NetworkResource) {
	for _, n := range networks {
		if len(n.DynamicPorts) == 0 {
			continue
		}
		var dynamic, reserved []nomad.Port
		for _, p := range n.DynamicPorts {
			if p.Value > 0 {
				reserved = append(reserved, p)
			} else {
				dynamic = append(dynamic, p)
			}
		}
		n.DynamicPorts, n.ReservedPorts = dynamic, reserved
	}
}

func orValue[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}
