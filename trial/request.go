package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
)

// Operation is the name of an operation that the plugin exports, which may be written without
// "driver_" or "device_" before it. The error lists those that there are.
func (t *Trial) Operation(name string) (string, error) {
	operations := t.plugin.Spec().Operations
	for _, op := range []string{name, string(t.plugin.Spec().Kind) + "_" + name} {
		if slices.Contains(operations, op) {
			return op, nil
		}
	}
	return "", fmt.Errorf("unknown operation %q: the plugin has %s", name, strings.Join(operations, ", "))
}

// Prepare makes a call of a request that is written as JSON, by the rules of Protocol Buffers:
// bytes, which are base64 there, may also be a JSON object, whose text they are. A
// [*PositionError] says where it is none. What the request leaves out of its task is that of one
// with the directory alloc, where directories are made; its driver_config is checked, as by a
// node. A request that names a task by its ID, or should, is about that task.
func (t *Trial) Prepare(op string, request []byte, alloc string) (Call, error) {
	m, err := readRequest(op, request)
	if err != nil {
		return Call{}, err
	}
	task, err := t.fillTask(m, alloc)
	if err != nil {
		return Call{}, err
	}
	encoded, err := proto.Marshal(m)
	return Call{Op: op, Request: encoded, Task: task}, err
}

// fillTask completes the task of a request, and returns it; nil: the request has none.
func (t *Trial) fillTask(m *dynamicpb.Message, alloc string) (*wasmnodev1.TaskConfig, error) {
	whole, id := m.Descriptor().Fields().ByName("task"), m.Descriptor().Fields().ByName("task_id")
	if whole == nil && id == nil {
		return nil, nil
	}
	task, err := conform.Task(alloc, 1, nil)
	if err != nil {
		return nil, err
	}
	if whole == nil {
		if given := m.Get(id).String(); given != "" {
			task.Id = given
		}
		m.Set(id, protoreflect.ValueOfString(task.Id))
		return task, nil
	}
	given := m.Mutable(whole).Message().Interface().(*dynamicpb.Message)
	if err := mergeTask(task, given); err != nil {
		return nil, err
	}
	if task.DriverConfig, err = t.checkTask(task.DriverConfig); err != nil {
		return nil, err
	}
	encoded, err := task.MarshalVT()
	if err != nil {
		return nil, err
	}
	return task, proto.Unmarshal(encoded, given)
}

// mergeTask puts what is given over a task.
func mergeTask(task *wasmnodev1.TaskConfig, given *dynamicpb.Message) error {
	encoded, err := task.MarshalVT()
	if err != nil {
		return err
	}
	merged := dynamicpb.NewMessage(given.Descriptor())
	if err := proto.Unmarshal(encoded, merged); err != nil {
		return err
	}
	proto.Merge(merged, given)
	if encoded, err = proto.Marshal(merged); err != nil {
		return err
	}
	task.Reset()
	return task.UnmarshalVT(encoded)
}

// checkTask checks the config of a task as a node does; none is an empty one.
func (t *Trial) checkTask(config []byte) ([]byte, error) {
	value := map[string]any{}
	if len(config) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(config))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			return nil, fmt.Errorf("task.driver_config is not a JSON object: %w", err)
		}
	}
	checked, err := t.TaskConfig(value)
	if err != nil {
		return nil, fmt.Errorf("task.driver_config: %w", err)
	}
	return checked, nil
}
