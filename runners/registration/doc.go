// Package registration makes the registrations of an allocation's services: the name, the tags,
// the address and the port under which others find each.
//
// It knows nothing of when a service is registered and where; the allocation's runner and the
// node do. Start reading at [Workload.Services].
package registration
