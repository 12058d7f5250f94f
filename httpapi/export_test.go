package httpapi

import "net/http"

// Unguarded is the API without its guard.
func Unguarded(cfg Config) http.Handler { return newHandler(cfg).mux }
