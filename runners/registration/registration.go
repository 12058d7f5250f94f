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

// Workload is a task that runs, or a group that is about to, with where it can be reached.
type Workload struct {
	Node  *structs.Node
	Alloc *structs.Allocation
	// Task is nil for the group.
	Task    *nomad.Task
	Env     *taskenv.Env
	Network *structs.AllocNetwork // the allocation's own; nil: it has the node's
	Driver  *DriverNetwork        // nil: the driver tells of none
}

// DriverNetwork is the address that a driver gave a task.
type DriverNetwork struct {
	IP        string
	Ports     map[string]int // by label
	Advertise bool           // it is the task's address where none is asked for
}

// Owner is what the workload's services are of.
func (w *Workload) Owner() structs.ServiceOwner {
	if w.Task != nil {
		return structs.TaskServices(w.Alloc.ID, w.Task.Name)
	}
	return structs.GroupServices(w.Alloc.ID, w.Alloc.TaskGroup)
}

// Services makes the registrations of the workload's services. One that has no address makes
// all fail, as in Nomad. Services of another provider are not this node's to register.
func (w *Workload) Services() (list []*structs.ServiceRegistration, err error) {
	var errs []error
	for _, s := range w.services() {
		if s.Provider != "" && s.Provider != check.ProviderNomad {
			continue
		}
		made, err := w.service(s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, made)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return list, nil
}

func (w *Workload) services() []*nomad.Service {
	if w.Task != nil {
		return w.Task.Services
	}
	if group := w.Alloc.Group(); group != nil {
		return group.Services
	}
	return nil
}

func (w *Workload) service(s *nomad.Service) (*structs.ServiceRegistration, error) {
	name, port := w.name(s.Name), w.Env.Replace(s.PortLabel)
	address, number, err := w.address(w.Env.Replace(s.Address), s.AddressMode, port)
	if err != nil {
		return nil, fmt.Errorf("unable to get address for service %q: %w", name, err)
	}
	tags := s.Tags
	if d := w.Alloc.DeploymentStatus; d != nil && d.Canary && len(s.CanaryTags) > 0 {
		tags = s.CanaryTags
	}
	owner := w.Owner()
	return &structs.ServiceRegistration{
		ID: structs.ServiceID(owner, name, port), ServiceName: name, Namespace: w.Alloc.Namespace,
		NodeID: w.Node.ID, Datacenter: w.Node.Datacenter, JobID: w.Alloc.JobID,
		AllocID: owner.AllocID, Workload: owner.Workload,
		Tags: w.replaceAll(tags), Address: address, Port: number,
	}, nil
}

func (w *Workload) replaceAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = w.Env.Replace(s)
	}
	return out
}

// name is a service's, in which a job may also refer to its own parts by words that stand
// nowhere else.
func (w *Workload) name(s string) string {
	job, group, task := structs.Deref(w.Alloc.Job.Name), w.Alloc.TaskGroup, "group"
	if w.Task != nil {
		task = w.Task.Name
	}
	parts := strings.NewReplacer("${JOB}", job, "${TASKGROUP}", group, "${TASK}", task, "${BASE}", job+"-"+group+"-"+task)
	return w.Env.Replace(parts.Replace(s))
}
