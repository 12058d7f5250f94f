package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/internal/certtest"
)

func TestWhatAnEventSinkNeedsIsLookedAtBeforeTheAgentStarts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	authority := certtest.NewAuthority(t)
	cert, key := authority.Write(t, dir, "127.0.0.1")
	hook := config.EventSink{Type: config.SinkWebhook, URL: "https://x/", Namespace: "*"}
	secret := func(text string) config.EventSink {
		s := hook
		s.SecretFile = write("secret", text)
		return s
	}
	good := secret(strings.Repeat("s", minSecret) + "\r\n")
	good.CAFile, good.CertFile, good.KeyFile, good.Proxy = authority.File(t), cert, key, "http://proxy:1"
	require.NoError(t, checkSinks(config.Config{EventSinks: map[string]config.EventSink{"a": good, "b": {Type: config.SinkFile, Path: "/proc/none/x", Namespace: "*"}, "c": {Type: config.SinkJournal}}}))
	c, err := webhook(good)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("s", minSecret), string(c.Secret))
	require.Equal(t, "http://proxy:1", c.Proxy.String())
	require.Len(t, c.TLS.Certificates, 1)

	text := write("text", "no certificate")
	for want, s := range map[string]config.EventSink{
		`event_sink "s": topics: "Jobs" is none such as "Allocation" or "Job:web"`:                {Type: config.SinkJournal, Topics: []string{"Jobs"}},
		`event_sink "s": secret_file: ` + dir + `/secret: a secret has between 16 and 4096 bytes`: secret(strings.Repeat("s", minSecret-1) + "\n"),
		`event_sink "s": secret_file: open /none: no such file or directory`:                      {Type: config.SinkWebhook, SecretFile: "/none"},
		`event_sink "s": ca_file: ` + text + ` has no certificate in PEM`:                         {Type: config.SinkWebhook, CAFile: text},
		`event_sink "s": cert_file, key_file: tls: `:                                              {Type: config.SinkWebhook, CertFile: text, KeyFile: text},
	} {
		require.ErrorContains(t, checkSinks(config.Config{EventSinks: map[string]config.EventSink{"s": s}}), want)
	}
	for n, fails := range map[int]bool{maxSecret: false, maxSecret + 1: true, maxSecret + 100: true} {
		_, err := readSecret(write("long", strings.Repeat("s", n)+"\n"))
		require.Equal(t, fails, err != nil, n)
	}
}
