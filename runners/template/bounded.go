package template

import (
	"fmt"
	"reflect"
)

// made is about what each thing takes that a function makes a list or a map of.
const (
	listPart = 16
	mapPart  = 64
)

// cost is what a function may take beforehand that is given such arguments, in bytes; an error
// refuses the call.
type cost func(r *rendering, args []any, s size) (int, error)

// linear is of functions whose result is about as large as what they are given.
func linear(_ *rendering, _ []any, s size) (int, error) {
	return escaped*s.bytes + mapPart*s.parts, nil
}

// bounded makes a function of a library that ends a rendering before it takes too much: what it is
// given is looked at, what it may take has to be there, and what it made is spent.
func (r *rendering) bounded(fn any, costs cost) any {
	of := reflect.ValueOf(fn)
	t := of.Type()
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	failure := reflect.TypeFor[error]()
	made := reflect.FuncOf(in, []reflect.Type{t.Out(0), failure}, t.IsVariadic())
	return reflect.MakeFunc(made, func(args []reflect.Value) []reflect.Value {
		out := []reflect.Value{reflect.Zero(t.Out(0)), reflect.Zero(failure)}
		err := r.affords(args, t.IsVariadic(), costs)
		if err == nil {
			var results []reflect.Value
			if t.IsVariadic() {
				results = of.CallSlice(args)
			} else {
				results = of.Call(args)
			}
			if len(results) == 2 && !results[1].IsNil() {
				return results
			}
			out[0] = results[0]
			err = r.spend(shallow(results[0]))
		}
		if err != nil {
			out[1] = reflect.ValueOf(&err).Elem()
		}
		return out
	}).Interface()
}

// affords refuses a call that may take more than is left.
func (r *rendering) affords(values []reflect.Value, variadic bool, costs cost) error {
	var args []any
	for i, v := range values {
		if variadic && i == len(values)-1 {
			for j := range v.Len() {
				args = append(args, v.Index(j).Interface())
			}
			continue
		}
		args = append(args, v.Interface())
	}
	if err := r.ctx.Err(); err != nil {
		return err
	}
	s, err := sizeOf(args...)
	if err != nil {
		return err
	}
	n, err := costs(r, args, s)
	if err == nil && (n > r.left || n < 0) {
		err = errMade
	}
	return err
}

// shallow is what a value takes without what is in its parts.
func shallow(v reflect.Value) int {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice:
		return listPart * v.Len()
	case reflect.Map:
		return mapPart * v.Len()
	}
	return 0
}

// printable is what an action prints. What is no text is looked at before it becomes one: what is
// in many places of it is printed as often.
func (r *rendering) printable(v any) (any, error) {
	if _, is := v.(string); is {
		return v, nil
	}
	s, err := sizeOf(v)
	if err == nil && s.parts > 1 {
		err = r.spend(s.printed())
	}
	if err != nil {
		return nil, fmt.Errorf("it cannot be printed: %w", err)
	}
	return v, nil
}
