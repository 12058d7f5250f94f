package testfile

import (
	"unicode/utf8"
)

// fact is what a plugin did to a node.
type fact struct {
	message string // the values' fields are its; empty: they are no messages
	of      func(node) (any, error)
}

// facts are what an expect step compares, by their names.
var facts = map[string]fact{
	"stdout":    {"", func(n node) (any, error) { return n.Stdout(), nil }},
	"stderr":    {"", func(n node) (any, error) { return n.Stderr(), nil }},
	"logs":      {"", logs},
	"signals":   {"", signals},
	"kept":      {"", kept},
	"refreshes": {"", func(n node) (any, error) { return int64(n.Refreshes()), nil }},
	"events":    {"TaskEvent", func(n node) (any, error) { return decoded("TaskEvent", n.Events()) }},
	"processes": {"ProcessStartRequest", func(n node) (any, error) { return decoded("ProcessStartRequest", n.Processes()) }},
	"programs":  {"WasmStartRequest", func(n node) (any, error) { return decoded("WasmStartRequest", n.Programs()) }},
	"helpers":   {"ProcessRunRequest", func(n node) (any, error) { return decoded("ProcessRunRequest", n.Helpers()) }},
}

// decoded are the values of messages of that name.
func decoded[M interface{ MarshalVT() ([]byte, error) }](message string, all []M) (any, error) {
	list := []any{}
	for _, m := range all {
		encoded, err := m.MarshalVT()
		if err != nil {
			return nil, err
		}
		v, err := decode(message, encoded)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// logs are the lines that the plugin logged: level, message and fields of each.
func logs(n node) (any, error) {
	list := []any{}
	for _, line := range n.Logs() {
		fields := map[string]any{}
		for name, v := range line.Fields {
			fields[name] = v
		}
		list = append(list, map[string]any{"level": line.Level, "message": line.Message, "fields": fields})
	}
	return list, nil
}

// signals are the names of those that the plugin sent to workloads, also to stop them.
func signals(n node) (any, error) {
	list := []any{}
	for _, s := range n.WorkloadSignals() {
		list = append(list, s.Signal)
	}
	return list, nil
}

// kept are the texts that the plugin keeps, by their keys; of bytes that are no text, how many.
func kept(n node) (any, error) {
	all := map[string]any{}
	for key, v := range n.Kept() {
		all[key] = int64(len(v))
		if utf8.Valid(v) {
			all[key] = string(v)
		}
	}
	return all, nil
}
