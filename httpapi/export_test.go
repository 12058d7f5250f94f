package httpapi

import "net/http"

// Unguarded is an API's handler without its guard. The handler has to be one of
// [Handler]'s.
func Unguarded(h http.Handler) http.Handler { return h.(*handler).mux }
