package template

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// The kinds of what is looked up.
const (
	serviceLookup   = "service"   // no name: all services
	variableLookup  = "variable"  //
	variablesLookup = "variables" // those whose paths begin with the name
)

// lookup is one of the things that a rendering depends on.
type lookup struct{ kind, namespace, name string }

func (l lookup) key() string { return l.kind + " " + l.namespace + "/" + l.name }

// lookupOf is that of a key.
func lookupOf(key string) lookup {
	kind, rest, _ := strings.Cut(key, " ")
	namespace, name, _ := strings.Cut(rest, "/")
	return lookup{kind, namespace, name}
}

// lookupSize is about what it costs to look up what there is not.
const lookupSize = 512

// lookup checks what is about to be looked up, and completes it. Each that is is looked at once a
// second from then on, also what there is not.
func (r *rendering) lookup(l lookup, region string) (lookup, error) {
	if own := r.region(); region != "" && region != own {
		return l, fmt.Errorf("no path to region %q", region)
	}
	l.namespace = cmp.Or(l.namespace, r.in.Namespace)
	if len(l.namespace) > maxNamespace {
		return l, fmt.Errorf("%.80q… is longer than a namespace's name: at most %d bytes", l.namespace, maxNamespace)
	}
	if _, known := r.lookups[l.key()]; known {
		return l, nil
	}
	if len(r.lookups) >= maxLookups {
		return l, fmt.Errorf("it looks up more than %d different services and variables", maxLookups)
	}
	r.lookups[l.key()] = unknownStamp // until it has been read: what cannot be is tried again
	return l, nil
}

// unknownStamp is no stamp of anything.
const unknownStamp = ""

func (r *rendering) region() string {
	own, _ := r.in.Env.Lookup("NOMAD_REGION")
	return own
}

// found notes what was looked up first.
func (r *rendering) found(l lookup, stamp string) {
	if r.lookups[l.key()] == unknownStamp {
		r.lookups[l.key()] = stamp
	}
}

// stampOf is of a list: what is in it, and when each changed last.
func stampOf[T any](list []T, of func(T) (id string, index uint64)) string {
	h := fnv.New64a()
	for _, what := range list {
		id, index := of(what)
		_, _ = h.Write(binary.BigEndian.AppendUint64([]byte(id), index)) // it never fails
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// LookupStamp shows whether what a rendering looked up has changed since. What cannot be looked up
// has the stamp that it had before.
func (in Input) LookupStamp(ctx context.Context, key, before string) string {
	l := lookupOf(key)
	switch {
	case l.kind == serviceLookup && in.Services != nil:
		if list, err := in.Services.FindServices(ctx, l.namespace, l.name); err == nil {
			return servicesStamp(list)
		}
	case l.kind == variableLookup && in.Variables != nil:
		if index, err := in.Variables.TaskVariableIndex(ctx, in.Task, l.namespace, l.name); err == nil {
			return variableStamp(index)
		}
	case l.kind == variablesLookup && in.Variables != nil:
		if stamp, err := in.Variables.TaskVariablesStamp(ctx, in.Task, l.namespace, l.name); err == nil {
			return variableStamp(stamp)
		}
	}
	return before
}
