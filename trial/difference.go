package trial

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Difference is where a replay was not as the recording.
type Difference struct {
	Call int    // which of the recording's, from 1
	Op   string // of the call
	// Use is which use of a capability in the call, from 1; 0: the call's outcome.
	Use int `json:",omitempty"`
	// Line is that of the recording.
	Line int
	What string
	// Recorded and Now are both sides as a whole. Paths are where they differ, the first of them.
	Recorded, Now json.RawMessage  `json:",omitempty"`
	Paths         []PathDifference `json:",omitempty"`
}

// PathDifference is a value that differs. A side that has none is nil.
type PathDifference struct {
	Path          string          // such as "task.env.A[0]"; empty: the whole
	Recorded, Now json.RawMessage `json:",omitempty"`
}

// Error says on one line where it is.
func (d *Difference) Error() string {
	where := fmt.Sprintf("call %d, %s", d.Call, d.Op)
	if d.Use > 0 {
		where += fmt.Sprintf(", use %d of a capability", d.Use)
	}
	return fmt.Sprintf("%s (line %d): %s", where, d.Line, d.What)
}

// differs compares what a plugin asks for with what it asked for; nil: it is the same.
func (u *RecordedUse) differs(op, capability string, a asked) *Difference {
	switch {
	case u.Op != op:
		return &Difference{What: "another operation asks", Recorded: quote(u.Op), Now: quote(op)}
	case u.Capability != capability:
		return &Difference{What: "another capability is asked for", Recorded: quote(u.Capability), Now: quote(capability)}
	case u.asked.number != a.number:
		return &Difference{What: capability + ": another stream", Recorded: number(u.asked.number), Now: number(a.number)}
	case u.asked.room != a.room:
		return &Difference{What: capability + ": room for another number of bytes", Recorded: number(u.asked.room), Now: number(a.room)}
	case !same(u.asked.request, a.request):
		return compare(capability+": the request differs", u.asked.request, a.request)
	}
	return nil
}

func number(n uint32) payload { return payload(strconv.FormatUint(uint64(n), 10)) }

// differs compares how a call ended with how it ended now; nil: it is the same.
func (o outcome) differs(now outcome) *Difference {
	switch {
	case o.kind() != now.kind():
		return &Difference{What: "the call ends in another way", Recorded: o.show(), Now: now.show()}
	case o.fault != now.fault:
		return compare("the fault differs", o.show(), now.show())
	case o.err != nil && *o.err != *now.err:
		return compare("the error differs", o.show(), now.show())
	case !same(o.answer, now.answer):
		return compare("the answer differs", o.answer, now.answer)
	}
	return nil
}

// kind is the way in which a call ended.
func (o outcome) kind() string {
	switch {
	case o.fault != "":
		return "fault"
	case o.err != nil:
		return "error"
	}
	return "answer"
}

// show is the outcome as JSON.
func (o outcome) show() payload {
	out, _ := json.Marshal(endLine{Answer: o.answer, Error: lineOfError(o.err), Fault: o.fault, Text: o.text}) // it can be encoded
	return out
}

func compare(what string, recorded, now payload) *Difference {
	d := &Difference{What: what, Recorded: recorded, Now: now}
	a, _ := decodeValue(recorded) // nothing is nothing
	b, _ := decodeValue(now)
	d.Paths = paths(nil, "", a, b)
	return d
}

// mostPaths is how many differences are told.
const mostPaths = 10

// paths finds where two values differ.
func paths(out []PathDifference, at string, a, b any) []PathDifference {
	if len(out) == mostPaths || reflect.DeepEqual(a, b) {
		return out
	}
	object, other := members(a), members(b)
	if object == nil || other == nil || reflect.TypeOf(a) != reflect.TypeOf(b) {
		return append(out, PathDifference{at, side(a), side(b)})
	}
	names := maps.Clone(object)
	maps.Copy(names, other)
	for _, name := range slices.SortedFunc(maps.Keys(names), byIndex) {
		v, has := object[name]
		w, hasToo := other[name]
		switch path := join(at, name); {
		case len(out) == mostPaths:
		case has && hasToo:
			out = paths(out, path, v, w)
		case has:
			out = append(out, PathDifference{path, side(v), nil})
		default:
			out = append(out, PathDifference{path, nil, side(w)})
		}
	}
	return out
}

// members are those of an object or a list, by their names or as "[0]"; nil: it is neither.
func members(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case []any:
		out := map[string]any{}
		for i, e := range v {
			out[fmt.Sprintf("[%d]", i)] = e
		}
		return out
	}
	return nil
}

// byIndex orders "[2]" before "[10]".
func byIndex(a, b string) int {
	if a[:min(1, len(a))] == "[" && b[:min(1, len(b))] == "[" && len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func join(at, name string) string {
	if at == "" || name != "" && name[0] == '[' {
		return at + name
	}
	return at + "." + name
}

func side(v any) json.RawMessage {
	out, _ := json.Marshal(v) // it was decoded
	return out
}
