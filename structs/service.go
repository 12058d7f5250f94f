package structs

import (
	"cmp"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"reflect"
	"regexp"
	"slices"
)

// The bounds of services, with what their references stand for: a short reference may stand for
// a long text. All are far above what a person writes.
const (
	// MaxServices bounds those of one task, and those of one group itself.
	MaxServices = 64
	// MaxServiceTags bounds the tags of one service.
	MaxServiceTags = 256
	// MaxServiceSize bounds the name, the port's label, the address and the tags of one service
	// together, in bytes.
	MaxServiceSize = 16 << 10
	// MaxServicesSize bounds those of all services of one task, or of one group itself.
	MaxServicesSize = 64 << 10
	// MaxServiceName bounds a name, which is a label of RFC 1123.
	MaxServiceName = 63
)

// ServiceNameRule says what [IsServiceName] looks at, in Nomad's words.
const ServiceNameRule = "Service name must be valid per RFC 1123 and can contain only alphanumeric characters or dashes and must be no longer than 63 characters"

var serviceName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$`)

// IsServiceName reports whether a service can have a name.
func IsServiceName(name string) bool {
	return len(name) <= MaxServiceName && serviceName.MatchString(name)
}

// ServiceRegistration is a service that others can look up, as one allocation offers it. A value
// that has been handed to another component is never changed.
type ServiceRegistration struct {
	// ID has the form that Nomad gives it, see [ServiceID].
	ID          string
	ServiceName string
	Namespace   string // of its job
	NodeID      string
	Datacenter  string // of the node
	JobID       string
	AllocID     string
	Workload    string // what it is a service of, see [ServiceOwner]
	Tags        []string
	Address     string // empty: the service names no port of the node's
	Port        int    // 0: it has none

	CreateIndex uint64
	ModifyIndex uint64
}

// Copy returns a deep copy.
func (s *ServiceRegistration) Copy() *ServiceRegistration {
	c := *s
	c.Tags = slices.Clone(s.Tags)
	return &c
}

// Same reports whether two registrations tell the same, whenever they were made.
func (s *ServiceRegistration) Same(o *ServiceRegistration) bool {
	if s == nil || o == nil {
		return s == o
	}
	a, b := *s, *o
	a.CreateIndex, a.ModifyIndex, b.CreateIndex, b.ModifyIndex = 0, 0, 0, 0
	a.Tags, b.Tags = nil, nil
	return slices.Equal(s.Tags, o.Tags) && reflect.DeepEqual(a, b)
}

// registrationSize is about what a registration takes besides its texts.
const registrationSize = 512

// Size is about how many bytes the registration takes.
func (s *ServiceRegistration) Size() int {
	n := registrationSize
	for _, text := range []string{s.ID, s.ServiceName, s.Namespace, s.NodeID, s.Datacenter, s.JobID, s.AllocID, s.Workload, s.Address} {
		n += len(text)
	}
	for _, tag := range s.Tags {
		n += len(tag) + tagSize
	}
	return n
}

// tagSize is what a tag takes besides its text.
const tagSize = 16

// Owner is what the service is one of.
func (s *ServiceRegistration) Owner() ServiceOwner { return ServiceOwner{s.AllocID, s.Workload} }

// ServiceOwner is what services are of: an allocation's task, or its group.
type ServiceOwner struct {
	AllocID  string
	Workload string // a task's name, or "group-" and the group's
}

// TaskServices is the owner of a task's services.
func TaskServices(allocID, task string) ServiceOwner { return ServiceOwner{allocID, task} }

// GroupServices is the owner of a group's services.
func GroupServices(allocID, group string) ServiceOwner {
	return ServiceOwner{allocID, "group-" + group}
}

// ServiceID is the ID of an owner's service with a port's label.
func ServiceID(o ServiceOwner, service, port string) string {
	return "_nomad-task-" + o.AllocID + "-" + o.Workload + "-" + service + "-" + port
}

// ChooseServices returns n of some registrations, or all if there are fewer, always the same for a
// key as long as they are there: those whose hash with it is the least, as in Nomad. So callers
// with different keys spread over all, and keep theirs when others come or go.
func ChooseServices(list []*ServiceRegistration, n int, key string) []*ServiceRegistration {
	hashes := make(map[*ServiceRegistration]string, len(list))
	for _, s := range list {
		hashes[s] = s.hash(key)
	}
	sorted := slices.SortedStableFunc(slices.Values(list), func(a, b *ServiceRegistration) int { return cmp.Compare(hashes[a], hashes[b]) })
	return sorted[:min(n, len(sorted))]
}

// hash is Nomad's: what is chosen for a key is the same after a move to its servers.
func (s *ServiceRegistration) hash(key string) string {
	data := binary.BigEndian.AppendUint64(nil, uint64(s.Port))
	for _, text := range slices.Concat([]string{s.AllocID, s.ID, s.Namespace, s.Address, s.ServiceName}, s.Tags, []string{key}) {
		data = append(data, text...)
	}
	sum := md5.Sum(data)
	return hex.EncodeToString(sum[:])
}
