package clientapi

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	runtimepprof "runtime/pprof"
	"strconv"

	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// Profile answers a request with what the agent itself is doing: "cmdline", "profile" or "trace",
// which take as long as the request says, or one of the profiles of package runtime/pprof as it is
// now. errdefs.NotFound: there is none of that name.
func Profile(w http.ResponseWriter, r *http.Request, name string) error {
	switch name {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		return lookUp(w, r, name)
	}
	return nil
}

// lookUp shows a profile as it is now. It is not measured for a while: the stock command line says
// for how long all the same.
func lookUp(w http.ResponseWriter, r *http.Request, name string) error {
	profile := runtimepprof.Lookup(name)
	if profile == nil {
		return errdefs.New(errdefs.NotFound, "Pprof profile not found profile: %s", name)
	}
	v := r.URL.Query()
	for _, parameter := range []string{"debug", "gc"} {
		if s := v.Get(parameter); s != "" {
			if _, err := strconv.Atoi(s); err != nil {
				return invalid("Unknown option for %s: %v", parameter, err)
			}
		}
	}
	debug, _ := strconv.Atoi(v.Get("debug")) // a number, or none
	if gc, _ := strconv.Atoi(v.Get("gc")); gc > 0 && name == "heap" {
		runtime.GC()
	}
	kind := "application/octet-stream"
	if debug > 0 {
		kind = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	_ = profile.WriteTo(w, debug) // errors: the client is gone
	return nil
}
