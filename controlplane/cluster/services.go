package cluster

import (
	"context"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// wireService is a registration as servers keep it.
type wireService struct {
	ID, ServiceName, Namespace, NodeID, Datacenter, JobID, AllocID string
	Tags                                                           []string
	Address                                                        string
	Port                                                           int
	CreateIndex, ModifyIndex                                       uint64
}

// maxListed bounds how many services of a namespace are looked up for a list of all.
const maxListed = 1000

// RegisteredServices implements node.ServiceRegistry: those that the stored allocations may
// have, since servers do not list the services of a node. What they are in detail is not known.
func (cp *ControlPlane) RegisteredServices(_ context.Context, nodeID string) (list []*structs.ServiceRegistration, err error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for _, k := range cp.pulled.known {
		if k.modified == 0 || k.reported != nil {
			list = append(list, mayHave(k.alloc, nodeID)...)
		}
	}
	return list, nil
}

// mayHave are the services of an allocation's job.
func mayHave(a *structs.Allocation, nodeID string) (list []*structs.ServiceRegistration) {
	group := a.Group()
	if group == nil {
		return nil
	}
	one := func(owner structs.ServiceOwner, name, port string) {
		list = append(list, &structs.ServiceRegistration{
			ID: structs.ServiceID(owner, name, port), ServiceName: name, Namespace: a.Namespace,
			NodeID: nodeID, JobID: a.JobID, AllocID: a.ID, Workload: owner.Workload,
		})
	}
	for _, s := range group.Services {
		if s != nil {
			one(structs.GroupServices(a.ID, a.TaskGroup), s.Name, s.PortLabel)
		}
	}
	for _, t := range group.Tasks {
		for _, s := range t.Services {
			if s != nil {
				one(structs.TaskServices(a.ID, t.Name), s.Name, s.PortLabel)
			}
		}
	}
	return list
}

// RegisterServices implements node.ServiceRegistry.
func (cp *ControlPlane) RegisterServices(ctx context.Context, nodeID string, services []*structs.ServiceRegistration) error {
	_, secret, err := cp.registered(nodeID)
	if err != nil || len(services) == 0 {
		return err
	}
	var list []*wireService
	for _, s := range services {
		list = append(list, &wireService{
			ID: s.ID, ServiceName: s.ServiceName, Namespace: s.Namespace, NodeID: s.NodeID, Datacenter: s.Datacenter,
			JobID: s.JobID, AllocID: s.AllocID, Tags: s.Tags, Address: s.Address, Port: s.Port,
		})
	}
	return cp.servers.call(ctx, "ServiceRegistration.Upsert", struct {
		request
		Services []*wireService
	}{cp.asNode(secret), list}, nil)
}

// DeregisterServices implements node.ServiceRegistry.
func (cp *ControlPlane) DeregisterServices(ctx context.Context, nodeID string, ids []string) error {
	_, secret, err := cp.registered(nodeID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		r := cp.asNode(secret)
		r.Namespace = cp.namespaceOf(id)
		err := cp.servers.call(ctx, "ServiceRegistration.DeleteByID", struct {
			request
			ID string
		}{r, id}, nil)
		if err != nil && !wire.Says(err, "not found") {
			return err
		}
	}
	return nil
}

// namespaceOf is the namespace of the allocation that a service's ID names.
func (cp *ControlPlane) namespaceOf(id string) string {
	const uuidSize = 36
	if rest, is := strings.CutPrefix(id, structs.ServiceID(structs.ServiceOwner{}, "", "")[:len("_nomad-task-")]); is && len(rest) > uuidSize {
		cp.mu.Lock()
		defer cp.mu.Unlock()
		if k := cp.pulled.known[rest[:uuidSize]]; k != nil {
			return k.alloc.Namespace
		}
	}
	return "default"
}

// FindServices implements node.ServiceRegistry. It does not wait for a server.
func (cp *ControlPlane) FindServices(ctx context.Context, namespace, name string) ([]*structs.ServiceRegistration, error) {
	names := []string{name}
	if name == "" {
		var err error
		if names, err = cp.serviceNames(ctx, namespace); err != nil {
			return nil, err
		}
	}
	var all []*structs.ServiceRegistration
	for _, name := range names {
		r, err := cp.reading(namespace)
		if err != nil {
			return nil, err
		}
		var got struct{ Services []*wireService }
		if err := cp.servers.now(ctx, "ServiceRegistration.GetService", struct {
			query
			ServiceName string
		}{r, name}, &got); err != nil {
			return nil, err
		}
		for _, s := range got.Services {
			if s != nil {
				all = append(all, &structs.ServiceRegistration{
					ID: s.ID, ServiceName: s.ServiceName, Namespace: s.Namespace, NodeID: s.NodeID, Datacenter: s.Datacenter, JobID: s.JobID,
					AllocID: s.AllocID, Tags: s.Tags, Address: s.Address, Port: s.Port, CreateIndex: s.CreateIndex, ModifyIndex: s.ModifyIndex,
				})
			}
		}
	}
	slices.SortFunc(all, func(a, b *structs.ServiceRegistration) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// serviceNames are those of a namespace.
func (cp *ControlPlane) serviceNames(ctx context.Context, namespace string) (names []string, err error) {
	r, err := cp.reading(namespace)
	if err != nil {
		return nil, err
	}
	var got struct {
		Services []struct {
			Services []struct{ ServiceName string }
		}
	}
	if err := cp.servers.now(ctx, "ServiceRegistration.List", r, &got); err != nil {
		return nil, err
	}
	for _, in := range got.Services {
		for _, s := range in.Services {
			names = append(names, s.ServiceName)
		}
	}
	if len(names) > maxListed {
		return nil, errdefs.New(errdefs.ResourceExhausted, "namespace %q has %d services; %d can be listed", namespace, len(names), maxListed)
	}
	return names, nil
}

// reading is a query by the node, of a namespace.
func (cp *ControlPlane) reading(namespace string) (query, error) {
	cp.mu.Lock()
	secret, known := cp.secretID, cp.node != nil
	cp.mu.Unlock()
	if !known {
		return query{}, errdefs.NewRecoverable(errdefs.Unavailable, "the node is not registered with the servers yet")
	}
	q := query{request: cp.asNode(secret), AllowStale: true}
	q.Namespace = namespace
	return q, nil
}
