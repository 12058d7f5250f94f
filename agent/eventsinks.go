package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/agent/eventsink"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
)

// sinksDir has how far each event sink was told, in the data directory.
const sinksDir = "event_sinks"

// maxSecret bounds the key that events are signed with, and minSecret is how long it is at least,
// in bytes.
const minSecret, maxSecret = 16, 4 << 10

// openSinks makes the event sinks. Nothing is told yet. The error is of the first whose
// configuration cannot be used.
func (a *agent) openSinks() error {
	if a.cluster != nil {
		return nil // a warning of the configuration says so
	}
	for _, name := range slices.Sorted(maps.Keys(a.cfg.EventSinks)) {
		s := a.cfg.EventSinks[name]
		receiver, filter, err := openSink(s)
		if err != nil {
			for _, opened := range a.sinks {
				_ = opened.Receiver.Close() // it was told nothing
			}
			return fmt.Errorf("event_sink %q: %w", name, err)
		}
		condition := "event sink " + name
		a.sinks = append(a.sinks, eventsink.New(eventsink.Config{
			Name: name, Source: a.plane, Line: filter.Line, Receiver: receiver, NodeID: a.node.ID(),
			Progress: filepath.Join(a.cfg.DataDir, sinksDir, name),
			Metrics:  a.sinkMetrics,
			Logger:   a.logger.Named("event_sink").With("sink", name),
			Report: func(err error) {
				if err == nil {
					a.conditions.clear(condition)
					return
				}
				a.conditions.set(structs.Condition{
					Name:   condition,
					Text:   fmt.Sprintf("event_sink %q: nothing can be delivered: it is tried until it works, and the log says why", name), // who has no token is told this
					Remedy: fmt.Sprintf("look at what receives the events, and at the block event_sink %q of the configuration", name),
				})
			},
		}))
	}
	return nil
}

// runSinks tells the event sinks what happens until ctx is done.
func (a *agent) runSinks(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, s := range a.sinks {
		all.Go(func() { s.Run(ctx) })
	}
}

// openSink makes what is told of events, and what it is told of.
func openSink(s config.EventSink) (eventsink.Receiver, *httpapi.EventFilter, error) {
	filter, err := httpapi.NewEventFilter(s.Topics, s.Namespace)
	if err != nil {
		return nil, nil, err
	}
	switch s.Type {
	case config.SinkWebhook:
		c, err := webhook(s)
		return eventsink.NewWebhook(c), filter, err
	case config.SinkFile:
		f, err := eventsink.OpenFile(s.Path, s.RotateMaxFiles, int64(s.RotateBytes))
		if err != nil {
			return nil, nil, fmt.Errorf("path: %w", err)
		}
		return f, filter, nil
	}
	return eventsink.NewJournal(eventsink.JournalSocket), filter, nil
}

// checkSinks returns what is wrong with event sinks that only their files tell, and makes none.
func checkSinks(cfg config.Config) error {
	for _, name := range slices.Sorted(maps.Keys(cfg.EventSinks)) {
		s := cfg.EventSinks[name]
		_, err := httpapi.NewEventFilter(s.Topics, s.Namespace)
		if err == nil && s.Type == config.SinkWebhook {
			_, err = webhook(s)
		}
		if err != nil {
			return fmt.Errorf("event_sink %q: %w", name, err)
		}
	}
	return nil
}

// webhook is how a webhook is called, with what its files have.
func webhook(s config.EventSink) (c eventsink.WebhookConfig, err error) {
	c = eventsink.WebhookConfig{URL: s.URL, Headers: s.Headers, Timeout: s.Timeout, UserAgent: "wasmnode/" + Version}
	if s.SecretFile != "" {
		if c.Secret, err = readSecret(s.SecretFile); err != nil {
			return c, fmt.Errorf("secret_file: %w", err)
		}
	}
	if s.Proxy != "" {
		if c.Proxy, err = url.Parse(s.Proxy); err != nil {
			return c, errors.New("proxy: it is no address")
		}
	}
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS.RootCAs, err = authorities(s.CAFile); err != nil {
		return c, err
	}
	c.TLS.Certificates, err = ownCertificates(s.CertFile, s.KeyFile)
	return c, err
}

// readSecret reads a key. The end of its line is none of it.
func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+2))
	if err != nil {
		return nil, err
	}
	if text = bytes.TrimRight(text, "\r\n"); len(text) < minSecret || len(text) > maxSecret {
		return nil, fmt.Errorf("%s: a secret has between %d and %d bytes: head -c 32 /dev/urandom | base64 makes one", path, minSecret, maxSecret)
	}
	return text, nil
}
