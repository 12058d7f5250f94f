package config

import (
	"fmt"
	"net/url"
)

// Tracing is where traces are sent.
type Tracing struct {
	// Endpoint is the address of an OpenTelemetry collector, which takes OTLP in JSON over HTTP at the
	// path /v1/traces below it; empty: nothing is traced.
	Endpoint string `key:"endpoint"`
	// Headers are sent beside those of the protocol.
	Headers map[string]string `key:"headers"`
}

type tracingBlock struct {
	Endpoint *string            `hcl:"endpoint,optional"`
	Headers  *map[string]string `hcl:"headers,optional"`
}

func (l *loader) tracing(b *tracingBlock) {
	set(&l.config.Tracing.Endpoint, b.Endpoint)
	set(&l.config.Tracing.Headers, b.Headers)
}

// validate returns every fault of the block.
func (t Tracing) validate() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("tracing."+format, args...)) }
	if u, err := url.Parse(t.Endpoint); t.Endpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		fault("endpoint: %q is no address such as http://127.0.0.1:4318", t.Endpoint)
	}
	if len(t.Headers) > 0 && t.Endpoint == "" {
		fault("headers: there is no endpoint that they would be sent to")
	}
	headerFaults(t.Headers, "the agent", fault)
	return errs
}

// warnings tells what of the block shows more than is meant.
func (t Tracing) warnings() (list []string) {
	if u, err := url.Parse(t.Endpoint); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		list = append(list, "tracing.endpoint: it is not encrypted, and traces name jobs, tasks and errors: use https, or a collector on this machine")
	}
	return list
}
