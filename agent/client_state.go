package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// ClientState is what a node keeps of what it runs, as JSON can render it. What tasks were
// given is not in it: it may be secret.
type ClientState struct {
	NodeID string
	// Index is the control plane's, up to which the node has done what is wanted.
	Index       uint64
	Allocations map[string]ClientAllocation // by ID
	// Unreadable are allocations that could not be read, and why, by ID.
	Unreadable map[string]string `json:",omitempty"`
}

// ClientAllocation is what a node keeps of an allocation.
type ClientAllocation struct {
	Namespace, JobID, TaskGroup string
	DesiredStatus               structs.DesiredStatus
	ClientStatus                structs.ClientStatus // as the node computed it last
	Tasks                       map[string]ClientTask
}

// ClientTask is what a node keeps of a task, to take up where it left off.
type ClientTask struct {
	ID           string // of its last run; empty: none was started
	Driver       string
	PluginDigest string
	Handle       bool // the driver has left what it needs to find the task again
	Complete     bool // it is not to run again
	State        *structs.TaskState
}

// ReadClientState reads what is in a data directory that no agent uses.
func ReadClientState(dataDir string) (*ClientState, error) {
	path := filepath.Join(dataDir, clientFile)
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	db, err := state.Open(path, state.Options{})
	if err != nil {
		return nil, err
	}
	out, err := clientState(db)
	return out, errors.Join(err, db.Close())
}

func clientState(db state.DB) (*ClientState, error) {
	out := &ClientState{Allocations: map[string]ClientAllocation{}, Unreadable: map[string]string{}}
	if n, err := db.Node(); err != nil {
		return nil, err
	} else if n != nil {
		out.NodeID = n.ID
	}
	if seen, err := db.Seen(); err != nil {
		return nil, err
	} else if seen != nil {
		out.Index = seen.Index
	}
	allocs, unreadable, err := db.Allocations()
	if err != nil {
		return nil, err
	}
	for id, err := range unreadable {
		out.Unreadable[id] = err.Error()
	}
	for _, a := range allocs {
		if out.Allocations[a.ID], err = clientAllocation(db, a); err != nil {
			return nil, fmt.Errorf("allocation %s: %w", a.ID, err)
		}
	}
	return out, nil
}

func clientAllocation(db state.DB, a *structs.Allocation) (ClientAllocation, error) {
	out := ClientAllocation{
		Namespace: a.Namespace, JobID: a.JobID, TaskGroup: a.TaskGroup, DesiredStatus: a.DesiredStatus, ClientStatus: a.ClientStatus,
		Tasks: map[string]ClientTask{},
	}
	computed, err := db.AllocationState(a.ID)
	if err != nil {
		return out, err
	}
	if computed != nil {
		out.ClientStatus = computed.ClientStatus
	}
	for name := range a.Resources.Tasks {
		local, s, err := db.Task(a.ID, name)
		if err != nil {
			return out, err
		}
		t := ClientTask{State: s}
		if local != nil {
			t.ID, t.Driver, t.PluginDigest, t.Handle, t.Complete = local.TaskID, local.Driver, local.PluginDigest, len(local.Handle) > 0, local.RunComplete
		}
		out.Tasks[name] = t
	}
	return out, nil
}
