package configschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The bounds of schemas and values. Crossing one is an error that names it.
const (
	// MaxSchemaBytes bounds a schema's text; a large driver's has some 20 KiB.
	MaxSchemaBytes = 256 << 10
	// MaxDepth bounds how deeply a schema's text and a value are nested. A level
	// of a schema takes two or three.
	MaxDepth = 64
	// MaxValues bounds the values in a configuration, at all depths.
	MaxValues = 50_000
	// MaxFaults bounds the faults that are listed one by one.
	MaxFaults = 20
	// maxChecks bounds how often parts of a schema are applied in one check. Small
	// schemas can ask for endless work by referring to themselves twice.
	maxChecks = 300_000
)

// location is the schema's name for the library; nothing is loaded from it.
const location = "schema:///plugin.json"

const draft = "https://json-schema.org/draft/2020-12/schema"

// Schema is a compiled schema. It may be used by several goroutines.
type Schema struct {
	root *jsonschema.Schema
	none bool // the plugin gave no schema
	// work is counted through the library's own hook, which has no place for the
	// state of one check: checks of one schema take turns.
	mu   sync.Mutex
	work *meter
}

// Compile compiles the text of a schema. The empty text takes no configuration.
//
// What a schema does not mention is forbidden: an object without a word on
// additionalProperties, or the like, takes the properties that it lists.
//
// # Errors
//
// The error describes on one line what is wrong with the schema.
func Compile(text string) (*Schema, error) {
	s := &Schema{work: new(meter), none: text == ""}
	if s.none {
		text = `{"type":"object"}`
	}
	document, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(s.work.regexps)
	compiler.RegisterVocabulary(s.work.vocabulary())
	compiler.AssertVocabs()
	if err := s.compile(compiler, document); err != nil {
		return nil, fmt.Errorf("schema: %w", oneLine(err))
	}
	if err := checkDefaults(s); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return s, nil
}

// parse reads a schema's text and checks what the library does not.
func parse(text string) (any, error) {
	if len(text) > MaxSchemaBytes {
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", len(text), MaxSchemaBytes)
	}
	if err := checkNesting(text); err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("not JSON: %s", printable(err.Error()))
	}
	object, ok := document.(map[string]any)
	if !ok {
		return nil, errors.New("not a JSON object")
	}
	if used, ok := object["$schema"]; ok && strings.TrimSuffix(fmt.Sprint(used), "#") != draft {
		return nil, fmt.Errorf("$schema is %s, want %q", quote(fmt.Sprint(used)), draft)
	}
	if t, ok := object["type"]; ok && t != "object" {
		return nil, fmt.Errorf("type is %s, want \"object\": a configuration is a block", quoteValue(t))
	}
	return document, prepare(document)
}

// compile compiles document. The library panics on some malformed schemas.
func (s *Schema) compile(compiler *jsonschema.Compiler, document any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New(printable(fmt.Sprintf("malformed: %v", r)))
		}
	}()
	if err := compiler.AddResource(location, document); err != nil {
		return err
	}
	s.root, err = compiler.Compile(location)
	return err
}

// Check fits config to the schema and returns what the plugin gets: a new value of
// maps, slices, strings, booleans, nil, int64, float64 and json.Number, with
// defaults applied. Config is left as it was; it may hold whatever decoding HCL or
// JSON gives. Block is the name of the block that config comes from, for messages.
//
// # Errors
//
// A [*FaultsError] lists every fault with its path.
func (s *Schema) Check(block string, config map[string]any) (map[string]any, error) {
	at := path{{name: block}}
	faults := &faults{none: s.none}
	n := normaliser{faults: faults}
	value, _ := n.value(at, config, 0).(map[string]any)
	if faults.any() {
		return nil, faults.err()
	}
	if value == nil {
		value = map[string]any{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work.left = maxChecks
	f := fitter{faults: faults, work: s.work}
	err := s.work.guard(func() error {
		fitted := f.fit(at, s.root, value, true)
		value, _ = fitted.(map[string]any)
		return s.root.Validate(value)
	})
	f.faults.library(at, value, err)
	if faults.any() {
		return nil, faults.err()
	}
	return value, nil
}

// CheckJSON is [Schema.Check] with the result as JSON.
func (s *Schema) CheckJSON(block string, config map[string]any) ([]byte, error) {
	value, err := s.Check(block, config)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// noLoader refuses to load what a schema refers to.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is outside of the schema, and nothing is fetched", url)
}

// checkNesting counts brackets, so that no recursion meets a deeper text. It does
// not need to know more of JSON than where strings are.
func checkNesting(text string) error {
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("nested more than %d deep", MaxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// oneLine makes the library's error, a tree over many lines, one line.
func oneLine(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var cause *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &cause) {
		leaf := cause
		for len(leaf.Causes) > 0 {
			leaf = leaf.Causes[0]
		}
		return errors.New(printable(fmt.Sprintf("at /%s: %s", strings.Join(leaf.InstanceLocation, "/"), text(leaf.ErrorKind))))
	}
	return errors.New(printable(strings.ReplaceAll(err.Error(), location, "")))
}

func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
