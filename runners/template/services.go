package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/structs"
)

// Services has the registrations of services.
type Services interface {
	// FindServices returns those of a service, by their IDs; of no name: those of all services
	// of the namespace.
	FindServices(ctx context.Context, namespace, name string) ([]*structs.ServiceRegistration, error)
}

// Service is a registration as templates see it, with consul-template's names.
type Service struct {
	ID, Name, Node, Address string
	Port                    int
	Datacenter              string
	Tags                    Tags
	JobID, AllocID          string
}

// NamedService is a service with the tags of all its registrations.
type NamedService struct {
	Name string
	Tags Tags
}

// Tags are a service's, sorted.
type Tags []string

// Contains reports whether a tag is one of them.
func (t Tags) Contains(tag string) bool { return slices.Contains(t, tag) }

// serviceQuery is [tag.]name[?ns=namespace][@region]; of all services, only what follows the
// name.
var (
	serviceQuery  = regexp.MustCompile(`^(?:([\w=:.-]+)\.)?([\w-]+)(?:\?ns=([\w-]+))?(?:@([\w-]+))?$`)
	servicesQuery = regexp.MustCompile(`^(?:\?ns=([\w-]+))?(?:@([\w-]+))?$`)
)

// nomadService returns the registrations of a service, or some of them: of a count and a key
// before the name, those that are chosen for the key.
func (r *rendering) nomadService(args ...any) ([]*Service, error) {
	if len(args) != 1 && len(args) != 3 {
		return nil, errors.New("it takes a service's name, or a count, a key and a name")
	}
	name, isText := args[len(args)-1].(string)
	m := serviceQuery.FindStringSubmatch(name)
	if !isText || m == nil {
		return nil, fmt.Errorf("%s is not the name of a service", shown(args[len(args)-1]))
	}
	list, err := r.find(m[3], m[2], m[4])
	if err != nil {
		return nil, err
	}
	if len(args) == 3 {
		count, isCount := args[0].(int)
		key, isKey := args[1].(string)
		if !isCount || !isKey || count < 0 || key == "" {
			return nil, errors.New("a count and a key have to be before the name")
		}
		list = structs.ChooseServices(list, count, key)
	}
	out := []*Service{}
	for _, s := range list {
		if m[1] != "" && !slices.Contains(s.Tags, m[1]) {
			continue
		}
		out = append(out, &Service{
			ID: s.ID, Name: s.ServiceName, Node: s.NodeID, Address: s.Address, Port: s.Port,
			Datacenter: s.Datacenter, Tags: slices.Sorted(slices.Values(s.Tags)), JobID: s.JobID, AllocID: s.AllocID,
		})
	}
	return out, nil
}

// maxServicesQuery bounds what names a namespace and a region, in bytes.
const maxServicesQuery = 1024

// nomadServices returns the names of all services, with their tags.
func (r *rendering) nomadServices(query ...string) ([]*NamedService, error) {
	if n, err := sizeOf(query); err != nil || n.bytes > maxServicesQuery {
		return nil, fmt.Errorf("a namespace and a region have at most %d bytes", maxServicesQuery)
	}
	m := servicesQuery.FindStringSubmatch(strings.Join(query, ""))
	if m == nil {
		return nil, fmt.Errorf("%q is neither a namespace nor a region", query)
	}
	list, err := r.find(m[1], "", m[2])
	if err != nil {
		return nil, err
	}
	byName := map[string]*NamedService{}
	out := []*NamedService{}
	for _, s := range list {
		if byName[s.ServiceName] == nil {
			byName[s.ServiceName] = &NamedService{Name: s.ServiceName}
			out = append(out, byName[s.ServiceName])
		}
		byName[s.ServiceName].Tags = append(byName[s.ServiceName].Tags, s.Tags...)
	}
	for _, s := range out {
		slices.Sort(s.Tags)
		s.Tags = slices.Compact(s.Tags)
	}
	slices.SortFunc(out, func(a, b *NamedService) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// find looks a service up, or all.
func (r *rendering) find(namespace, name, region string) ([]*structs.ServiceRegistration, error) {
	if r.in.Services == nil {
		return nil, errors.New("no services can be looked up here")
	}
	if len(name) > structs.MaxServiceName {
		return nil, fmt.Errorf("%.80q… is longer than a service's name: at most %d bytes", name, structs.MaxServiceName)
	}
	l, err := r.lookup(lookup{serviceLookup, namespace, name}, region)
	if err != nil {
		return nil, err
	}
	list, err := r.in.Services.FindServices(r.ctx, l.namespace, name)
	if err != nil {
		return nil, &lookupError{&fileError{fmt.Sprintf("service %q: %v", name, err)}}
	}
	r.found(l, servicesStamp(list))
	size := lookupSize
	for _, s := range list {
		size += s.Size()
	}
	return list, r.spend(size)
}

// servicesStamp is of the registrations, whatever their order.
func servicesStamp(list []*structs.ServiceRegistration) string {
	list = slices.SortedFunc(slices.Values(list), func(a, b *structs.ServiceRegistration) int { return cmp.Compare(a.ID, b.ID) })
	return stampOf(list, func(s *structs.ServiceRegistration) (string, uint64) { return s.ID, s.ModifyIndex })
}
