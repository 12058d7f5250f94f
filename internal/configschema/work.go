package configschema

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// errTooMuchWork is what stops a check that would take too long.
var errTooMuchWork = fmt.Errorf("checking it takes more than %d steps: the schema is too complex", maxChecks)

// meter counts the steps of one check. The library offers no bound and no context,
// but calls extensions and regular expressions, and both count here.
type meter struct{ left int }

// spend counts n steps and panics with [errTooMuchWork] when they are used up;
// see guard.
func (m *meter) spend(n int) {
	if m.left -= n; m.left < 0 {
		panic(errTooMuchWork)
	}
}

// guard runs check and turns its panics into errors: the meter's own, and those
// of a library that met a schema it did not expect.
func (m *meter) guard(check func() error) (err error) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case errTooMuchWork:
			err = errTooMuchWork
		default:
			err = fmt.Errorf("cannot be checked: %v", r)
		}
	}()
	return check()
}

// vocabulary has the library call the meter for each schema that it applies.
func (m *meter) vocabulary() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: location + "#meter",
		Compile: func(_ *jsonschema.CompilerContext, schema map[string]any) (jsonschema.SchemaExt, error) {
			return step{m, 1 + parts(schema)}, nil
		},
	}
}

// parts counts what one application of a schema can apply in its turn.
func parts(schema map[string]any) int {
	n := 0
	for _, v := range schema {
		switch v := v.(type) {
		case []any:
			n += len(v)
		case map[string]any:
			n += len(v)
		}
	}
	return n
}

type step struct {
	meter *meter
	cost  int
}

// Validate implements jsonschema.SchemaExt.
func (s step) Validate(*jsonschema.ValidatorContext, any) { s.meter.spend(s.cost) }

// regexps compiles patterns that count.
func (m *meter) regexps(pattern string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return meteredRegexp{re, m}, nil
}

type meteredRegexp struct {
	*regexp.Regexp
	meter *meter
}

func (r meteredRegexp) MatchString(s string) bool {
	r.meter.spend(1 + len(s)/64)
	return r.Regexp.MatchString(s)
}

// prepare rewrites a schema's document so that nothing in it escapes the meter.
// The library skips extensions of a schema whose array or object keywords failed
// while it looks for a plain yes or no (below "not" and "if"); behind an allOf of
// its own, each such part is counted nevertheless. Numbers must be such as a
// float64 can hold: the library computes with rationals of any size.
func prepare(document any) error {
	switch v := document.(type) {
	case map[string]any:
		if part, ok := v["contains"].(map[string]any); ok {
			v["contains"] = counted(part)
		}
		if parts, ok := v["dependentSchemas"].(map[string]any); ok {
			for name, part := range parts {
				parts[name] = counted(part)
			}
		}
		for _, member := range v {
			if err := prepare(member); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := prepare(item); err != nil {
				return err
			}
		}
	case interface{ Float64() (float64, error) }:
		if _, err := v.Float64(); err != nil {
			return errors.New("a number is out of range")
		}
	}
	return nil
}

func counted(part any) any { return map[string]any{"allOf": []any{part}} }
