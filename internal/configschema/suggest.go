package configschema

import (
	"maps"
	"slices"
	"strings"
)

// maxSuggested bounds the names that are compared, in bytes.
const maxSuggested = 64

// suggest returns the known name that was most likely meant, or "".
func suggest[T any](name string, known map[string]T) string {
	if len(name) > maxSuggested {
		return ""
	}
	best, fewest := "", max(1, len(name)/3)+1
	for _, candidate := range slices.Sorted(maps.Keys(known)) {
		if len(candidate) > maxSuggested {
			continue
		}
		if d := distance(plain(name), plain(candidate)); d < fewest {
			best, fewest = candidate, d
		}
	}
	return best
}

// plain drops what people mix up: case, dashes and underscores, a plural.
func plain(s string) string {
	s = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
	return strings.TrimSuffix(s, "s")
}

// distance counts the insertions, deletions and replacements between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
