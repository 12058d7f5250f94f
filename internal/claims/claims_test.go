package claims_test

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/claims"
)

func TestClaimsAreReadOrTheTokenIsNone(t *testing.T) {
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for _, c := range []struct {
		token, wrong string
		want         int64
	}{
		{token: token(`{"exp": 1700000000, "sub": "a"}`), want: 1700000000},
		{token: token(`{}`)},
		{token: "", wrong: "is no signed token"},
		{token: "secret", wrong: "is no signed token"},
		{token: "a.b.c.d", wrong: "is no signed token"},
		{token: "a.secret!.c", wrong: "has no claims that can be read"},
		{token: token(`{"exp": "secret"}`), wrong: "has no claims that can be read"},
		{token: token(`secret`), wrong: "has no claims that can be read"},
	} {
		var got struct{ Exp int64 }
		err := claims.Read(c.token, &got)
		if c.wrong != "" {
			require.EqualError(t, err, c.wrong, c.token)
			continue
		}
		require.NoError(t, err, c.token)
		require.Equal(t, c.want, got.Exp)
	}
}
