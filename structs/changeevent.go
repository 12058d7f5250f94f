package structs

import "errors"

// ChangeEvent tells that a row of the control plane was changed, with the words of Nomad's
// event stream. It is never changed.
type ChangeEvent struct {
	Topic     string // "Job", "Allocation", …
	Type      string // what happened: "JobRegistered", …
	Key       string // the row's ID
	Namespace string // empty: the row is in none
	// FilterKeys are other IDs that the row can be asked for by: its job's, for one.
	FilterKeys []string
	Index      uint64
	// Object is the row after the change, or as it was last when it is Deleted: a *nomad.Job,
	// *Allocation, *Evaluation, *Deployment, *Node, *nomad.NodePool, *ServiceRegistration or
	// *ACLToken.
	Object  any
	Deleted bool
}

// TopicACLToken is the topic of events that only who may manage tokens is told.
const TopicACLToken = "ACLToken"

// TopicACLRole is the topic of events of ACL roles, which are told to the same.
const TopicACLRole = "ACLRole"

// TopicACLPolicy is the topic of events of ACL policies, which are told to the same.
const TopicACLPolicy = "ACLPolicy"

// ChangeBatch is what was changed with one index.
type ChangeBatch struct {
	Index  uint64
	Events []*ChangeEvent
}

// ErrEventsLost is what a reader of events gets who asks for some that are kept no more.
var ErrEventsLost = errors.New("events are lost: the reader is too slow, or they are too old")

// Changes are what has changed since an index.
type Changes struct {
	// Batches have an event of each thing, as it is now, by the index of its last change. What it
	// was in between is not told, nor what is no more.
	Batches []*ChangeBatch
	// Index is the one up to which they tell, and Next the place of what comes after them.
	Index, Next uint64
}
