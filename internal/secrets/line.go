package secrets

import (
	"regexp"
	"strings"
)

// signedToken is what has the shape of a signed JSON web token, also of one that is cut within its second
// part or its third.
var signedToken = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`)

// Variable hides the value of an environment variable, if that is a secret in what people read: one
// that is named like a secret, but for Nomad's own of which only NOMAD_TOKEN, NOMAD_TOKEN_ and NOMAD_META_
// can be, and a private key.
func (k *Masker) Variable(name, value string) {
	nomads := strings.HasPrefix(name, "NOMAD_") && !strings.HasPrefix(name, "NOMAD_TOKEN") && !strings.HasPrefix(name, "NOMAD_META_")
	if !nomads && LikeOne(name) || isPrivateKey(value) {
		k.Hide(value)
	}
}

// Line masks a text for people: the secrets, and signed JSON web tokens, whosever they are. Cut: the
// text may end within one. Of nil it masks the tokens.
func (k *Masker) Line(s string, cut bool) string {
	if k != nil {
		s = k.mask(s, cut)
	}
	if !strings.Contains(s, "eyJ") {
		return s
	}
	return signedToken.ReplaceAllStringFunc(s, func(t string) string { return masked(len(t)) })
}

// isPrivateKey reports whether a text has a private key in PEM, of whichever kind.
func isPrivateKey(s string) bool { return strings.Contains(s, "PRIVATE KEY-----") }
