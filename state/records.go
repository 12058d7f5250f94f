package state

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs"
)

// The layout. Values are JSON.
//
//	allocations/<allocation ID>/allocation          structs.Allocation
//	allocations/<allocation ID>/state               structs.AllocationState
//	allocations/<allocation ID>/tasks/<task>/local  storedLocal: TaskLocal, in parts sealed
//	allocations/<allocation ID>/tasks/<task>/state  structs.TaskState
//	node/identity                                   NodeIdentity
//	node/seen                                       Seen
//	node/devices                                    DeviceState
//	node/drivers                                    DriverState
//	plugins/<plugin>/<key>/value                    PluginValue
//
// boltfile adds a bucket "meta" with the file's kind and schema version.
const (
	bucketAllocations = "allocations"
	bucketTasks       = "tasks"
	bucketNode        = "node"
	bucketPlugins     = "plugins"

	keyAllocation = "allocation"
	keyState      = "state"
	keyLocal      = "local"
	keyIdentity   = "identity"
	keySeen       = "seen"
	keyMeta       = "meta"
	keyDevices    = "devices"
	keyDrivers    = "drivers"
	keyValue      = "value"
)

// medium keeps bytes in nested buckets; what it promises is what boltfile does.
type medium interface {
	write(ops ...boltfile.Op) error
	// read hands over the value, nil when there is none; it is valid during the
	// call only.
	read(bucket []string, key string, found func([]byte) error) error
	// buckets names the buckets in a bucket, sorted.
	buckets(bucket []string) ([]string, error)
	close() error
}

// records implements DB over a medium.
type records struct {
	name string
	medium
	seal *seal // nil: nothing is sealed
}

// Name implements [DB].
func (r *records) Name() string { return r.name }

// Allocations implements [DB].
func (r *records) Allocations() ([]*structs.Allocation, map[string]error, error) {
	ids, err := r.buckets([]string{bucketAllocations})
	if err != nil {
		return nil, nil, err
	}
	var allocs []*structs.Allocation
	faults := map[string]error{}
	for _, id := range ids {
		a, err := get[structs.Allocation](r, []string{bucketAllocations, id}, keyAllocation)
		switch {
		case errors.Is(err, boltfile.ErrClosed):
			return nil, nil, err
		case err != nil:
			faults[id] = err
		case a == nil:
			faults[id] = fmt.Errorf("allocation %s: its tasks are stored, but it is not", id)
		case a.ID != id:
			faults[id] = fmt.Errorf("allocation %s: stored under another ID, %s", a.ID, id)
		default:
			allocs = append(allocs, a)
		}
	}
	return allocs, faults, nil
}

// PutAllocation implements [DB].
func (r *records) PutAllocation(a *structs.Allocation) error {
	return put(r, []string{bucketAllocations, a.ID}, keyAllocation, a)
}

// DeleteAllocation implements [DB].
func (r *records) DeleteAllocation(allocID string) error {
	return r.write(boltfile.Op{Bucket: []string{bucketAllocations, allocID}})
}

// AllocationState implements [DB].
func (r *records) AllocationState(allocID string) (*structs.AllocationState, error) {
	return get[structs.AllocationState](r, []string{bucketAllocations, allocID}, keyState)
}

// PutAllocationState implements [DB].
func (r *records) PutAllocationState(s *structs.AllocationState) error {
	return put(r, []string{bucketAllocations, s.ID}, keyState, s)
}

func taskBucket(allocID, task string) []string {
	return []string{bucketAllocations, allocID, bucketTasks, task}
}

// Task implements [DB].
func (r *records) Task(allocID, task string) (*TaskLocal, *structs.TaskState, error) {
	stored, err := get[storedLocal](r, taskBucket(allocID, task), keyLocal)
	if err != nil {
		return nil, nil, err
	}
	s, err := get[structs.TaskState](r, taskBucket(allocID, task), keyState)
	if err != nil {
		return nil, nil, err
	}
	return r.seal.opened(stored, sealedAs(allocID, task)), s, nil
}

// sealedAs is what the state of a task is bound to.
func sealedAs(allocID, task string) string { return allocID + "/" + task }

// PutTaskLocal implements [DB].
func (r *records) PutTaskLocal(allocID, task string, local *TaskLocal) error {
	op, err := r.puttingLocal(allocID, task, local)
	if err != nil {
		return err
	}
	return r.write(op)
}

