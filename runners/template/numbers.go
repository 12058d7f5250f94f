package template

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// has reports whether a list has a whole or broken number or a text, or a text another.
func (r *rendering) has(list, item any) (bool, error) {
	l, v := reflect.ValueOf(list), reflect.ValueOf(item)
	switch l.Kind() {
	case reflect.String:
		found := v.Kind() == reflect.String && v.Type() == l.Type() && strings.Contains(l.String(), v.String())
		return found, r.compares(l)
	case reflect.Slice, reflect.Array:
		for i := range l.Len() {
			if err := r.compares(v); err != nil {
				return false, err
			}
			if same(l.Index(i), v) {
				return true, nil
			}
		}
	}
	return false, nil
}

func same(a, b reflect.Value) bool {
	if a.Kind() == reflect.Interface {
		a = a.Elem()
	}
	switch {
	case a.CanInt():
		return b.CanInt() && a.Int() == b.Int()
	case a.CanFloat():
		return b.CanFloat() && a.Float() == b.Float()
	}
	return a.Kind() == reflect.String && b.Kind() == reflect.String && a.Type() == b.Type() && a.String() == b.String()
}

// someIn makes a function that ends at the first of some that is in a list, or that is not if
// missing, with the opposite of otherwise.
func (r *rendering) someIn(otherwise, missing bool) func(items []any, list any) (bool, error) {
	return func(items []any, list any) (bool, error) {
		if l := reflect.ValueOf(list); (l.Kind() == reflect.Slice || l.Kind() == reflect.String) && times(len(items), l.Len()) > maxCompared {
			return false, fmt.Errorf("%d are too many to look for each in a list of %d", len(items), l.Len())
		}
		for _, item := range items {
			found, err := r.has(list, item)
			if err != nil {
				return false, err
			}
			if found != missing {
				return !otherwise, nil
			}
		}
		return otherwise, nil
	}
}

// loop is the numbers from 0, or from the first bound, up to below the last. They are a list,
// so that a range over them has its two variables.
func (r *rendering) loop(bounds ...any) ([]int64, error) {
	var n [2]int64
	if len(bounds) != 1 && len(bounds) != 2 {
		return nil, errors.New("it takes one bound or two")
	}
	for i, bound := range bounds {
		v := reflect.ValueOf(bound)
		whole, is := integer(v)
		if !is && v.Kind() == reflect.String {
			var err error
			if whole, err = strconv.ParseInt(v.String(), 10, 64); err != nil {
				return nil, err
			}
			is = true
		}
		if !is {
			return nil, fmt.Errorf("%s is not a whole number", shown(bound))
		}
		n[2-len(bounds)+i] = whole
	}
	from, to := n[0], n[1]
	if from >= to {
		return nil, nil
	}
	count := to - from
	if count < 0 || count > maxMade { // far apart: even the difference may not be a number
		count = maxMade
	}
	if err := r.spend(8 * int(count)); err != nil {
		return nil, err
	}
	numbers := make([]int64, count)
	for i := range numbers {
		numbers[i] = from + int64(i)
	}
	return numbers, nil
}

// whole are the whole numbers that are calculated with.
type whole interface{ int64 | uint64 }

func sum[T whole | float64](a, b T) (T, error)        { return a + b, nil }
func difference[T whole | float64](a, b T) (T, error) { return a - b, nil }
func product[T whole | float64](a, b T) (T, error)    { return a * b, nil }
func ratio(a, b float64) (float64, error)             { return a / b, nil }

func quotient[T whole](a, b T) (T, error) {
	if b == 0 {
		return 0, errors.New("division by zero")
	}
	return a / b, nil
}

func remainder[T whole](a, b T) (T, error) {
	if b == 0 {
		return 0, errors.New("division by zero")
	}
	return a % b, nil
}

// arithmetic makes a function of two numbers, which come in consul-template's order: the
// second operand first, so that the first one may be piped in. Two whole numbers make a
// whole one, one that has no sign if both have none. No function of broken ones: it has none.
func arithmetic(signed func(a, b int64) (int64, error), unsigned func(a, b uint64) (uint64, error), broken func(a, b float64) (float64, error)) func(b, a any) (any, error) {
	return func(b, a any) (any, error) {
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		if x.CanUint() && y.CanUint() {
			return unsigned(x.Uint(), y.Uint())
		}
		if i, is := integer(x); is {
			if j, is := integer(y); is {
				return signed(i, j)
			}
		}
		f, isA := float(x)
		g, isB := float(y)
		switch {
		case broken == nil:
			return nil, fmt.Errorf("%s and %s are not both whole numbers", shown(a), shown(b))
		case !isA || !isB:
			return nil, fmt.Errorf("%s and %s are not both numbers", shown(a), shown(b))
		}
		return broken(f, g)
	}
}

func integer(v reflect.Value) (int64, bool) {
	switch {
	case v.CanInt():
		return v.Int(), true
	case v.CanUint():
		return int64(v.Uint()), true
	}
	return 0, false
}

func float(v reflect.Value) (float64, bool) {
	if v.CanFloat() {
		return v.Float(), true
	}
	i, is := integer(v)
	return float64(i), is
}

// extreme makes a function of two numbers that is one of them: the first operand if it is so.
func extreme(is func(a, b float64) bool) func(b, a any) (any, error) {
	return func(b, a any) (any, error) {
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		f, isA := float(x)
		g, isB := float(y)
		switch {
		case !isA || !isB:
			return nil, fmt.Errorf("%s and %s are not both numbers", shown(a), shown(b))
		case is(f, g):
			return widened(x), nil
		}
		return widened(y), nil
	}
}

// widened is a number as the widest of its kind.
func widened(v reflect.Value) any {
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return v.Uint()
	}
	return v.Float()
}
