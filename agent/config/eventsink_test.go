package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEventSinksAreReadWithTheirDefaults(t *testing.T) {
	c := Default()
	require.NoError(t, c.Load(write(t, t.TempDir(), "node.hcl", `
event_log_level = "off"
event_sink "pager" {
  type        = "webhook"
  url         = "https://events.example.com/hook?key=1"
  headers     = { Authorization = "Bearer x" }
  secret_file = "/etc/wasmnode/secret"
  timeout     = "3s"
  proxy       = "http://proxy.example.com:3128"
  ca_file     = "/ca.pem"
  cert_file   = "/cert.pem"
  key_file    = "/key.pem"
  topics      = ["Allocation", "Deployment:web"]
  namespace   = "default"
}
event_sink "plain" {
  type = "webhook"
  url  = "http://[::1]:80/"
}
event_sink "disk" {
  type = "file"
  path = "/var/log/events"
}
event_sink "small" {
  type             = "file"
  path             = "/var/log/small"
  rotate_bytes     = 1048576
  rotate_max_files = 1000
}
event_sink "journal" {
  type = "journal"
}`)))
	require.NoError(t, c.Validate())
	require.Empty(t, c.Warnings)
	require.Equal(t, "off", c.EventLogLevel)
	require.Equal(t, map[string]EventSink{
		"pager": {
			Type: "webhook", Topics: []string{"Allocation", "Deployment:web"}, Namespace: "default", URL: "https://events.example.com/hook?key=1",
			Headers: map[string]string{"Authorization": "Bearer x"}, SecretFile: "/etc/wasmnode/secret", Timeout: 3 * time.Second,
			Proxy: "http://proxy.example.com:3128", CAFile: "/ca.pem", CertFile: "/cert.pem", KeyFile: "/key.pem",
		},
		"plain":   {Type: "webhook", Namespace: "*", URL: "http://[::1]:80/", Timeout: 10 * time.Second},
		"disk":    {Type: "file", Namespace: "*", Path: "/var/log/events", RotateBytes: 64 << 20, RotateMaxFiles: 8},
		"small":   {Type: "file", Namespace: "*", Path: "/var/log/small", RotateBytes: 1 << 20, RotateMaxFiles: 1000},
		"journal": {Type: "journal", Namespace: "*"},
	}, c.EventSinks)
	require.Equal(t, []string{"event_log_level", "event_sink"}, Changes(Default(), c))
}

func TestWhatIsWrongWithAnEventSinkIsSaid(t *testing.T) {
	sink := func(kind, text string) string {
		return "event_sink \"s\" {\n  type = \"" + kind + "\"\n" + text + "\n}\n"
	}
	hook := func(text string) string { return sink("webhook", "url = \"https://x/\"\n"+text) }
	file := func(text string) string { return sink("file", "path = \"/x\"\n"+text) }
	var many strings.Builder
	for i := range maxSinks + 1 {
		fmt.Fprintf(&many, "event_sink \"s%d\" {\n  type = \"journal\"\n}\n", i)
	}
	for _, c := range []struct{ text, want string }{
		{sink("mail", ""), `event_sink "s": type: "mail" is not one of webhook, file, journal`},
		{"event_sink \"s\" {\n}\n", `event_sink "s": type: "" is not one of webhook, file, journal`},
		{"event_sink \"1 s\" {\n  type = \"journal\"\n}\n", `event_sink "1 s": a sink's name is a letter, then letters, digits, '_' or '-', at most 64 in all`},
		{many.String(), `event_sink: there are 17, and at most 16`},
		{sink("journal", `namespace = ""`), `event_sink "s": namespace: it is empty: "*" is all of them`},
		{sink("journal", "topics = ["+strings.Repeat(`"Job",`, maxSinkTopics+1)+"]"), `event_sink "s": topics: 65 are more than 64`},
		{sink("journal", `path = "/x"`), `event_sink "s": path: only a sink of type "file" has it`},
		{file(`url = "https://x/"`), `event_sink "s": url: only a sink of type "webhook" has it`},
		{hook(`rotate_bytes = 1`), `event_sink "s": rotate_bytes: only a sink of type "file" has it`},
		{sink("webhook", ""), `event_sink "s": url: it is no address such as https://events.example.com/hook`},
		{sink("webhook", `url = "ftp://secret@x/"`), `event_sink "s": url: it is no address such as https://events.example.com/hook`},
		{sink("webhook", "url = \"http://localhost/\"\nca_file = \"/x\""), `event_sink "s": url: ca_file and cert_file are for https`},
		{hook(`proxy = "socks5://x"`), `event_sink "s": proxy: it is no address such as http://proxy.example.com:3128`},
		{hook(`timeout = "61s"`), `event_sink "s": timeout: 1m1s is not between 0 and 1m0s`},
		{hook(`timeout = "0s"`), `event_sink "s": timeout: 0s is not between 0 and 1m0s`},
		{hook(`headers = { "a b" = "c" }`), `event_sink "s": headers: "a b" is no header, or its value is none`},
		{hook(`headers = { a = "c\nd" }`), `event_sink "s": headers: "a" is no header, or its value is none`},
		{hook(`headers = { "webhook-id" = "c" }`), `event_sink "s": headers: "webhook-id" is one that a sink sets itself`},
		{hook(`secret_file = "x"`), `event_sink "s": secret_file: "x" is not an absolute path`},
		{hook(`cert_file = "/x"`), `event_sink "s": cert_file and key_file are given together`},
		{sink("file", `path = "x"`), `event_sink "s": path: "x" is not the absolute path of a file`},
		{sink("file", `path = "/x/"`), `event_sink "s": path: "/x/" is not the absolute path of a file`},
		{file(`rotate_bytes = 1048575`), `event_sink "s": rotate_bytes: 1048575 is less than 1048576`},
		{file(`rotate_max_files = 0`), `event_sink "s": rotate_max_files: 0 is not between 1 and 1000`},
		{file(`rotate_max_files = 1001`), `event_sink "s": rotate_max_files: 1001 is not between 1 and 1000`},
		{file("") + strings.Replace(file(""), `"s"`, `"t"`, 1), `event_sink "t": path: "/x" is that of event_sink "s" already`},
		{file("") + strings.NewReplacer(`"s"`, `"t"`, `"/x"`, `"/y/..//x"`).Replace(file("")), `event_sink "t": path: "/y/..//x" is that of event_sink "s" already`},
		{`event_log_level = "loud"`, `event_log_level: "loud" is not one of trace, debug, info, warn, error, off`},
	} {
		cfg := Default()
		require.NoError(t, cfg.Load(write(t, t.TempDir(), "node.hcl", c.text)), c.text)
		require.EqualError(t, cfg.Validate(), c.want)
	}
	cfg := Default()
	require.ErrorContains(t, cfg.Load(write(t, t.TempDir(), "node.hcl", file("")+file(""))), `Duplicate event_sink "s"; it is configured at `)
}

func TestAnEventSinkThatTellsNobodyOrEverybodyIsWarnedAbout(t *testing.T) {
	c := Default()
	require.NoError(t, c.Load(write(t, t.TempDir(), "node.hcl", `
client {
  servers = ["10.0.0.1"]
}
event_sink "open" {
  type = "webhook"
  url  = "http://events.example.com/"
}
event_sink "local" {
  type = "webhook"
  url  = "http://127.0.0.9:1/"
}`)))
	require.Equal(t, []string{
		"event_sink has no effect: events are told by the servers that client.servers joins",
		`event_sink "open": url: it is not encrypted, and events have whole jobs in them: use https`,
	}, c.Warnings)
}
