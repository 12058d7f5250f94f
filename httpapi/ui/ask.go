package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// patience is how long one answer of the API may take: a driver that does not answer
	// keeps its part of a page empty, not the page.
	patience = 10 * time.Second
	// maxAnswer is how many bytes one answer may have: far more than a page can show.
	maxAnswer = 32 << 20
)

// refusal is what the API answered instead of what a page is made from.
type refusal struct {
	status int
	text   string // one line
	path   string // that was asked for
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

// asker asks the API on behalf of who asked for a page. One goroutine uses it.
type asker struct {
	api     http.Handler
	request *http.Request
	asked   []string // what was, for links
	data    *data    // nil: the page is for a person
}

// values makes a query of names and values.
func values(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q
}

// path joins the parts of a path of the API, whatever characters they have.
func path(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/v1/" + strings.Join(parts, "/")
}

// get decodes an answer. With a health that is not good the API sends it as an error; any of
// the given statuses is taken for an answer, too. The error is a [refusal].
func (a *asker) get(into any, path string, q url.Values, also ...int) (header http.Header, err error) {
	out, err := a.send(path, q)
	if err != nil {
		return nil, err
	}
	good := out.status == http.StatusOK
	for _, status := range also {
		good = good || out.status == status
	}
	if !good {
		return nil, &refusal{out.status, strings.TrimSpace(out.body.String()), path}
	}
	if err := json.Unmarshal(out.body.Bytes(), into); err != nil {
		return nil, &refusal{http.StatusInternalServerError, "the answer of " + path + " is not understood: " + err.Error(), path}
	}
	return out.header, nil
}

// text is an answer that is no JSON.
func (a *asker) text(path string, q url.Values) ([]byte, error) {
	out, err := a.send(path, q)
	if err != nil {
		return nil, err
	}
	if out.status != http.StatusOK {
		return nil, &refusal{out.status, strings.TrimSpace(out.body.String()), path}
	}
	return out.body.Bytes(), nil
}

// try is get for a part of a page that the rest does without: problem is why it is missing.
func (a *asker) try(into any, path string, q url.Values) (problem string) {
	if _, err := a.get(into, path, q); err != nil {
		return problemOf(err)
	}
	return ""
}

// problemOf says why a part of a page is missing.
func problemOf(err error) string {
	var r *refusal
	if errors.As(err, &r) && r.status == http.StatusForbidden {
		return "Your token may not see this."
	}
	return err.Error()
}

// send asks the API as the request would have: the same host, origin and token.
func (a *asker) send(path string, q url.Values) (*answer, error) {
	target := path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	a.asked = append(a.asked, target)
	ctx, cancel := context.WithTimeout(a.request.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, err.Error(), path}
	}
	r.Host, r.RemoteAddr, r.TLS, r.RequestURI = a.request.Host, a.request.RemoteAddr, a.request.TLS, target
	r.Header = a.request.Header.Clone()
	for _, name := range []string{"Accept-Encoding", "Upgrade", "Connection", "Content-Length", "Content-Type", "Range", "If-None-Match"} {
		r.Header.Del(name)
	}
	out := &answer{header: http.Header{}, status: http.StatusOK}
	a.api.ServeHTTP(out, r)
	switch {
	case ctx.Err() != nil:
		return nil, &refusal{http.StatusGatewayTimeout, fmt.Sprintf("no answer within %s", patience), path}
	case out.cut:
		return nil, &refusal{http.StatusInternalServerError, fmt.Sprintf("the answer has more than %d MiB", maxAnswer>>20), path}
	}
	if out.status == http.StatusOK {
		a.keep(target, out.body.Bytes())
	}
	return out, nil
}

// answer takes what the API answers. It implements [http.ResponseWriter].
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	cut    bool // there was more than maxAnswer
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements [http.ResponseWriter].
func (a *answer) Write(b []byte) (int, error) {
	if a.body.Len()+len(b) > maxAnswer {
		a.cut = true
		return 0, errors.New("the answer is too long")
	}
	return a.body.Write(b)
}

// Flush implements [http.Flusher]: all is in memory anyway.
func (a *answer) Flush() {}
