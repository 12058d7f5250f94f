package eventsink

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// WebhookConfig is how a webhook is called.
type WebhookConfig struct {
	URL string
	// Headers are sent beside the webhook's own.
	Headers map[string]string
	// Secret is what lines are signed with; none: they are not signed.
	Secret []byte
	// Timeout bounds one call, with its answer.
	Timeout time.Duration
	// Proxy is an HTTP proxy's; nil: there is none, whatever the environment says.
	Proxy *url.URL
	// TLS is for receivers whose URL is https.
	TLS *tls.Config
	// UserAgent says who calls.
	UserAgent string
}

// maxAnswer bounds what is read of an answer, in bytes. Nothing is made of it.
const maxAnswer = 64 << 10

// Webhook posts lines to a URL. Redirects are not followed: they would carry the headers and the
// events elsewhere.
type Webhook struct {
	config WebhookConfig
	client *http.Client
	now    func() time.Time
}

// NewWebhook makes a webhook. Nothing is sent yet.
func NewWebhook(c WebhookConfig) *Webhook {
	return &Webhook{config: c, now: time.Now, client: &http.Client{
		Timeout:       c.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyURL(c.Proxy),
			TLSClientConfig:        c.TLS,
			ForceAttemptHTTP2:      true,
			MaxConnsPerHost:        1, // lines are in their order
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: maxAnswer,
		},
	}}
}

// Deliver implements [Receiver].
func (w *Webhook) Deliver(ctx context.Context, id string, line []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.config.URL, bytes.NewReader(line))
	if err != nil {
		return withoutURL(err)
	}
	for name, value := range w.config.Headers {
		r.Header.Set(name, value)
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", w.config.UserAgent)
	}
	r.Header.Set("Content-Type", "application/json")
	w.sign(r.Header, id, line)
	answer, err := w.client.Do(r)
	if err != nil {
		return withoutURL(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)) // the connection is used again
	return judged(answer)
}

// sign adds the headers of Standard Webhooks, which receivers have libraries for.
func (w *Webhook) sign(h http.Header, id string, line []byte) {
	at := strconv.FormatInt(w.now().Unix(), 10)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	if len(w.config.Secret) == 0 {
		return
	}
	mac := hmac.New(sha256.New, w.config.Secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, line)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// refusals are the statuses of what would be refused again, however often it is sent.
var refusals = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}

// judged is what an answer says; nil: the receiver has the line.
func judged(answer *http.Response) error {
	status := fmt.Errorf("it answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	seconds, notSeconds := strconv.Atoi(answer.Header.Get("Retry-After"))
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case slices.Contains(refusals, code):
		return &Refused{status}
	case code >= 300 && code < 400:
		return fmt.Errorf("%w, and redirects are not followed", status)
	case notSeconds == nil && seconds > 0:
		return &RetryAfter{status, time.Duration(min(seconds, int(longestRetry/time.Second))) * time.Second}
	}
	return status
}

// withoutURL is an error without the address, which may have a secret in it.
func withoutURL(err error) error {
	if with := (*url.Error)(nil); errors.As(err, &with) {
		return with.Err
	}
	return err
}

// Sync implements [Receiver]. What a receiver has taken is its own.
func (*Webhook) Sync() error { return nil }

// Close implements [Receiver].
func (w *Webhook) Close() error {
	w.client.CloseIdleConnections()
	return nil
}
