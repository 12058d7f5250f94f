package structs

import (
	"slices"
	"time"

	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The types of ACL tokens, with Nomad's names.
const (
	ACLManagement = "management" // may do everything
	ACLClient     = "client"     // may do what its policies say
)

// ACLReadOnly is the built-in policy: to read everything and change nothing.
const ACLReadOnly = "readonly"

// The errors of requests whose token does not do, with Nomad's texts.
var (
	ErrACLDisabled      = errdefs.New(errdefs.FailedPrecondition, "ACL support disabled")
	ErrACLDenied        = errdefs.New(errdefs.PermissionDenied, "Permission denied")
	ErrACLTokenNotFound = errdefs.New(errdefs.PermissionDenied, "ACL token not found")
	ErrACLTokenExpired  = errdefs.New(errdefs.PermissionDenied, "ACL token expired")
)

// ACLToken lets whoever shows its secret use the API. The secret itself is known to its
// holder alone.
type ACLToken struct {
	AccessorID string // its public name, a UUID
	Hash       []byte // SHA-256 of the secret
	Name       string // for people
	Type       string // ACLManagement or ACLClient
	Policies   []string
	Roles      []string  // the IDs of roles, whose policies it has, too
	Global     bool      // kept, and without a meaning on one machine
	Created    time.Time // UTC
	Expires    time.Time // zero: never

	CreateIndex uint64
	ModifyIndex uint64
}

// ACLRole gives its policies to the tokens that have it.
type ACLRole struct {
	ID          string // a UUID
	Name        string // of no other role
	Description string
	Policies    []string

	CreateIndex uint64
	ModifyIndex uint64
}

// ACLPolicy is what the tokens that have it may do, and the tasks that it is attached to.
type ACLPolicy struct {
	Name        string
	Description string
	Rules       string       // HCL or JSON, as it was given
	Tasks       *ACLTaskRule `json:",omitempty"` // nil: it is attached to none

	CreateIndex uint64
	ModifyIndex uint64
}

// ACLTaskRule is which tasks have a policy: all of a namespace, or of a job, a group or a task in
// it. What is not named is empty.
type ACLTaskRule struct {
	Namespace, JobID, Group, Task string
}

// Has reports whether a task is one of them.
func (r *ACLTaskRule) Has(w *Workload) bool {
	is := func(named, name string) bool { return named == "" || named == name }
	return r != nil && r.Namespace == w.Namespace && is(r.JobID, w.JobID) && is(r.Group, w.Group) && is(r.Task, w.Task)
}

// Copy returns a deep copy.
func (t *ACLToken) Copy() *ACLToken {
	c := *t
	c.Hash, c.Policies, c.Roles = slices.Clone(t.Hash), slices.Clone(t.Policies), slices.Clone(t.Roles)
	return &c
}

// Expired reports whether the token is worth nothing any more at a time.
func (t *ACLToken) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }
