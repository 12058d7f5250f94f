package secrets_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/secrets"
)

func TestTheVariablesThatAreSecretInALine(t *testing.T) {
	const value = "swordfish"
	for name, secret := range map[string]bool{
		"DB_PASSWORD": true, "GITHUB_TOKEN": true, "api_key": true, "NOMAD_TOKEN": true, "NOMAD_TOKEN_vault": true, "NOMAD_META_secret": true,
		"GREETING": false, "PATH": false, "NOMAD_SECRETS_DIR": false, "NOMAD_META_color": false,
	} {
		var k secrets.Masker
		k.Variable(name, value)
		assert.Equal(t, secret, k.Text(value) != value, name)
	}
}

func TestALineOfAPrivateKeyIsASecret(t *testing.T) {
	const key = "-----BEGIN EC PRIVATE KEY-----\r\nMHcCAQEEIAbc\r\nAwEHoUQDQgAE\n-----END EC PRIVATE KEY-----\n"
	for name, learn := range map[string]func(k *secrets.Masker){
		"of a variable": func(k *secrets.Masker) { k.Variable("TLS", key) },
		"of a configuration": func(k *secrets.Masker) {
			k.Object([]byte(`{"tls": {"pem": "-----BEGIN PRIVATE KEY-----\nMHcCAQEEIAbc\nAwEHoUQDQgAE\n"}}`))
		},
	} {
		k := &secrets.Masker{Lines: true}
		learn(k)
		require.Equal(t, "-----BEGIN, masked-maske, masked-maske", k.Line("-----BEGIN, MHcCAQEEIAbc, AwEHoUQDQgAE", false), name)
	}
}

func TestASecretThatIsCutIsMaskedAsFarAsItIsThere(t *testing.T) {
	k := &secrets.Masker{}
	k.Hide("swordfish")
	k.Hide(`a "quoted" one`)
	for text, want := range map[string]string{
		"it is swordfi":     "it is masked-",
		"it is swordf":      "it is masked",
		"it is sword":       "it is sword",
		`it is a \"quot`:    `it is masked-`,
		"swordfish, swordf": "masked-ma, masked",
	} {
		require.Equal(t, want, k.Line(text, true), text)
	}
	require.Equal(t, "it is swordfi", k.Line("it is swordfi", false), "a whole text, which says something else")
}

func TestASignedTokenIsMaskedWhoseverItIs(t *testing.T) {
	for text, want := range map[string]string{
		"token=eyJhbGciOi.eyJzdWI.c2ln-_, and": "token=masked-masked-masked-mask, and",
		"eyJhbGciOi.eyJzdW":                    "masked-masked-mas",
		"eyJhbGciOi.eyJzdW.":                   "masked-masked-mask",
		"eyJhbGciOi":                           "eyJhbGciOi",
		"eyJhb. And so on":                     "eyJhb. And so on",
		"a.b.c":                                "a.b.c",
	} {
		require.Equal(t, want, (*secrets.Masker)(nil).Line(text, false), text)
	}
}
