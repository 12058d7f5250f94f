package secrets

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestANameIsLikeASecretsWhereThePatternSaysSo(t *testing.T) {
	pieces := []string{
		"passw", "passphrase", "SECRET", "Token", "credential", "private", "API", "access", "key", "Key", "auth", "pass", "phrase",
		"_", "-", ".", "\n", "", "a", "ſ", "\u212a", "ü", "\xff", "priv", "ate", "cred",
	}
	random := rand.New(rand.NewPCG(1, 2))
	like := 0
	for range 20_000 {
		var name strings.Builder
		for range random.IntN(5) {
			name.WriteString(pieces[random.IntN(len(pieces))])
		}
		want := likeSecret.MatchString(name.String())
		require.Equal(t, want, LikeOne(name.String()), "%q", name.String())
		if want {
			like++
		}
	}
	require.Greater(t, like, 2_000)
	require.Less(t, like, 18_000)
}
