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
		if d := levenshtein.Distance(plain(name), plain(candidate), nil); d < fewest {
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
