package config

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/net/http/httpguts"
)

// The types of event sinks.
const (
	SinkWebhook = "webhook"
	SinkFile    = "file"
	SinkJournal = "journal"
)

// EventSink is somebody who is told the events of /v1/event/stream without asking for them.
type EventSink struct {
	Type string // one of the types of sinks
	// Topics are as in the parameter "topic" of the stream; none: all. Namespace is as in its
	// parameter, by default "*": all.
	Topics    []string
	Namespace string

	// URL is where a webhook's events are posted to, with Headers beside the sink's own.
	URL     string
	Headers map[string]string
	// SecretFile has the key that they are signed with; empty: they are not.
	SecretFile string
	// Timeout bounds one request, from its connection to the end of its answer.
	Timeout time.Duration
	// Proxy is the URL of an HTTP proxy; empty: none, whatever the environment says.
	Proxy string
	// CAFile has the authorities of the receiver's certificate; empty: the machine's. CertFile and
	// KeyFile are shown to it.
	CAFile, CertFile, KeyFile string

	// Path is what the names of a file's files begin with: PATH.0, PATH.1 and so on.
	Path string
	// RotateBytes is how long one gets, and RotateMaxFiles how many are kept.
	RotateBytes    int
	RotateMaxFiles int
}

// The bounds of event sinks.
const (
	// maxSinks bounds how many there are: each renders what it tells by itself.
	maxSinks        = 16
	maxSinkTopics   = 64
	maxHeaders      = 32
	minRotateBytes  = 1 << 20
	maxRotateFiles  = 1000
	maxSinkTimeout  = time.Minute
	defaultSinkTime = 10 * time.Second
)

type eventSinkBlock struct {
	Name           string             `hcl:"name,label"`
	Type           *string            `hcl:"type,optional"`
	Topics         *[]string          `hcl:"topics,optional"`
	Namespace      *string            `hcl:"namespace,optional"`
	URL            *string            `hcl:"url,optional"`
	Headers        *map[string]string `hcl:"headers,optional"`
	SecretFile     *string            `hcl:"secret_file,optional"`
	Timeout        *hcl.Attribute     `hcl:"timeout,optional"`
	Proxy          *string            `hcl:"proxy,optional"`
	CAFile         *string            `hcl:"ca_file,optional"`
	CertFile       *string            `hcl:"cert_file,optional"`
	KeyFile        *string            `hcl:"key_file,optional"`
	Path           *string            `hcl:"path,optional"`
	RotateBytes    *int               `hcl:"rotate_bytes,optional"`
	RotateMaxFiles *int               `hcl:"rotate_max_files,optional"`
}

// eventSink applies a block. What only sinks of another type have is found when it is validated.
func (l *loader) eventSink(b *eventSinkBlock) {
	s := EventSink{Namespace: "*"}
	set(&s.Type, b.Type)
	switch s.Type {
	case SinkWebhook:
		s.Timeout = defaultSinkTime
	case SinkFile:
		s.RotateBytes, s.RotateMaxFiles = 64<<20, 8
	}
	set(&s.Topics, b.Topics)
	set(&s.Namespace, b.Namespace)
	set(&s.URL, b.URL)
	set(&s.Headers, b.Headers)
	set(&s.SecretFile, b.SecretFile)
	set(&s.Timeout, l.duration(b.Timeout))
	set(&s.Proxy, b.Proxy)
	set(&s.CAFile, b.CAFile)
	set(&s.CertFile, b.CertFile)
	set(&s.KeyFile, b.KeyFile)
	set(&s.Path, b.Path)
	set(&s.RotateBytes, b.RotateBytes)
	set(&s.RotateMaxFiles, b.RotateMaxFiles)
	l.config.EventSinks = with(l.config.EventSinks, b.Name, s)
}

// foreign is a key that is set and belongs to sinks of another type; empty: there is none.
func (s EventSink) foreign() string {
	for _, key := range []struct {
		kind, key string
		set       bool
	}{
		{SinkWebhook, "url", s.URL != ""}, {SinkWebhook, "headers", s.Headers != nil}, {SinkWebhook, "secret_file", s.SecretFile != ""},
		{SinkWebhook, "timeout", s.Timeout != 0}, {SinkWebhook, "proxy", s.Proxy != ""}, {SinkWebhook, "ca_file", s.CAFile != ""},
		{SinkWebhook, "cert_file", s.CertFile != ""}, {SinkWebhook, "key_file", s.KeyFile != ""},
		{SinkFile, "path", s.Path != ""}, {SinkFile, "rotate_bytes", s.RotateBytes != 0}, {SinkFile, "rotate_max_files", s.RotateMaxFiles != 0},
	} {
		if key.set && key.kind != s.Type {
			return fmt.Sprintf("%s: only a sink of type %q has it", key.key, key.kind)
		}
	}
	return ""
}

