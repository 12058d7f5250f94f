// Package claims reads what a signed token says of itself.
package claims

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// Read reads the claims of a token (JWT, RFC 7519) into a value, as JSON. It verifies nothing: it is for a
// token that came from who has signed it, or that is only told of.
//
// # Errors
//
// What is no token, and claims that cannot be read. No part of the token is in an error.
func Read(token string, into any) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("is no signed token")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(text, into) != nil {
		return errors.New("has no claims that can be read")
	}
	return nil
}
