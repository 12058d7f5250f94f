package secrets

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// likeSecret are the names that are like a secret's.
var likeSecret = regexp.MustCompile(`(?i)passw|passphrase|secret|token|credential|private.?key|api.?key|access.?key|auth`)

// The same in parts: what is enough by itself, and what is with "key" behind it, and a letter
// between at most.
var (
	secretWords = []string{"passw", "passphrase", "secret", "token", "credential", "auth"}
	keyWords    = []string{"private", "api", "access"}
)

// LikeOne reports whether what has this name is named like a secret.
func LikeOne(name string) bool {
	// Each start of a task asks for each of its variables: the pattern takes twenty times as long.
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return likeSecret.MatchString(name)
		}
	}
	name = strings.ToLower(name)
	for _, word := range secretWords {
		if strings.Contains(name, word) {
			return true
		}
	}
	if !strings.Contains(name, "key") {
		return false
	}
	for _, word := range keyWords {
		for _, rest, found := strings.Cut(name, word); found; _, rest, found = strings.Cut(rest, word) {
			if strings.HasPrefix(rest, "key") || len(rest) > 0 && rest[0] != '\n' && strings.HasPrefix(rest[1:], "key") {
				return true
			}
		}
	}
	return false
}
