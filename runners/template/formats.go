package template

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v2"
)

const jsonIndent = "  "

// marshalled is how much longer a value is at most as JSON, YAML or TOML than when it is printed.
const marshalled = escaped

// writing makes a function that writes values in a form, at most so many bytes.
func (r *rendering) writing(costs func(v any) (int, error), write func(v any) ([]byte, error)) func(v any) (string, error) {
	return func(v any) (string, error) {
		n, err := costs(v)
		if err != nil {
			return "", err
		}
		if n > r.left {
			return "", errMade
		}
		out, err := write(v)
		if err != nil {
			return "", err
		}
		return string(out), r.spend(len(out))
	}
}

// compactSize is what a value takes in a form that does not indent it.
func compactSize(v any) (int, error) {
	s, err := sizeOf(v)
	return marshalled * s.printed(), err
}

// prettySize is what a value takes whose parts, and the lines and words of whose texts, are indented,
// each as deep as it is nested.
func prettySize(v any) (int, error) {
	n, _, err := layoutSize(v)
	return n, err
}

// tomlSize counts, too, that each table has the keys of all that it is in.
func tomlSize(v any) (int, error) {
	n, l, err := layoutSize(v)
	return n + l.paths, err
}

func layoutSize(v any) (int, layout, error) {
	n, err := compactSize(v)
	if err == nil && n > maxMade { // also: so much text need not be gone through
		err = errMade
	}
	if err != nil {
		return 0, layout{}, err
	}
	s := &sizer{layout: &layout{}}
	if err := s.add(reflect.ValueOf(v), 0); err != nil {
		return 0, layout{}, err
	}
	return n + times(s.parts+s.layout.breaks, 2+s.layout.deepest*len(jsonIndent)), *s.layout, nil
}

// asJSON writes JSON, in lines when it is indented, and with <, > and & as they are when it is not
// escaped.
func asJSON(indent string, escape bool) func(v any) ([]byte, error) {
	return func(v any) ([]byte, error) {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(escape)
		enc.SetIndent("", indent)
		if err := enc.Encode(v); err != nil {
			return nil, err
		}
		return bytes.TrimRight(out.Bytes(), "\n"), nil
	}
}

func asYAML(v any) ([]byte, error) {
	out, err := yaml.Marshal(v)
	return bytes.TrimSpace(out), err
}

func asTOML(v any) ([]byte, error) {
	var out bytes.Buffer
	err := toml.NewEncoder(&out).Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}

// parseJSON spends what a list of small numbers takes, the costliest there is.
func (r *rendering) parseJSON(s string) (any, error) {
	if err := r.spend(listPart * len(s)); err != nil {
		return nil, err
	}
	if s == "" {
		return map[string]any{}, nil
	}
	var out any
	if err := json.Unmarshal([]byte(s), &out); err != nil {
		return nil, err
	}
	return out, nil
}

// parseYAML spends, too, what is in many places of the text by a name: at most 400,000 parts while
// it is parsed, by the library's own bound.
func (r *rendering) parseYAML(s string) (any, error) {
	if err := r.spend(mapPart * len(s)); err != nil {
		return nil, err
	}
	if s == "" {
		return map[string]any{}, nil
	}
	var out any
	if err := yaml.Unmarshal([]byte(s), &out); err != nil {
		return nil, err
	}
	parts, err := sizeOf(out)
	if err != nil {
		return nil, err
	}
	return out, r.spend(parts.printed())
}

// splitToMap makes a map of a text such as a=b,c=d: the first separator is between its entries, the
// second in them. What has none is left out.
func (r *rendering) splitToMap(between, within, s string) (map[string]string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return map[string]string{}, nil
	}
	if err := r.spend(mapPart * (strings.Count(s, between) + 1)); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, entry := range strings.Split(s, between) {
		if key, value, found := strings.Cut(entry, within); found {
			out[key] = value
		}
	}
	return out, nil
}
