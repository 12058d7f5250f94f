package scan

import "github.com/wasmnode/wasmnode/sandbox/wasmbin"

// maxProducers bounds what is kept of a producers section: it is a courtesy of
// the compiler, and nothing depends on it.
const maxProducers = 64

// readProducers returns what can be read of a producers section. One that is not
// well-formed is no reason to refuse the module.
func readProducers(content []byte) []Producer {
	r := wasmbin.NewReader(content, "producers section")
	var out []Producer
	for range r.Count(2, maxProducers, "fields") {
		field := string(r.Name())
		for range r.Count(2, maxProducers, "values") {
			p := Producer{Field: field, Name: string(r.Name()), Version: string(r.Name())}
			if r.Err() != nil || len(out) == maxProducers {
				return out
			}
			out = append(out, p)
		}
	}
	return out
}
