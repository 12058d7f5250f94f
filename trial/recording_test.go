package trial_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/trial"
)

const (
	firstLine = `{"recording":{"format":2,"plugin":"p","version":"1.0.0","digest":"d","masked":[]}}` + "\n"
	callLine  = `{"call":{"operation":"driver_fingerprint","request":{},"config":{},"began_ns":1,"random":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}` + "\n"
	useLine   = `{"use":{"capability":"kv/v1 get","operation":"driver_fingerprint","request":{"key":"k"},"answer":{"value":"AAE="},"after_ns":1}}` + "\n"
	endLine   = `{"end":{"answer":{}}}` + "\n"
)

// fileLine is a use of a file that was answered so.
func fileLine(answer string) string {
	return `{"use":{"capability":"wasi/v1 read","operation":"driver_fingerprint","request":{"path":"/a"},"answer":` + answer + `,"after_ns":1}}` + "\n"
}

func TestARecordingThatIsNoneIsRefusedWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "1: this is no recording: it is empty",
		"\n":                                     `1: this is no recording: the first line is {"recording": …}`,
		callLine:                                 `1: this is no recording: the first line is {"recording": …}`,
		strings.Replace(firstLine, "2", "1", 1):  "1: the recording's format is 1, and this program reads 2",
		firstLine + "{":                          "2: unexpected EOF",
		firstLine + firstLine:                    "2: a call is expected",
		firstLine + callLine + callLine:          "3: a use or the end of the call is expected",
		firstLine + callLine + useLine:           "3: the recording ends within a call",
		firstLine + callLine + endLine + useLine: "4: a call is expected",
		firstLine + `{"call":{"nonsense":1}}`:    `2: json: unknown field "nonsense"`,
		firstLine + strings.TrimSuffix(callLine, "\n") + " {}":                                               "2: one JSON object a line is expected",
		firstLine + strings.Replace(callLine, "driver_fingerprint", "driver__x", 1):                          "2: driver__x: no such operation",
		firstLine + strings.Replace(callLine, "AAA", "", 1):                                                  "2: illegal base64 data at input byte 40",
		firstLine + strings.Replace(callLine, `"request":{}`, `"request":{"a":1}`, 1):                        `2: request: DriverFingerprintRequest: 1:2: unknown field "a"`,
		firstLine + strings.Replace(callLine, `"config":{}`, `"config":1`, 1):                                "2: config: an object is expected",
		firstLine + callLine + strings.Replace(useLine, "kv/v1 get", "kv", 1):                                `3: capability: such as "process/v1 start" is expected`,
		firstLine + callLine + strings.Replace(useLine, "driver_fingerprint", "driver_start_task", 1):        "3: operation: driver_fingerprint or driver_configure is expected",
		firstLine + callLine + strings.Replace(useLine, `{"value":"AAE="}`, `{"base64":"?"}`, 1):             "3: answer: base64 is expected",
		firstLine + callLine + strings.Replace(useLine, `"after_ns"`, `"error":{"code":"NO"},"after_ns"`, 1): `3: error.code: "NO" is none`,
		firstLine + strings.Replace(callLine, `"config"`, `"files":{"read_only":["a"]},"config"`, 1):         `2: files: grant.fs.read_only: "a" has to be an absolute path without "..", "//" or patterns`,
		firstLine + callLine + fileLine(`{"errno":"NO"}`):                                                    `3: answer: errno: "NO" is none`,
		firstLine + callLine + fileLine(`{"error":"NO"}`):                                                    `3: answer: json: unknown field "error"`,
		firstLine + callLine + fileLine(`{"data":"`+strings.Repeat("a", 1<<20+1)+`"}`):                       "3: answer: data: it has 1048577 bytes, and a use at most 1048576",
		firstLine + callLine + `{"end":{"answer":{},"fault":"trapped"}}`:                                     "3: a call ends in one way",
		firstLine + strings.Repeat(" ", 16<<20+1):                                                            "2: a line has at most 16777216 bytes",
	} {
		_, err := trial.ReadRecording(strings.NewReader(text))
		require.EqualError(t, err, want)
	}
	r, err := trial.ReadRecording(strings.NewReader(firstLine + callLine + useLine + strings.TrimSuffix(endLine, "\n")))
	require.NoError(t, err)
	require.Len(t, r.Calls[0].Uses, 1)
	_, err = trial.ReadRecording(strings.NewReader(firstLine + callLine + fileLine(`{"data":"`+strings.Repeat("a", 1<<20)+`"}`) + endLine))
	require.NoError(t, err)
}

