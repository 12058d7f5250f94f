package ui

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/structs"
)

// refusedBody is what the page of a refusal shows.
type refusedBody struct {
	Text string
	// SignIn asks for a token, and Again offers the same page once more: it was opened from
	// another site.
	SignIn, Again bool
	Path          string
}

// wantToken are the refusals that another token helps with.
var wantToken = []string{structs.ErrACLDenied.Error(), structs.ErrACLTokenNotFound.Error(), structs.ErrACLTokenExpired.Error(), onlyManagers}

// refused is the page of what cannot be shown, with what to do about it.
func refused(a *asker, err error) *view {
	r := &refusal{http.StatusInternalServerError, err.Error(), a.request.URL.Path}
	errors.As(err, &r)
	if r.status < http.StatusBadRequest {
		r.status = http.StatusNotFound // the API's mux would rather have another path
	}
	body := &refusedBody{Text: r.text, Path: a.request.URL.RequestURI()}
	v := &view{status: r.status, template: "refused", Body: body, JSON: a.asked, Still: true}
	switch {
	case r.status == http.StatusForbidden && strings.Contains(r.text, "other web pages"):
		v.Title, body.Again = "Opened from another site", true
	case r.status == http.StatusForbidden && strings.Contains(r.text, " name"):
		v.Title = "This is not a name of the node"
	case slices.Contains(wantToken, r.text):
		v.Title, body.SignIn = "A token is needed", true
	case r.status == http.StatusForbidden:
		v.Title = "Not for reading"
	case r.status == http.StatusNotFound:
		v.Title = "Not found"
	case r.status == http.StatusTooManyRequests, r.status == http.StatusServiceUnavailable:
		v.Title, body.Again = "The node is busy", true
	default:
		v.Title = "This page cannot be shown"
	}
	return v
}
