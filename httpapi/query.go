package httpapi

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-bexpr"
)

// How long a blocking query holds, as in Nomad: this long by default,
// at most as long, and up to a sixteenth longer, so that clients do not return in
// step.
const (
	defaultWait  = 5 * time.Minute
	waitFraction = 16
)

// maxPage bounds a page of a list, whatever the client asks for.
const maxPage = 10_000

// query holds the parameters that all reads share.
type query struct {
	namespace string // "*": all
	prefix    string
	minIndex  uint64
	wait      time.Duration
	perPage   int // 0: all
	nextToken string
	reverse   bool
	filter    *bexpr.Evaluator // nil: none
	caller    *caller
}

// parseQuery reads them; its errors are the client's, with Nomad's texts.
func parseQuery(r *http.Request) (*query, error) {
	v := r.URL.Query()
	q := &query{
		namespace: v.Get("namespace"),
		prefix:    v.Get("prefix"),
		wait:      defaultWait,
		nextToken: v.Get("next_token"),
		caller:    callerOf(r),
	}
	if q.namespace == "" {
		q.namespace = "default"
	}
	var err error
	if s := v.Get("index"); s != "" {
		if q.minIndex, err = strconv.ParseUint(s, 10, 64); err != nil {
			return nil, badRequest("Invalid index")
		}
	}
	if s := v.Get("wait"); s != "" {
		if q.wait, err = time.ParseDuration(s); err != nil || q.wait < 0 {
			return nil, badRequest("Invalid wait time")
		}
		q.wait = min(q.wait, defaultWait)
	}
	if n := int64(q.wait / waitFraction); n > 0 {
		q.wait += time.Duration(rand.Int64N(n))
	}
	if s := v.Get("per_page"); s != "" {
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return nil, badRequest("Expect a number for `per_page` query string parameter, got %q", s)
		}
		q.perPage = int(n)
	}
	if q.reverse, err = boolParameter(r, "reverse"); err != nil {
		return nil, err
	}
	if _, err = boolParameter(r, "stale"); err != nil { // nothing is, but it has to be said well
		return nil, err
	}
	return q, q.setFilter(v.Get("filter"))
}

// setFilter has the query ask only for what an expression is true of; "": for all.
func (q *query) setFilter(expression string) (err error) {
	if expression == "" {
		return nil
	}
	if q.filter, err = bexpr.CreateEvaluator(expression); err != nil {
		return badRequest("failed to create result paginator: failed to read filter expression: %v", err)
	}
	return nil
}

// matches reports whether the filter, if there is one, is true of something, in full.
func (q *query) matches(full any) (bool, error) {
	if q.filter == nil {
		return true, nil
	}
	is, err := q.filter.Evaluate(full)
	if err != nil {
		return false, badRequest("failed to read result page: %v", err)
	}
	return is, nil
}

// boolParameter reads a parameter of the query that is true or false; without it, false.
func boolParameter(r *http.Request, name string) (is bool, err error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return false, nil
	}
	if is, err = strconv.ParseBool(s); err != nil {
		return false, badRequest("Expect `true` or `false` for `%s` query string parameter, got %q", name, s)
	}
	return is, nil
}

// inNamespace reports whether the query asks for things of that namespace, and may have them.
func (q *query) inNamespace(ns string) bool {
	return (q.namespace == "*" || q.namespace == ns) && q.caller.mayIn(ns)
}

// hasUUIDPrefix reports whether the query's prefix fits a UUID; hyphens and case
// do not matter.
func (q *query) hasUUIDPrefix(id string) bool {
	return strings.HasPrefix(plainUUID(id), plainUUID(q.prefix))
}

func plainUUID(s string) string {
	return strings.ToLower(strings.ReplaceAll(s, "-", ""))
}

// page filters a sorted list, cuts the page that the query asks for, and renders
// it. A token is the key of the next page's first item.
func page[T, S any](q *query, items []T, key func(T) string, full func(T) any, stub func(T) S) (stubs []S, next string, err error) {
	if q.reverse {
		slices.Reverse(items)
	}
	if q.nextToken != "" {
		begin := slices.IndexFunc(items, func(item T) bool { return key(item) == q.nextToken })
		if begin < 0 {
			return []S{}, "", nil
		}
		items = items[begin:]
	}
	return fill(q, slices.Values(items), key, full, stub)
}

// fill filters and renders items until a page is full. They are in the order that the query
// asks for, and begin with the page.
func fill[T, S any](q *query, items iter.Seq[T], key func(T) string, full func(T) any, stub func(T) S) (stubs []S, next string, err error) {
	limit := maxPage
	if q.perPage > 0 {
		limit = min(limit, q.perPage)
	}
	stubs = []S{}
	for item := range items {
		if q.filter != nil {
			ok, err := q.matches(full(item))
			if err != nil {
				return nil, "", err
			}
			if !ok {
				continue
			}
		}
		if len(stubs) == limit {
			return stubs, key(item), nil
		}
		stubs = append(stubs, stub(item))
	}
	return stubs, "", nil
}

func badRequest(format string, args ...any) error {
	return &statusError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &statusError{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// statusError is an error with its HTTP status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }
