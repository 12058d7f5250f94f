package httpapi

import (
	"context"
	"net/http"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// madeKey is the evaluation, in a request's context, that the request has made.
type madeKey struct{}

// traced returns a request whose evaluation is noted, and what ends the span of that: it is known only
// then which trace it is in.
func (h *handler) traced(route string, r *http.Request) (_ *http.Request, end func()) {
	if h.Traces == nil {
		return r, func() {}
	}
	began, made := time.Now(), new(string)
	return r.WithContext(context.WithValue(r.Context(), madeKey{}, made)), func() { //nolint:contextcheck // it has the request's
		h.Traces.Request(r.Context(), *made, route, began, r.Header)
	}
}

// noteEvaluation notes the evaluation that an answer says was made.
func noteEvaluation(r *http.Request, body any) {
	made, is := r.Context().Value(madeKey{}).(*string)
	if !is {
		return
	}
	switch answer := body.(type) {
	case *nomad.JobRegisterResponse:
		*made = answer.EvalID
	case *nomad.JobDeregisterResponse:
		*made = answer.EvalID
	case *nomad.JobDispatchResponse:
		*made = answer.EvalID
	case *nomad.AllocStopResponse:
		*made = answer.EvalID
	case *nomad.DeploymentUpdateResponse:
		*made = answer.EvalID
	case *periodicForced:
		*made = answer.EvalID
	}
}
