package secrets_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/secrets"
)

// maskTexts masks a text that has secrets. over: there are more than are looked for.
func maskTexts(all []string, text string) (out string, over bool) {
	var k secrets.Masker
	for _, s := range all {
		k.Hide(s)
	}
	return k.Text(text), k.Over
}

func TestASecretIsFoundWhereverAndHoweverItStands(t *testing.T) {
	for _, c := range []struct {
		name       string
		secrets    []string
		text, want string
	}{
		{"as it is", []string{"swordfish"}, "a swordfish, swordfishes", "a masked-ma, masked-maes"},
		{"twice, side by side", []string{"aaaaaa"}, "aaaaaaaaaaaaa", "maskedmaskedm"},
		{"in part", []string{"swordfish"}, "swordfis word fish swordswordfish", "swordfis word fish swordmasked-ma"},
		{"one in another", []string{"swordfish fishes", "swordfish"}, "swordfish fish, swordfish fishes", "masked-ma fish, masked-masked-ma"},
		{"one in another that is not there", []string{"my swordfish is", "swordfish"}, "my swordfish was", "my masked-ma was"},
		{"they overlap", []string{"abcdef", "defghi", "ghi-jk"}, "abcdefghi-jk", "maskedmasked"},
		{"they overlap in part", []string{"abcdef", "defghijk"}, "<abcdefghijk>", "<maskedmaske>"},
		{"the later one is longer", []string{"abcdef", "bcdefghijk", "ijklmn"}, "abcdefghijklmn", "maskedmamasked"},
		{"escaped", []string{"sword\"fish"}, `{"a":"sword\"fish","b":"\u0073word\u0022fish"}`, `{"a":"masked-mas","b":"masked-mas"}`},
		{"with a slash", []string{"sword/fish"}, `sword\/fish sword/fish \/`, `masked-mas masked-mas \/`},
		{"of more than letters", []string{"säge\t😀"}, `s\u00E4ge\t\uD83D\ude00 säge` + "\t😀", `masked-mas masked-mas`},
		{"with a backslash", []string{`sword\fish`}, `sword\fish sword\\fish`, `masked-mas masked-mas`},
		{"beside what is no escape", []string{"swordfish"}, `\x\u12\ud83d\ud83d\u0041swordf\u0069sh\`, `\x\u12\ud83d\ud83d\u0041masked-ma\`},
		{"too short", []string{"sword"}, "sword", "sword"},
	} {
		out, _ := maskTexts(c.secrets, c.text)
		assert.Equal(t, c.want, out, c.name)
	}
}

func FuzzNoSecretStaysInAText(f *testing.F) {
	f.Add("swordfish\nfishes\nsh is\"s", "a swordfishes\nsh is\\\"s")
	f.Add("ababab\nbababab", "abababababab")
	f.Fuzz(func(t *testing.T, lines, text string) {
		all := strings.Split(lines, "\n")
		out, _ := maskTexts(all, text)
		in, _ := json.Marshal(text)
		escaped, _ := maskTexts(all, string(in))
		for _, s := range all {
			if len(s) < 6 || strings.ContainsAny(s, "-adekms") { // which is also in what it is masked by
				continue
			}
			require.NotContains(t, out, s)
			quoted, _ := json.Marshal(s)
			if json.Unmarshal(quoted, new(string)) == nil && strings.ToValidUTF8(s, "") == s {
				require.NotContains(t, escaped, string(quoted[1:len(quoted)-1]))
			}
		}
	})
}

// TestManySecretsDoNotMakeMaskingSlow would take hours if each were looked for by itself.
func TestManySecretsDoNotMakeMaskingSlow(t *testing.T) {
	var all []string
	for i := range 1024 {
		all = append(all, fmt.Sprintf(`a%sb%d`, strings.Repeat(`\a`, 400), i))
	}
	const escapes = 2 << 20
	out, over := maskTexts(all, strings.Repeat(`\a`, escapes)+all[1023])
	require.False(t, over)
	require.True(t, strings.HasSuffix(out, `\a`+masked(all[1023])), "all is found up to the last byte")
	require.Len(t, out, 2*escapes+len(all[1023]))
}

func masked(secret string) string {
	return strings.Repeat("masked-", len(secret)/7+1)[:len(secret)]
}

func TestSecretsAreBounded(t *testing.T) {
	many := func(n, bytes int) (secrets []string) {
		for i := range n {
			secrets = append(secrets, fmt.Sprintf("%0*d", bytes, i))
		}
		return secrets
	}
	for _, c := range []struct {
		name    string
		secrets []string
		over    bool
	}{
		{"as many as there may be", append(many(1024, 16), many(1024, 16)...), false},
		{"too many", many(1025, 16), true},
		{"as large as there may be", many(16, 1<<16), false},
		{"too large", many(17, 1<<16), true},
	} {
		_, over := maskTexts(c.secrets, "")
		assert.Equal(t, c.over, over, c.name)
	}
}
