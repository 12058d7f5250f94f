package trial

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wasmnode/wasmnode/abi"
)

// messagesOf are the messages that a capability takes and answers; empty: none, or bytes.
var messagesOf = map[string][2]string{
	"task/v1 event":       {"TaskEvent", ""},
	"task/v1 marked":      {"", "OutputMark"},
	"wasm/v1 start":       {"WasmStartRequest", "WasmStartResponse"},
	"process/v1 start":    {"ProcessStartRequest", "ProcessStartResponse"},
	"process/v1 support":  {"ProcessSupportRequest", "ProcessSupport"},
	"process/v1 run":      {"ProcessRunRequest", "ProcessRunResponse"},
	"stream/v1 poll":      {"StreamPollRequest", "StreamPollResponse"},
	"net/v1 dial":         {"NetDialRequest", "NetDialResponse"},
	"http/v1 request":     {"HttpRequest", "HttpRequestResponse"},
	"http/v1 response":    {"", "HttpResponse"},
	"http/v1 trailers":    {"", "HttpTrailers"},
	"kv/v1 get":           {"KvGetRequest", "KvGetResponse"},
	"kv/v1 set":           {"KvSetRequest", "KvSetResponse"},
	"kv/v1 delete":        {"KvDeleteRequest", "KvDeleteResponse"},
	"kv/v1 list":          {"KvListRequest", "KvListResponse"},
	"exec/v1 open":        {"", "ExecStreams"},
	"workload/v1 signal":  {"WorkloadSignalRequest", "WorkloadSignalResponse"},
	"workload/v1 stop":    {"WorkloadStopRequest", "WorkloadStopResponse"},
	"workload/v1 wait":    {"WorkloadWaitRequest", "WorkloadWaitResponse"},
	"workload/v1 stats":   {"WorkloadStatsRequest", "WorkloadStatsResponse"},
	"workload/v1 inspect": {"WorkloadInspectRequest", "WorkloadInspectResponse"},
	"workload/v1 exec":    {"WorkloadExecRequest", "WorkloadExecResponse"},
}

// capabilityName is how people read a function: "process/v1 start".
func capabilityName(module, function string) string {
	return strings.TrimPrefix(module, abi.ModulePrefix) + " " + function
}

// OperationMessage is the name in the contract of an operation's message of a kind, Request or Response.
func OperationMessage(op, kind string) string {
	var name strings.Builder
	for word := range strings.SplitSeq(op, "_") {
		if word != "" {
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return name.String() + kind
}

// NewMessage returns an empty message of the contract's, by its name without the package's.
func NewMessage(name string) (*dynamicpb.Message, error) {
	d, err := schema().FindDescriptorByName(protoreflect.FullName("wasmnode.v1." + name))
	if err != nil {
		return nil, err
	}
	m, ok := d.(protoreflect.MessageDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no message", name)
	}
	return dynamicpb.NewMessage(m), nil
}

// payload is what goes one way as JSON: an object that is a message; a text; or, of bytes that
// are neither, {"base64": "…"}. Nil: nothing.
type payload = json.RawMessage

// show makes a payload, with its secrets masked, of what is a message of that name; "": of bytes.
func (k *masker) show(name string, b []byte) payload {
	if name != "" {
		if m, err := NewMessage(name); err == nil && proto.Unmarshal(b, m) == nil {
			k.message(m)
			if text, err := encodeJSON(m, isExact); err == nil {
				return text
			}
		}
	}
	if len(b) == 0 {
		return nil
	}
	return quote(k.Text(string(b)))
}

// quote is the payload of bytes.
func quote(s string) payload {
	var value any = s
	if !utf8.ValidString(s) {
		value = map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(s))}
	}
	out, _ := json.Marshal(value) // a text can be encoded
	return out
}

// isExact reports whether bytes are a JSON object that is the same when it has been written into
// another: some drivers know their state by its bytes.
func isExact(b []byte) bool {
	if !isObject(b) {
		return false
	}
	written, err := json.Marshal(json.RawMessage(b))
	return err == nil && bytes.Equal(written, b)
}

// given is a payload as it is in a text.
func given(p payload) payload {
	if string(p) == "null" {
		return nil
	}
	return p
}

// same reports whether two payloads say the same, in whatever order.
func same(a, b payload) bool { return bytes.Equal(a, b) || bytes.Equal(canonical(a), canonical(b)) }

func canonical(p payload) []byte {
	value, err := decodeValue(p)
	if err != nil {
		return nil
	}
	out, _ := json.Marshal(value) // it was decoded
	return out
}

// wire is the inverse of show: what goes to a plugin.
func wire(name string, p payload) ([]byte, error) {
	var text string
	var raw struct {
		Base64 *[]byte `json:"base64"`
	}
	switch {
	case len(p) == 0:
		return nil, nil
	case json.Unmarshal(p, &text) == nil:
		return []byte(text), nil
	case bytes.HasPrefix(p, []byte(`{"base64":`)):
		if err := json.Unmarshal(p, &raw); err != nil || raw.Base64 == nil {
			return nil, errors.New("base64 is expected")
		}
		return *raw.Base64, nil
	case name == "":
		return nil, errors.New(`a text or {"base64": "…"} is expected`)
	}
	m, err := NewMessage(name)
	if err != nil {
		return nil, err
	}
	if err := decodeJSON(p, m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}
