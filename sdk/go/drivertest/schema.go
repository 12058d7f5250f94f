package drivertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// schemaURL names the schema to its compiler.
const schemaURL = "mem:///schema.json"

// applySchema checks config against a JSON Schema and returns it with the schema's
// defaults. An empty schema takes nothing.
func applySchema(schema string, config []byte) ([]byte, error) {
	if len(bytes.TrimSpace(config)) == 0 {
		config = []byte("{}")
	}
	if schema == "" {
		schema = `{"type":"object","additionalProperties":false}`
	}
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	compiler.ExtractAnnotations = true // the defaults are among them
	compiler.LoadURL = func(url string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("%s: a schema cannot refer out of itself", url)
	}
	if err := compiler.AddResource(schemaURL, strings.NewReader(schema)); err != nil {
		return nil, fmt.Errorf("the driver's schema: %w", err)
	}
	compiled, err := compiler.Compile(schemaURL)
	if err != nil {
		return nil, fmt.Errorf("the driver's schema: %w", err)
	}
	value, err := decode(config)
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	value = withDefaults(compiled, value)
	if err := compiled.Validate(value); err != nil {
		return nil, err
	}
	return encode(value)
}

// encode is the inverse of decode.
func encode(value any) ([]byte, error) { return json.Marshal(value) }

// withDefaults fills in what is missing in objects, at any depth.
func withDefaults(s *jsonschema.Schema, value any) any {
	if s == nil {
		return value
	}
	if s.Ref != nil {
		value = withDefaults(s.Ref, value)
	}
	switch v := value.(type) {
	case map[string]any:
		for name, property := range s.Properties {
			if _, ok := v[name]; !ok {
				if d := defaultOf(property); d != nil {
					v[name] = d
				}
			}
			if member, ok := v[name]; ok {
				v[name] = withDefaults(property, member)
			}
		}
	case []any:
		for i := range v {
			v[i] = withDefaults(s.Items2020, v[i])
		}
	}
	return value
}

func defaultOf(s *jsonschema.Schema) any {
	for s != nil {
		if s.Default != nil {
			return s.Default
		}
		s = s.Ref
	}
	return nil
}

// decode reads one JSON value, its numbers as they are written.
func decode(text []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more after the value")
	}
	return value, nil
}