// sinkFaults returns what is wrong with event sinks.
func (c Config) sinkFaults() (faults []error) {
	if len(c.EventSinks) > maxSinks {
		faults = append(faults, fmt.Errorf("event_sink: there are %d, and at most %d", len(c.EventSinks), maxSinks))
	}
	paths := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.EventSinks)) {
		s := c.EventSinks[name]
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("event_sink %q: "+format, append([]any{name}, args...)...))
		}
		if !validName.MatchString(name) {
			fault("a sink's name is a letter, then letters, digits, '_' or '-', at most 64 in all")
		}
		if s.Namespace == "" {
			fault("namespace: it is empty: \"*\" is all of them")
		}
		if len(s.Topics) > maxSinkTopics {
			fault("topics: %d are more than %d", len(s.Topics), maxSinkTopics)
		}
		switch s.Type {
		case SinkWebhook:
			s.webhookFaults(fault)
		case SinkFile:
			s.fileFaults(fault)
			if other, taken := paths[filepath.Clean(s.Path)]; taken {
				fault("path: %q is that of event_sink %q already", s.Path, other)
			}
			paths[filepath.Clean(s.Path)] = name
		case SinkJournal:
		default:
			fault("type: %q is not one of webhook, file, journal", s.Type)
			continue
		}
		if wrong := s.foreign(); wrong != "" {
			fault("%s", wrong)
		}
	}
	return faults
}

// ownHeaders are those that requests of the agent have of their own.
var ownHeaders = []string{"Connection", "Content-Length", "Content-Type", "Host", "Transfer-Encoding", "Webhook-Id", "Webhook-Signature", "Webhook-Timestamp"}

// headerFaults tells what is wrong with headers that are sent beside those that somebody sets itself.
func headerFaults(headers map[string]string, who string, fault func(string, ...any)) {
	if len(headers) > maxHeaders {
		fault("headers: %d are more than %d", len(headers), maxHeaders)
	}
	for _, header := range slices.Sorted(maps.Keys(headers)) {
		switch {
		case !httpguts.ValidHeaderFieldName(header) || !httpguts.ValidHeaderFieldValue(headers[header]):
			fault("headers: %q is no header, or its value is none", header)
		case slices.Contains(ownHeaders, http.CanonicalHeaderKey(header)):
			fault("headers: %q is one that %s sets itself", header, who)
		}
	}
}

func (s EventSink) webhookFaults(fault func(string, ...any)) {
	// What is wrong is not repeated: the whole address may be a secret.
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		fault("url: it is no address such as https://events.example.com/hook")
	} else if u.Scheme == "http" && (s.CAFile != "" || s.CertFile != "") {
		fault("url: ca_file and cert_file are for https")
	}
	if u, err := url.Parse(s.Proxy); s.Proxy != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		fault("proxy: it is no address such as http://proxy.example.com:3128")
	}
	if s.Timeout <= 0 || s.Timeout > maxSinkTimeout {
		fault("timeout: %s is not between 0 and %s", s.Timeout, maxSinkTimeout)
	}
	headerFaults(s.Headers, "a sink", fault)
	for _, file := range []struct{ key, path string }{
		{"secret_file", s.SecretFile}, {"ca_file", s.CAFile}, {"cert_file", s.CertFile}, {"key_file", s.KeyFile},
	} {
		if file.path != "" && !filepath.IsAbs(file.path) {
			fault("%s: %q is not an absolute path", file.key, file.path)
		}
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		fault("cert_file and key_file are given together")
	}
}

func (s EventSink) fileFaults(fault func(string, ...any)) {
	if !filepath.IsAbs(s.Path) || strings.HasSuffix(s.Path, "/") || filepath.Clean(s.Path) == "/" {
		fault("path: %q is not the absolute path of a file", s.Path)
	}
	if s.RotateBytes < minRotateBytes {
		fault("rotate_bytes: %d is less than %d", s.RotateBytes, minRotateBytes)
	}
	if s.RotateMaxFiles < 1 || s.RotateMaxFiles > maxRotateFiles {
		fault("rotate_max_files: %d is not between 1 and %d", s.RotateMaxFiles, maxRotateFiles)
	}
}

// sinkWarnings tells what of event sinks has no effect, or shows more than is meant.
func (c Config) sinkWarnings() (list []string) {
	if len(c.EventSinks) > 0 && len(c.Client.Servers) > 0 {
		list = append(list, "event_sink has no effect: events are told by the servers that client.servers joins")
	}
	for _, name := range slices.Sorted(maps.Keys(c.EventSinks)) {
		if u, err := url.Parse(c.EventSinks[name].URL); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
			list = append(list, fmt.Sprintf("event_sink %q: url: it is not encrypted, and events have whole jobs in them: use https", name))
		}
	}
	return list
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
