package configschema

import (
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// maxSuggested bounds the names that are compared, in bytes.
const maxSuggested = 64

// Suggest returns the known name that was most likely meant, or "".
func Suggest[T any](name string, known map[string]T) string {
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

// distance is how many mistakes make one name of another: a letter that is missing, too much or
// another, or two that have changed places, where there is no other mistake.
func distance(a, b string) int {
	for i := 1; i < min(len(a), len(b)); i++ {
		if a[i-1] == b[i] && a[i] == b[i-1] && a[i-1] != a[i] && a[:i-1] == b[:i-1] && a[i+1:] == b[i+1:] {
			return 1
		}
	}
	return levenshtein.Distance(a, b, nil)
}

// plain drops what people mix up: case, dashes and underscores, a plural.
func plain(s string) string {
	s = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
	return strings.TrimSuffix(s, "s")
}
