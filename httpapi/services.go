package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) serviceRoutes() {
	h.get("/v1/services", tableServices, h.listServices)
	h.get("/v1/service/{name}", tableServices, h.readService)
	h.method("/v1/service/{name}/{instance}", h.deleteService, http.MethodDelete)
	h.get("/v1/allocation/{id}/services", tableServices, h.allocationServices)
}

// listServices are the names of services with all tags of their registrations, by namespace.
func (h *handler) listServices(_ *http.Request, q *query) (answer, error) {
	if q.namespace != "*" && !q.caller.mayIn(q.namespace) {
		return answer{}, access.ErrDenied
	}
	tags := map[string]map[string]map[string]bool{} // by namespace and name
	for _, s := range h.ControlPlane.Services() {
		if !q.inNamespace(s.Namespace) || !strings.HasPrefix(s.ServiceName, q.prefix) {
			continue
		}
		if is, err := q.matches(answeredService(s)); err != nil {
			return answer{}, err
		} else if !is {
			continue
		}
		if tags[s.Namespace] == nil {
			tags[s.Namespace] = map[string]map[string]bool{}
		}
		if tags[s.Namespace][s.ServiceName] == nil {
			tags[s.Namespace][s.ServiceName] = map[string]bool{}
		}
		for _, tag := range s.Tags {
			tags[s.Namespace][s.ServiceName][tag] = true
		}
	}
	cut := *q
	cut.filter = nil // it was of the registrations
	list, next, err := page(&cut, slices.Sorted(maps.Keys(tags)),
		func(ns string) string { return ns },
		func(ns string) any { return ns },
		func(ns string) *nomad.ServiceRegistrationListStub {
			stub := &nomad.ServiceRegistrationListStub{Namespace: ns}
			for _, name := range slices.Sorted(maps.Keys(tags[ns])) {
				sorted := slices.AppendSeq([]string{}, maps.Keys(tags[ns][name]))
				slices.Sort(sorted)
				stub.Services = append(stub.Services, &nomad.ServiceRegistrationStub{ServiceName: name, Tags: sorted})
			}
			return stub
		})
	return answer{body: list, next: next}, err
}

// readService are the registrations of a service, or some of them that are chosen for a key.
func (h *handler) readService(r *http.Request, q *query) (answer, error) {
	if q.namespace == "*" {
		q.namespace = nomad.DefaultNamespace
	}
	if !q.caller.mayIn(q.namespace) {
		return answer{}, access.ErrDenied
	}
	list, next, err := page(q, h.ControlPlane.ServicesNamed(q.namespace, r.PathValue("name")),
		func(s *structs.ServiceRegistration) string { return s.Namespace + "." + s.ID },
		func(s *structs.ServiceRegistration) any { return answeredService(s) },
		func(s *structs.ServiceRegistration) *structs.ServiceRegistration { return s })
	if err != nil {
		return answer{}, err
	}
	if how := r.URL.Query().Get("choose"); how != "" {
		if list, err = choose(list, how); err != nil {
			return answer{}, err
		}
	}
	return answer{body: answeredServices(list), next: next}, nil
}

// choose returns as many of the registrations as "<number>|<key>" asks for.
func choose(list []*structs.ServiceRegistration, how string) ([]*structs.ServiceRegistration, error) {
	count, key, _ := strings.Cut(how, "|")
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || key == "" {
		return nil, badRequest("failed to choose services: Parameter for choose must be in form '<number>|<key>'")
	}
	return structs.ChooseServices(list, n, key), nil
}

// deleteService removes a registration. As in Nomad the answer has no body, and of the service's
// name nothing depends.
func (h *handler) deleteService(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	return done(w)(h.ControlPlane.DeleteService(q.namespace, r.PathValue("instance")))
}

// allocationServices are those that an allocation has registered.
func (h *handler) allocationServices(r *http.Request, _ *query) (answer, error) {
	a := h.ControlPlane.Allocation(r.PathValue("id"))
	if a == nil {
		return answer{}, notFound("allocation not found")
	}
	return answer{body: answeredServices(h.ControlPlane.AllocationServices(a.ID))}, nil
}

// jobServices are those that a job's allocations have registered.
func (h *handler) jobServices(r *http.Request, q *query) (answer, error) {
	id, _ := jobPath(r)
	if h.ControlPlane.Job(q.namespace, id) == nil {
		return answer{}, h.noJob(r, q, id)
	}
	return answer{body: answeredServices(h.ControlPlane.JobServices(q.namespace, id))}, nil
}

func answeredServices(list []*structs.ServiceRegistration) []*nomad.ServiceRegistration {
	out := make([]*nomad.ServiceRegistration, len(list))
	for i, s := range list {
		out[i] = answeredService(s)
	}
	return out
}

// answeredService renders a registration.
func answeredService(s *structs.ServiceRegistration) *nomad.ServiceRegistration {
	return &nomad.ServiceRegistration{
		ID: s.ID, ServiceName: s.ServiceName, Namespace: s.Namespace, NodeID: s.NodeID, Datacenter: s.Datacenter,
		JobID: s.JobID, AllocID: s.AllocID, Tags: append([]string{}, s.Tags...), Address: s.Address, Port: s.Port,
		CreateIndex: s.CreateIndex, ModifyIndex: s.ModifyIndex,
	}
}