func (r *records) puttingLocal(allocID, task string, local *TaskLocal) (boltfile.Op, error) {
	sealed, err := r.seal.sealed(local, sealedAs(allocID, task))
	if err != nil {
		return boltfile.Op{}, fmt.Errorf("%s: sealing task %s of %s: %w", r.name, task, allocID, err)
	}
	return putting(r, taskBucket(allocID, task), keyLocal, sealed)
}

// PutTaskState implements [DB].
func (r *records) PutTaskState(allocID, task string, s *structs.TaskState) error {
	return put(r, taskBucket(allocID, task), keyState, s)
}

// PutTask implements [DB].
func (r *records) PutTask(allocID, task string, local *TaskLocal, s *structs.TaskState) error {
	bucket := taskBucket(allocID, task)
	first, err := r.puttingLocal(allocID, task, local)
	if err != nil {
		return err
	}
	second, err := putting(r, bucket, keyState, s)
	if err != nil {
		return err
	}
	return r.write(first, second)
}

// Node implements [DB].
func (r *records) Node() (*NodeIdentity, error) {
	return get[NodeIdentity](r, []string{bucketNode}, keyIdentity)
}

// PutNode implements [DB].
func (r *records) PutNode(n *NodeIdentity) error {
	return put(r, []string{bucketNode}, keyIdentity, n)
}

// Seen implements [DB].
func (r *records) Seen() (*Seen, error) {
	return get[Seen](r, []string{bucketNode}, keySeen)
}

// PutSeen implements [DB].
func (r *records) PutSeen(s *Seen) error {
	return put(r, []string{bucketNode}, keySeen, s)
}

// NodeMeta implements [DB].
func (r *records) NodeMeta() (*NodeMeta, error) {
	return get[NodeMeta](r, []string{bucketNode}, keyMeta)
}

// PutNodeMeta implements [DB].
func (r *records) PutNodeMeta(m *NodeMeta) error {
	return put(r, []string{bucketNode}, keyMeta, m)
}

// Devices implements [DB].
func (r *records) Devices() (*DeviceState, error) {
	return get[DeviceState](r, []string{bucketNode}, keyDevices)
}

// PutDevices implements [DB].
func (r *records) PutDevices(d *DeviceState) error {
	return put(r, []string{bucketNode}, keyDevices, d)
}

// Drivers implements [DB].
func (r *records) Drivers() (*DriverState, error) {
	return get[DriverState](r, []string{bucketNode}, keyDrivers)
}

// PutDrivers implements [DB].
func (r *records) PutDrivers(d *DriverState) error {
	return put(r, []string{bucketNode}, keyDrivers, d)
}

// PluginValues implements [DB].
func (r *records) PluginValues(plugin string) (map[string]*PluginValue, error) {
	keys, err := r.buckets([]string{bucketPlugins, plugin})
	if err != nil {
		return nil, err
	}
	values := make(map[string]*PluginValue, len(keys))
	for _, key := range keys {
		v, err := get[PluginValue](r, []string{bucketPlugins, plugin, key}, keyValue)
		if err != nil {
			return nil, err
		}
		if v != nil {
			values[key] = v
		}
	}
	return values, nil
}

// PutPluginValue implements [DB].
func (r *records) PutPluginValue(plugin, key string, v *PluginValue) error {
	return put(r, []string{bucketPlugins, plugin, key}, keyValue, v)
}

// DeletePluginValue implements [DB].
func (r *records) DeletePluginValue(plugin, key string) error {
	return r.write(boltfile.Op{Bucket: []string{bucketPlugins, plugin, key}})
}

// Close implements [DB].
func (r *records) Close() error { return r.close() }

func put[T any](r *records, bucket []string, key string, v *T) error {
	op, err := putting(r, bucket, key, v)
	if err != nil {
		return err
	}
	return r.write(op)
}

func putting[T any](r *records, bucket []string, key string, v *T) (boltfile.Op, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return boltfile.Op{}, fmt.Errorf("%s: encoding %v/%s: %w", r.name, bucket, key, err)
	}
	return boltfile.Op{Bucket: bucket, Key: key, Value: value}, nil
}

func get[T any](r *records, bucket []string, key string) (v *T, err error) {
	err = r.read(bucket, key, func(value []byte) error {
		if value == nil {
			return nil
		}
		v = new(T)
		if err := json.Unmarshal(value, v); err != nil {
			v = nil
			return fmt.Errorf("%s: %v/%s: %w", r.name, bucket, key, err)
		}
		return nil
	})
	return v, err
}