// TestSecretsAreMasked masks messages of the contract, and is not undone by being done twice.
func TestSecretsAreMasked(t *testing.T) {
	for _, c := range []struct{ message, text, want string }{
		{"ProcessStartRequest", `{"env": {"NOMAD_TOKEN_aws": "t0ken-for-others"}}`, `{"env":{"NOMAD_TOKEN_aws":"masked-masked-ma"}}`},
		{"ProcessStartRequest", `{"env": {"A": "swordfish", "PATH": "/usr/bin", "NOMAD_TASK_NAME": "task", "NOMAD_TOKEN": "t0ken-of-nomad"}, "args": ["--with=swordfish", "t0ken-of-nomad"]}`, `{"args":["--with=masked-ma","masked-masked-"],"env":{"A":"masked-ma","NOMAD_TASK_NAME":"task","NOMAD_TOKEN":"masked-masked-","PATH":"/usr/bin"}}`},
		{"ProcessStartRequest", `{"env": {"A": "abc"}, "args": ["abc"]}`, `{"args":["abc"],"env":{"A":"mas"}}`},
		{"ProcessStartRequest", `{"env": {"A": "two\nl&nes\"\\x"}, "args": ["{\"k\":\"two\\u000al&nes\\\"\\\\x\"}", "two\\nl\\u0026nes\\u0022\\u005Cx", "two\\nl&nes"]}`, `{"args":["{\"k\":\"masked-maske\"}","masked-maske","two\\nl&nes"],"env":{"A":"masked-maske"}}`},
		{"HttpRequest", `{"headers": [{"name": "authorization", "value": "Bearer x"}, {"name": "X-Vault-Token", "value": "s.1234567"}, {"name": "Accept", "value": "Bearer x"}], "body": "QmVhcmVyIHg="}`, `{"body":"bWFza2VkLW0=","headers":[{"name":"authorization","value":"masked-m"},{"name":"X-Vault-Token","value":"masked-ma"},{"name":"Accept","value":"masked-m"}]}`},
		{"NetDialRequest", `{"tls": {"key_pem": "AAAA"}}`, `{"tls":{"key_pem":"bWFz"}}`},
		{"DriverConfigureRequest", `{"config": {"b":1,"auth":{"user":"me, myself","n":[2,"x"]},"a":"me, myself"}}`, `{"config":{"b":1,"auth":{"user":"masked-mas","n":[2,"m"]},"a":"masked-mas"}}`},
		{"ContainerEdits", `{"env": ["KEY=swordfish"]}`, `{"env":["KEY=masked-ma"]}`},
	} {
		once, err := trial.Mask(c.message, []byte(c.text))
		require.NoError(t, err)
		assert.JSONEq(t, c.want, string(once))
		twice, err := trial.Mask(c.message, once)
		require.NoError(t, err)
		assert.Equal(t, string(once), string(twice))
	}
}

// TestEveryCapabilityHasItsMessages compares with what the SDKs are generated from.
func TestEveryCapabilityHasItsMessages(t *testing.T) {
	source, err := os.ReadFile("../internal/tools/protoc-gen-sdk/capabilities.go")
	require.NoError(t, err)
	want := map[string][2]string{}
	for _, m := range regexp.MustCompile(`\t\{"(\w+)", "(\w+)", "(\w*)", \w+, "(\w*)",`).FindAllSubmatch(source, -1) {
		want[string(m[1])+"/v1 "+string(m[2])] = [2]string{string(m[3]), string(m[4])}
	}
	require.NotEmpty(t, want)
	require.Equal(t, want, trial.MessagesOf)
}

func FuzzReadRecording(f *testing.F) {
	f.Add([]byte(firstLine + callLine + useLine + endLine))
	f.Add([]byte(firstLine + callLine + fileLine(`{"data":"a"}`) + endLine))
	f.Add([]byte(firstLine + callLine + `{"use":{"capability":"stream/v1 read","operation":"driver_configure","number":1,"room":8,"answer":{"base64":"/w=="},"after_ns":-1}}` + "\n" + `{"end":{"error":{"code":"INTERNAL"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := trial.ReadRecording(bytes.NewReader(text))
		if err != nil {
			return
		}
		once, err := trial.WriteRecording(r)
		require.NoError(t, err)
		again, err := trial.ReadRecording(bytes.NewReader(once))
		require.NoError(t, err)
		twice, err := trial.WriteRecording(again)
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
	})
}
