package eventsink

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The example of the specification of Standard Webhooks.
func TestLinesAreSignedAsStandardWebhooksAre(t *testing.T) {
	secret, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	require.NoError(t, err)
	w := NewWebhook(WebhookConfig{Secret: secret})
	w.now = func() time.Time { return time.Unix(1614265330, 0) }
	h := http.Header{}
	w.sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", []byte(`{"test": 2432232314}`))
	assert.Equal(t, http.Header{
		"Webhook-Id":        {"msg_p5jXN8AQM9LWM0D4loKWxJek"},
		"Webhook-Timestamp": {"1614265330"},
		"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
	}, h)
	w.config.Secret = nil
	h = http.Header{}
	w.sign(h, "id", nil)
	assert.NotContains(t, h, "Webhook-Signature")
}

func TestAWebhookPostsALine(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // is not asked
	var got *http.Request
	var body string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got, body = r, string(text)
	}))
	defer s.Close()
	w := NewWebhook(WebhookConfig{URL: s.URL + "/hook?key=1", Headers: map[string]string{"authorization": "Bearer x"}, UserAgent: "wasmnode/1", Timeout: time.Minute})
	defer func() { _ = w.Close() }()
	require.NoError(t, w.Deliver(t.Context(), "n-1", []byte("{}")))
	assert.Equal(t, "{}", body)
	assert.Equal(t, "POST /hook?key=1", got.Method+" "+got.RequestURI)
	for name, want := range map[string]string{"Authorization": "Bearer x", "Content-Type": "application/json", "User-Agent": "wasmnode/1", "Webhook-Id": "n-1", "Webhook-Signature": ""} {
		assert.Equal(t, want, got.Header.Get(name), name)
	}
}

func TestWhatAReceiverAnswersDecides(t *testing.T) {
	var elsewhere int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	for _, c := range []struct {
		status  int
		after   string
		want    string
		refused bool
		wait    time.Duration
	}{
		{status: 200},
		{status: 204},
		{status: 302, want: "it answers 302 Found, and redirects are not followed"},
		{status: 307, want: "it answers 307 Temporary Redirect, and redirects are not followed"},
		{status: 400, want: "it answers 400 Bad Request", refused: true},
		{status: 413, want: "it answers 413 Request Entity Too Large", refused: true},
		{status: 422, want: "it answers 422 Unprocessable Entity", refused: true},
		{status: 401, want: "it answers 401 Unauthorized"},
		{status: 404, want: "it answers 404 Not Found"},
		{status: 429, after: "7", want: "it answers 429 Too Many Requests", wait: 7 * time.Second},
		{status: 503, after: "99999999999", want: "it answers 503 Service Unavailable", wait: time.Minute},
		{status: 503, after: "soon", want: "it answers 503 Service Unavailable"},
		{status: 503, after: "-1", want: "it answers 503 Service Unavailable"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Location", other.URL)
			rw.Header().Set("Retry-After", c.after)
			rw.WriteHeader(c.status)
		}))
		w := NewWebhook(WebhookConfig{URL: s.URL, Timeout: time.Minute})
		err := w.Deliver(t.Context(), "n-1", []byte("{}"))
		if c.want == "" {
			assert.NoError(t, err, c.status)
		} else {
			assert.EqualError(t, err, c.want)
		}
		var refused *Refused
		assert.Equal(t, c.refused, errors.As(err, &refused), c.status)
		if later := (*RetryAfter)(nil); errors.As(err, &later) {
			assert.Equal(t, c.wait, later.Wait)
		} else {
			assert.Zero(t, c.wait)
		}
		require.NoError(t, w.Close())
		s.Close()
	}
	assert.Zero(t, elsewhere)
}

// An address may have a secret in it, which would be in the log and in what everybody is told of
// the node's health.
func TestAnErrorDoesNotTellTheAddress(t *testing.T) {
	w := NewWebhook(WebhookConfig{URL: "http://127.0.0.1:1/services/secret?token=secret", Timeout: time.Minute})
	err := w.Deliver(t.Context(), "n-1", nil)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
	w.config.URL = "http://secret:secret@[::1/"
	err = w.Deliver(t.Context(), "n-1", nil)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}

func TestAReceiverIsKnownByItsCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	w := NewWebhook(WebhookConfig{URL: s.URL, Timeout: time.Minute, TLS: &tls.Config{RootCAs: x509.NewCertPool()}})
	assert.ErrorContains(t, w.Deliver(t.Context(), "n-1", nil), "certificate signed by unknown authority")
	require.NoError(t, w.Close())
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	w = NewWebhook(WebhookConfig{URL: s.URL, Timeout: time.Minute, TLS: &tls.Config{RootCAs: roots}})
	assert.NoError(t, w.Deliver(t.Context(), "n-1", nil))
	require.NoError(t, w.Close())
}

func TestAProxyIsAskedWhereOneIsConfigured(t *testing.T) {
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.URL.String() }))
	defer proxy.Close()
	u, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	w := NewWebhook(WebhookConfig{URL: "http://events.invalid/hook", Proxy: u, Timeout: time.Minute})
	defer func() { _ = w.Close() }()
	require.NoError(t, w.Deliver(t.Context(), "n-1", nil))
	assert.Equal(t, "http://events.invalid/hook", asked)
}

func TestAReceiverThatDoesNotAnswerIsLeft(t *testing.T) {
	hold := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-hold }))
	defer s.Close()
	defer close(hold)
	w := NewWebhook(WebhookConfig{URL: s.URL, Timeout: 10 * time.Millisecond})
	defer func() { _ = w.Close() }()
	err := w.Deliver(t.Context(), "n-1", []byte(strings.Repeat("x", 10)))
	require.Error(t, err)
	assert.Contains(t, err.Error(), "Client.Timeout exceeded")
}
