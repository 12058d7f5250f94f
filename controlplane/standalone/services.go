package standalone

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/wasmnode/wasmnode/structs"
)

// serviceKey names a service.
type serviceKey struct{ namespace, name string }

// Services returns the registrations of all services, in no order.
func (cp *ControlPlane) Services() []*structs.ServiceRegistration {
	return read(cp, func(t *tables) []*structs.ServiceRegistration { return slices.Collect(maps.Values(t.services)) })
}

// ServicesNamed returns the registrations of a service, by their IDs.
func (cp *ControlPlane) ServicesNamed(namespace, name string) []*structs.ServiceRegistration {
	return sortedServices(read(cp, func(t *tables) []*structs.ServiceRegistration {
		return slices.Collect(maps.Values(t.servicesByName[serviceKey{namespace, name}]))
	}))
}

// AllocationServices returns what an allocation has registered, by the IDs.
func (cp *ControlPlane) AllocationServices(id string) []*structs.ServiceRegistration {
	return sortedServices(read(cp, func(t *tables) []*structs.ServiceRegistration {
		return slices.Collect(maps.Values(t.servicesByAlloc[id]))
	}))
}

// JobServices returns what the allocations of a job have registered, by the IDs.
func (cp *ControlPlane) JobServices(namespace, id string) []*structs.ServiceRegistration {
	return sortedServices(read(cp, func(t *tables) (list []*structs.ServiceRegistration) {
		for allocID := range t.allocsByJob[jobKey{namespace, id}] {
			list = slices.AppendSeq(list, maps.Values(t.servicesByAlloc[allocID]))
		}
		return list
	}))
}

func sortedServices(list []*structs.ServiceRegistration) []*structs.ServiceRegistration {
	slices.SortFunc(list, func(a, b *structs.ServiceRegistration) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// DeleteService removes a registration, and returns the change's index. It comes back when its
// task starts anew, or its services change. One that is not there is errdefs.NotFound.
func (cp *ControlPlane) DeleteService(namespace, id string) (index uint64, err error) {
	err = cp.write(func(t *tx) error {
		if s := t.services.get(id); s == nil || s.Namespace != namespace {
			return notFound("service registration not found")
		}
		t.deleteService(id)
		index = t.at()
		return nil
	})
	return index, err
}

// RegisteredServices implements node.ServiceRegistry.
func (f ForNode) RegisteredServices(ctx context.Context, nodeID string) ([]*structs.ServiceRegistration, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.cp.Node(nodeID) == nil {
		return nil, notFound("node %q not found", nodeID)
	}
	return read(f.cp, func(t *tables) (list []*structs.ServiceRegistration) {
		for _, s := range t.services {
			if s.NodeID == nodeID {
				list = append(list, s)
			}
		}
		return list
	}), nil
}

// FindServices implements node.ServiceRegistry.
func (f ForNode) FindServices(ctx context.Context, namespace, name string) ([]*structs.ServiceRegistration, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if name != "" {
		return f.cp.ServicesNamed(namespace, name), nil
	}
	all := slices.DeleteFunc(f.cp.Services(), func(s *structs.ServiceRegistration) bool { return s.Namespace != namespace })
	return sortedServices(all), nil
}

// RegisterServices implements node.ServiceRegistry. What is registered already as it is does not
// change.
func (f ForNode) RegisterServices(ctx context.Context, nodeID string, services []*structs.ServiceRegistration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.cp.write(func(t *tx) error {
		if t.nodes.get(nodeID) == nil {
			return notFound("node %q not found", nodeID)
		}
		for _, s := range services {
			a := t.allocs.get(s.AllocID)
			if a == nil || a.NodeID != nodeID || a.ClientStatus.Terminal() || s.NodeID != nodeID {
				continue
			}
			t.putService(s)
		}
		return nil
	})
}

// DeregisterServices implements node.ServiceRegistry.
func (f ForNode) DeregisterServices(ctx context.Context, nodeID string, ids []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.cp.write(func(t *tx) error {
		for _, id := range ids {
			if s := t.services.get(id); s != nil && s.NodeID == nodeID {
				t.deleteService(id)
			}
		}
		return nil
	})
}

func (t *tx) putService(s *structs.ServiceRegistration) {
	old := t.services.get(s.ID)
	if s.Same(old) {
		return
	}
	c := s.Copy()
	t.touched[TableServices] = t.at()
	c.CreateIndex, c.ModifyIndex = t.at(), t.at()
	if old != nil {
		c.CreateIndex = old.CreateIndex
	}
	t.services.put(c.ID, c)
}

func (t *tx) deleteService(id string) {
	t.touched[TableServices] = t.at()
	t.services.delete(id)
}

// deleteServicesOf removes what an allocation has registered that has ended, or is forgotten:
// also where its node is gone and cannot.
func (t *tx) deleteServicesOf(allocID string) {
	for _, s := range t.servicesByAlloc.in(allocID) {
		t.deleteService(s.ID)
	}
}

// loadService takes a stored registration.
func (cp *ControlPlane) loadService(id string, s *structs.ServiceRegistration) error {
	if err := sameID(id, s.ID); err != nil {
		return err
	}
	cp.data.services[id] = s
	cp.sawIndex(s.ModifyIndex)
	return nil
}
