package config

import (
	"strconv"

	"github.com/wasmnode/wasmnode/abi"
)

// Struct is a configuration that is a Go struct: it makes the schema and reads what is valid under
// it, both from one declaration of the fields. It may be used concurrently. Make it with [For].
type Struct[T any] struct{ declare func(*T, *Fields) }

// For makes the configuration of a struct, of the function that declares its fields, which is best
// a method:
//
//	type task struct {
//		Image  string
//		Mounts []mount
//	}
//
//	func (t *task) fields(f *config.Fields) {
//		f.String(&t.Image, "image", "The image to run.").Required().NotEmpty()
//		config.Blocks(f, &t.Mounts, "mount", "What the task sees besides.", (*mount).fields)
//	}
//
//	var tasks = config.For((*task).fields)
//
// The function is called for each schema and each configuration, and declares the same each time.
//
// Everywhere but in a plugin, [Struct.Schema] panics when a field of the struct is not declared: so
// a test of the driver finds it.
func For[T any](declare func(*T, *Fields)) *Struct[T] { return &Struct[T]{declare} }

// Schema is the JSON Schema of the configuration. It panics on a declaration that cannot be one.
func (s *Struct[T]) Schema() string {
	f := &Fields{schema: true}
	run(f, new(T), s.declare)
	return "{" + string(f.object(nil)) + "}"
}

// Decode reads a configuration and applies the defaults; no input at all is one in which nothing is
// given. What is said of values beside their types it does not check: the node has done so.
//
// # Errors
//
// A [*FieldError] or, of what is no JSON, a [*SyntaxError]; both are INVALID_ARGUMENT to the node.
func (s *Struct[T]) Decode(data []byte) (T, error) {
	var into T
	v, err := Parse(data)
	if err != nil {
		return into, err
	}
	if fault := read(v, &into, s.declare); fault != nil {
		fault.Path = "config" + fault.Path
		return *new(T), fault
	}
	return into, nil
}

// run has a struct declare its fields.
func run[T any](f *Fields, into *T, declare func(*T, *Fields)) {
	declare(into, f)
	if f.schema {
		checkDeclared(into, f)
	}
}

// read reads a block into a struct.
func read[T any](v Value, into *T, declare func(*T, *Fields)) *FieldError {
	if v.kind != Object {
		return wrong(v, "a block")
	}
	f := &Fields{from: v}
	declare(into, f)
	f.unknown()
	return f.fault
}

// FieldError is the error of [Struct.Decode]: where and what.
type FieldError struct {
	Path    string // as in HCL: "config.mount[0].source"
	Problem string
}

// Error returns "PATH: PROBLEM".
func (e *FieldError) Error() string { return e.Path + ": " + e.Problem }

// Unwrap makes it INVALID_ARGUMENT to the node.
func (e *FieldError) Unwrap() error { return abi.NewError(abi.InvalidArgument, e.Error()) }

// wrong says what was given and what is taken, in the node's words.
func wrong(v Value, want string) *FieldError {
	given := [...]string{
		Missing: "nothing", Null: "null", Bool: "a boolean", Number: "a number", String: "a string", List: "a list", Object: "a block or a map",
	}
	return &FieldError{Problem: given[v.kind] + ", want " + want}
}

// member returns the error as that of a member.
func (e *FieldError) member(name string) *FieldError {
	if isName(name) {
		e.Path = "." + name + e.Path
	} else {
		e.Path = "[" + string(AppendText(nil, name)) + "]" + e.Path
	}
	return e
}

// item returns the error as that of an item.
func (e *FieldError) item(i int) *FieldError {
	e.Path = "[" + strconv.Itoa(i) + "]" + e.Path
	return e
}

// isName reports whether HCL takes a text as the name of an attribute or a block.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c != '-' && !isDigit(c)) {
			return false
		}
	}
	return s != ""
}
