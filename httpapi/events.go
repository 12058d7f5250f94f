package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/structs"
)

const (
	// eventHeartbeat is how often a stream of events that has nothing to tell says so, as in
	// Nomad.
	eventHeartbeat = 30 * time.Second
	// eventTimeout is how long a client may take to read one batch of events.
	eventTimeout = 30 * time.Second
	// maxTopics bounds how many topics one stream may name.
	maxTopics = 256
)

func (h *handler) eventRoutes() {
	h.rendered = newRenderedBatches()
	h.method("/v1/event/stream", h.streamEvents, http.MethodGet)
}

// streamEvents sends what is committed, a batch of JSON a line, in the order of the indexes,
// from what is kept of the index asked for. A client that reads so slowly that the next batch
// is kept no more gets a line with an error, and the end.
func (h *handler) streamEvents(w http.ResponseWriter, r *http.Request) error {
	wanted, err := eventFilter(r)
	if err != nil {
		return err
	}
	if err := checkTopics(wanted); err != nil {
		return err
	}
	var index uint64
	if s := r.URL.Query().Get("index"); s != "" {
		if index, err = strconv.ParseUint(s, 10, 64); err != nil {
			return badRequest("Unable to parse index: %q is not a number", s)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	out := &eventWriter{w: w, flush: http.NewResponseController(w)}
	place := h.ControlPlane.EventsFrom(index) // what comes after the first line is the client's
	if err := out.line([]byte("{}")); err != nil {
		return nil // the client is gone
	}
	defer clientapi.AtIntervals(r.Context(), eventHeartbeat, out.heartbeat)()
	for ; ; place++ {
		batch, err := h.ControlPlane.NextEvents(r.Context(), place)
		switch {
		case errors.Is(err, structs.ErrEventsLost):
			return out.line(fmt.Appendf(nil, `{"Error":"%s: read faster, or ask for what is left with another request"}`, err))
		case err != nil:
			return nil // the client is gone, or the agent ends
		}
		if wanted.caller, err = h.callerNow(r); err != nil { // the token may have been deleted
			return out.line(fmt.Appendf(nil, `{"Error":%q}`, err.Error()))
		}
		events, err := h.rendered.events(place, batch, wanted)
		if err != nil {
			h.Logger.Error("an event cannot be rendered", "index", batch.Index, "error", err)
			continue
		}
		if len(events) == 0 {
			continue
		}
		if err := out.batch(batch.Index, events); err != nil {
			return nil
		}
	}
}

// topicFilter is one `topic` parameter: of a topic, or of all ("*"), one key, or all ("*").
type topicFilter struct{ topic, key string }

// events is what a client asked for.
type events struct {
	topics    []topicFilter
	namespace string // "*": all
	caller    *caller
}

// eventTopics are those that there are. Nomad's others are of what is not here: nothing ever
// happens to it.
var eventTopics = []string{
	"*", "ACLAuthMethod", "ACLBindingRule", "ACLPolicy", "ACLRole", "ACLToken", "Allocation", "CSIPlugin", "CSIVolume", "Deployment",
	"Evaluation", "HostVolume", "Job", "Node", "NodeDrain", "NodePool", "Operator", "Service", "Variable",
}

func eventFilter(r *http.Request) (*events, error) {
	v := r.URL.Query()
	wanted := &events{namespace: v.Get("namespace"), caller: callerOf(r)}
	if wanted.namespace == "" {
		wanted.namespace = nomad.DefaultNamespace
	}
	if len(v["topic"]) > maxTopics {
		return nil, badRequest("too many topics: %d, where %d are allowed", len(v["topic"]), maxTopics)
	}
	var wrong string
	if wanted.topics, wrong = topicFilters(v["topic"]); wrong != "" {
		return nil, badRequest("Invalid topic query: error parsing topics: Invalid key value pair for topic, topic: %s", wrong)
	}
	return wanted, nil
}

// topicFilters are what topics such as "Job" and "Job:web" ask for, or one that is none of these.
func topicFilters(topics []string) (list []topicFilter, wrong string) {
	for _, s := range topics {
		filter, is := oneTopic(s)
		if !is || !slices.Contains(eventTopics, filter.topic) {
			return nil, s
		}
		list = append(list, filter)
	}
	if len(list) == 0 {
		list = []topicFilter{{"*", "*"}}
	}
	return list, ""
}

// oneTopic is what a topic such as "Job" or "Job:web" asks for, whether there is one of the name or not.
func oneTopic(s string) (f topicFilter, is bool) {
	topic, key, has := strings.Cut(s, ":")
	if !has {
		key = "*"
	}
	return topicFilter{topic, key}, topic != "" && key != "" && !strings.Contains(key, ":")
}

// managed are the topics of what only managers are told.
var managed = []string{structs.TopicACLToken, structs.TopicACLPolicy, structs.TopicACLRole}

// checkTopics refuses who asks by its name for what is told to managers alone. Where all is
// asked for, that is left out, as what rules do not allow is.
func checkTopics(wanted *events) error {
	for _, t := range wanted.topics {
		if slices.Contains(managed, t.topic) && wanted.caller.rights.Level() < acl.Manager {
			return access.ErrDenied
		}
	}
	return nil
}

// mayHear reports whether the caller may be told of an event.
func (c *caller) mayHear(e *structs.ChangeEvent) bool {
	switch {
	case slices.Contains(managed, e.Topic):
		return c.rights.Level() == acl.Manager
	case e.Topic == "HostVolume":
		return c.readsVolumes(e.Namespace)
	case e.Namespace != "":
		return c.readsJobs(e.Namespace)
	case e.Topic == "NodePool":
		return c.seesPool(e.Key)
	}
	return c.readsNodes()
}

// has reports whether a client asked for an event, and may be told of it.
func (f *events) has(e *structs.ChangeEvent) bool { return f.wants(e) && f.caller.mayHear(e) }

// wants reports whether an event was asked for.
func (f *events) wants(e *structs.ChangeEvent) bool {
	if e.Namespace != "" && f.namespace != "*" && e.Namespace != f.namespace {
		return false
	}
	return slices.ContainsFunc(f.topics, func(t topicFilter) bool {
		return (t.topic == "*" || t.topic == e.Topic) &&
			(t.key == "*" || t.key == e.Key || slices.Contains(e.FilterKeys, t.key))
	})
}

// eventJSON is an event as Nomad's clients read it.
type eventJSON struct {
	Topic      string
	Type       string
	Key        string
	Namespace  string
	FilterKeys []string
	Index      uint64
	Payload    map[string]any
}

// renderEvent renders an event.
func renderEvent(e *structs.ChangeEvent) ([]byte, error) {
	payload := map[string]any{}
	switch o := e.Object.(type) {
	case *nomad.Job:
		payload["Job"] = o
	case *structs.Allocation:
		a := answeredAllocation(o)
		a.Job = nil // as in Nomad: it is large, and the same for all
		payload["Allocation"] = a
	case *structs.Evaluation:
		payload["Evaluation"] = answeredEvaluation(o)
	case *structs.Deployment:
		payload["Deployment"] = answeredDeployment(o)
	case *structs.Node:
		payload["Node"] = answeredNode(o)
	case *nomad.NodePool:
		payload["NodePool"] = answeredPool(o)
	case *structs.ServiceRegistration:
		payload["Service"] = answeredService(o)
	case *nomad.HostVolume:
		payload["Volume"] = o
	case *structs.ACLPolicy:
		payload["ACLPolicy"] = aclPolicy(o)
	case *structs.ACLRole:
		payload["ACLRole"] = aclRole(o)
	case *structs.ACLToken:
		payload["ACLToken"] = aclToken(o, "", nil)
	default:
		return nil, fmt.Errorf("an event of a %T", o)
	}
	if e.Deleted {
		payload["Deleted"] = true
	}
	return json.Marshal(eventJSON{
		Topic: e.Topic, Type: e.Type, Key: e.Key, Namespace: e.Namespace, FilterKeys: e.FilterKeys, Index: e.Index, Payload: payload,
	})
}
