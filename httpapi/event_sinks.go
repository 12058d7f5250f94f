package httpapi

import (
	"bytes"
	"fmt"

	"github.com/wasmnode/wasmnode/structs"
)

// EventFilter is what somebody is told of events whom the operator of the node has told them to:
// as with a stream of events, but without asking what its reader may know. It may be used
// concurrently.
type EventFilter struct{ wanted events }

// NewEventFilter is of topics and a namespace as the parameters of /v1/event/stream are: no topics
// are all, and so is the namespace "*". The error says which topic there is not.
func NewEventFilter(topics []string, namespace string) (*EventFilter, error) {
	list, wrong := topicFilters(topics)
	if wrong != "" {
		return nil, fmt.Errorf("topics: %q is none such as \"Allocation\" or \"Job:web\"; there are %q", wrong, eventTopics)
	}
	return &EventFilter{events{topics: list, namespace: namespace}}, nil
}

// Line renders batches, which are in the order of their indexes, as one line of /v1/event/stream
// without its end. It returns nil where there is nothing to tell of them.
func (f *EventFilter) Line(batches []*structs.ChangeBatch) ([]byte, error) {
	var line bytes.Buffer
	var last uint64
	for _, b := range batches {
		for _, e := range b.Events {
			if !f.wanted.wants(e) {
				continue
			}
			rendered, err := renderEvent(e)
			if err != nil {
				return nil, err
			}
			if line.Len() == 0 {
				line.WriteString(`{"Events":[`)
			} else {
				line.WriteByte(',')
			}
			line.Write(rendered)
		}
		last = b.Index
	}
	if line.Len() == 0 {
		return nil, nil
	}
	fmt.Fprintf(&line, `],"Index":%d}`, last)
	return line.Bytes(), nil
}
