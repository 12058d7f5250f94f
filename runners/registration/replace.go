package registration

import (
	"errors"
	"fmt"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/runners/check"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/structs"
)

// replaced is a service with what its references stand for.
type replaced struct {
	name, port, address string
	mode                string
	tags                []string
}

// replaced gives the workload's services with what their references stand for, within the bounds.
func (w *Workload) replaced() ([]*replaced, error) {
	var errs []error
	var list []*replaced
	left := structs.MaxServicesSize
	for _, s := range w.services() {
		if s.Provider != "" && s.Provider != check.ProviderNomad {
			continue
		}
		if len(list)+len(errs) == structs.MaxServices {
			errs = append(errs, fmt.Errorf("there are more than %d services", structs.MaxServices))
			break
		}
		made, size, err := w.replace(s, min(left, structs.MaxServiceSize))
		if err != nil {
			errs = append(errs, fmt.Errorf("service %.100q: %w", s.Name, err))
			continue
		}
		left -= size
		list = append(list, made)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return list, nil
}

// replace gives a service whose texts have at most so many bytes together, and how many.
func (w *Workload) replace(s *nomad.Service, most int) (made *replaced, size int, err error) {
	tags := s.Tags
	if d := w.Alloc.DeploymentStatus; d != nil && d.Canary && len(s.CanaryTags) > 0 {
		tags = s.CanaryTags
	}
	if len(tags) > structs.MaxServiceTags {
		return nil, 0, fmt.Errorf("it has %d tags, at most %d are possible", len(tags), structs.MaxServiceTags)
	}
	r := &room{env: w.Env, left: most}
	made = &replaced{name: r.replace(w.parts(s.Name, most)), port: r.replace(s.PortLabel), address: r.replace(s.Address), mode: s.AddressMode}
	made.tags = make([]string, len(tags))
	for i, tag := range tags {
		made.tags[i] = r.replace(tag)
	}
	if !r.full && !structs.IsServiceName(made.name) {
		return nil, 0, fmt.Errorf("name: "+structs.ServiceNameRule+": %.100q", made.name)
	}
	if r.full {
		return nil, 0, fmt.Errorf("name, port, address and tags have more than %d bytes with what their references stand for: "+
			"one service has at most %d, all of a task or of a group itself %d", most, structs.MaxServiceSize, structs.MaxServicesSize)
	}
	return made, most - r.left, nil
}

// parts replaces the words by which a service's name may refer to parts of its own job, and which
// stand nowhere else. A name that is longer than most stays as it is: it is refused anyway.
func (w *Workload) parts(name string, most int) string {
	if len(name) > most {
		return name
	}
	job, group, task := structs.Deref(w.Alloc.Job.Name), w.Alloc.TaskGroup, "group"
	if w.Task != nil {
		task = w.Task.Name
	}
	return strings.NewReplacer("${JOB}", job, "${TASKGROUP}", group, "${TASK}", task, "${BASE}", job+"-"+group+"-"+task).Replace(name)
}

// room replaces references as long as there is room for what they stand for.
type room struct {
	env  *taskenv.Env
	left int
	full bool
}

func (r *room) replace(text string) string {
	if r.full {
		return ""
	}
	out, within := r.env.ReplaceWithin(text, r.left)
	r.full, r.left = !within, r.left-len(out)
	return out
}
