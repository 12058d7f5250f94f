package structs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Ranges is a set of numbers such as ports or cores.
type Ranges []Range

// Range is the numbers from First to Last, both included.
type Range struct{ First, Last int }

// maxRanges bounds the ranges of a set: each is looked at for each number.
const maxRanges = 1024

// ParseRanges reads a list such as "22,8000-8100" of numbers from least to most. Empty
// text is the empty set.
func ParseRanges(text string, least, most int) (set Ranges, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.Atoi(strings.TrimSpace(first))
		b, errB := strconv.Atoi(strings.TrimSpace(last))
		switch {
		case errA != nil || errB != nil:
			return nil, fmt.Errorf("%q is neither a number nor a range such as 8000-8100", part)
		case a < least || b > most || a > b:
			return nil, fmt.Errorf("%q is not within %d-%d", part, least, most)
		}
		if set = append(set, Range{a, b}); len(set) > maxRanges {
			return nil, fmt.Errorf("more than %d ranges", maxRanges)
		}
	}
	return set, nil
}

// Has reports whether a number is in the set.
func (s Ranges) Has(n int) bool {
	for _, r := range s {
		if r.First <= n && n <= r.Last {
			return true
		}
	}
	return false
}

// Below are the numbers from 0 to below a bound that are in the set, in order.
func (s Ranges) Below(bound int) (numbers []int) {
	for i := range bound {
		if s.Has(i) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// CountBelow is how many numbers from 0 to below a bound are in the set.
func (s Ranges) CountBelow(bound int) (n int) {
	for i := range bound {
		if s.Has(i) {
			n++
		}
	}
	return n
}

// String is the set as [ParseRanges] reads it.
func (s Ranges) String() string {
	parts := make([]string, 0, len(s))
	for _, r := range s {
		if r.First == r.Last {
			parts = append(parts, strconv.Itoa(r.First))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", r.First, r.Last))
		}
	}
	return strings.Join(parts, ",")
}

// RangesOf is the set of some numbers.
func RangesOf[N int | uint32](numbers []N) (set Ranges) {
	for _, n := range slices.Sorted(slices.Values(numbers)) {
		number := int(n)
		if last := len(set) - 1; last >= 0 && number <= set[last].Last+1 {
			set[last].Last = number
			continue
		}
		set = append(set, Range{number, number})
	}
	return set
}
