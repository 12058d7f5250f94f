package httpapi

import "net/http"

// Unguarded is an API without its guard.
func Unguarded(cfg Config) http.Handler { return newHandler(cfg).mux }
