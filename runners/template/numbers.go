package template

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// contains reports whether a list has an item.
func contains(item, list any) (bool, error) {
	v := reflect.ValueOf(list)
	if v.Kind() != reflect.Slice {
		return false, fmt.Errorf("%T is not a list", list)
	}
	for i := range v.Len() {
		if reflect.DeepEqual(v.Index(i).Interface(), item) {
			return true, nil
		}
	}
	return false, nil
}

// loop is the numbers from 0, or from the first bound, up to below the last. They are a list,
// so that a range over them has its two variables.
func (r *rendering) loop(bounds ...int) ([]int, error) {
	from, to := 0, 0
	switch len(bounds) {
	case 1:
		to = bounds[0]
	case 2:
		from, to = bounds[0], bounds[1]
	default:
		return nil, errors.New("it takes one bound or two")
	}
	if from >= to {
		return nil, nil
	}
	n := to - from
	if n < 0 || n > maxMade { // far apart: even the difference may not be a number
		n = maxMade
	}
	if err := r.spend(strconv.IntSize / 8 * n); err != nil {
		return nil, err
	}
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = from + i
	}
	return numbers, nil
}

// arithmetic makes a function of two numbers, which come in consul-template's order: the
// second operand first, so that the first one may be piped in. Two whole numbers make a
// whole one.
func arithmetic(whole func(a, b int64) (int64, error), broken func(a, b float64) float64) func(b, a any) (any, error) {
	return func(b, a any) (any, error) {
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		if i, is := integer(x); is {
			if j, is := integer(y); is {
				return whole(i, j)
			}
		}
		f, isA := float(x)
		g, isB := float(y)
		if !isA || !isB {
			return nil, fmt.Errorf("%v and %v are not both numbers", a, b)
		}
		return broken(f, g), nil
	}
}

func divide(a, b int64) (int64, error) {
	if b == 0 {
		return 0, errors.New("division by zero")
	}
	return a / b, nil
}

func modulo(b, a any) (any, error) {
	i, isA := integer(reflect.ValueOf(a))
	j, isB := integer(reflect.ValueOf(b))
	switch {
	case !isA || !isB:
		return nil, fmt.Errorf("%v and %v are not both whole numbers", a, b)
	case j == 0:
		return nil, errors.New("division by zero")
	}
	return i % j, nil
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
