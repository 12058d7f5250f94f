package template

import (
	"errors"
	"fmt"
	"reflect"
)

// equal is text/template's eq, whose errors would print the values, however large they are.
func (r *rendering) equal(to reflect.Value, values ...reflect.Value) (bool, error) {
	if len(values) == 0 {
		return false, errors.New("missing argument for comparison")
	}
	for _, v := range values {
		if err := r.compares(v); err != nil {
			return false, err
		}
		if same, err := equals(inside(to), inside(v)); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func (r *rendering) notEqual(a, b reflect.Value) (bool, error) {
	same, err := r.equal(a, b)
	return !same, err
}

// inside is what an interface has.
func inside(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface {
		return v.Elem()
	}
	return v
}

func equals(a, b reflect.Value) (bool, error) {
	switch {
	case a.CanInt() && b.CanUint():
		return a.Int() >= 0 && uint64(a.Int()) == b.Uint(), nil
	case a.CanUint() && b.CanInt():
		return b.Int() >= 0 && uint64(b.Int()) == a.Uint(), nil
	case class(a) != class(b):
		if a.IsValid() && b.IsValid() {
			return false, fmt.Errorf("incompatible types for comparison: %v and %v", a.Type(), b.Type())
		}
		return false, nil
	case class(a) == reflect.Invalid:
		return equalReferences(a, b)
	}
	switch class(a) {
	case reflect.Int:
		return a.Int() == b.Int(), nil
	case reflect.Uint:
		return a.Uint() == b.Uint(), nil
	case reflect.Float64:
		return a.Float() == b.Float(), nil
	case reflect.Complex128:
		return a.Complex() == b.Complex(), nil
	case reflect.Bool:
		return a.Bool() == b.Bool(), nil
	}
	return a.String() == b.String(), nil
}

// class is what is compared with each other; Invalid: it is no number, text or truth value.
func class(v reflect.Value) reflect.Kind {
	switch {
	case v.CanInt():
		return reflect.Int
	case v.CanUint():
		return reflect.Uint
	case v.CanFloat():
		return reflect.Float64
	case v.CanComplex():
		return reflect.Complex128
	case v.Kind() == reflect.String, v.Kind() == reflect.Bool:
		return v.Kind()
	}
	return reflect.Invalid
}

// equalReferences compares what may be nil.
func equalReferences(a, b reflect.Value) (bool, error) {
	if a.IsValid() && b.IsValid() && a.Kind() != b.Kind() {
		return false, fmt.Errorf("non-comparable types %v and %v", a.Type(), b.Type())
	}
	if none(a) || none(b) {
		return none(a) && none(b), nil
	}
	if !b.Comparable() {
		return false, fmt.Errorf("non-comparable type %v", b.Type())
	}
	return a.Interface() == b.Interface(), nil
}

func none(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Chan, reflect.Func, reflect.Map, reflect.Pointer, reflect.Slice:
		return v.IsNil()
	}
	return false
}

// maxUnlooked is how much is compared, in bytes, until somebody looks whether the time is over.
const maxUnlooked = 1 << 20

// compares ends a rendering whose time is over, and has to be called before such a value is compared.
func (r *rendering) compares(v reflect.Value) error {
	r.compared++
	if v = inside(v); v.Kind() == reflect.String {
		r.compared += v.Len()
	}
	if r.compared < maxUnlooked {
		return nil
	}
	r.compared = 0
	return r.ctx.Err()
}
