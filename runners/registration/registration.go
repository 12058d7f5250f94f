package registration

import (
	"errors"
	"fmt"

	nomad "github.com/hashicorp/nomad/api"

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

// Services makes the registrations of the workload's services. One that has no address, or that
// [Workload.Check] refuses, makes all fail. Services of another provider are not this node's to
// register.
func (w *Workload) Services() ([]*structs.ServiceRegistration, error) {
	all, err := w.replaced()
	if err != nil {
		return nil, err
	}
	var errs []error
	list := make([]*structs.ServiceRegistration, 0, len(all))
	for _, s := range all {
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

// Check finds what cannot be registered wherever the workload is reached: a name that no service
// can have, and what is beyond the bounds of services in [structs].
func (w *Workload) Check() error {
	_, err := w.replaced()
	return err
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

func (w *Workload) service(s *replaced) (*structs.ServiceRegistration, error) {
	address, number, err := w.address(s.address, s.mode, s.port)
	if err != nil {
		return nil, fmt.Errorf("unable to get address for service %q: %w", s.name, err)
	}
	owner := w.Owner()
	return &structs.ServiceRegistration{
		ID: structs.ServiceID(owner, s.name, s.port), ServiceName: s.name, Namespace: w.Alloc.Namespace,
		NodeID: w.Node.ID, Datacenter: w.Node.Datacenter, JobID: w.Alloc.JobID,
		AllocID: owner.AllocID, Workload: owner.Workload,
		Tags: s.tags, Address: address, Port: number,
	}, nil
}
