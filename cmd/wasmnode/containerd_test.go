package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wasmnode/wasmnode/internal/enginetest"
)

func siteOfContainerd(t *testing.T) *engineSite {
	t.Helper()
	e := enginetest.NewContainerd(t)
	s := newSite(t)
	s.drop(t, "containerd-driver.wasm", driver(t, "containerd"))
	s.grant(t, fmt.Sprintf(`plugin "containerd-driver" {
  config {
    endpoint  = "unix://%s"
    namespace = %q
  }
  grant {
    net { sockets = [%q] }
  }
}`, e.Socket, e.Namespace, e.Socket))
	return &engineSite{
		site: s, driver: "containerd-driver",
		states: func(t *testing.T) (all []string) {
			for _, state := range e.Tasks(t) {
				all = append(all, strings.ToLower(state))
			}
			return append(all, make([]string, max(0, len(e.Containers(t))-len(all)))...) // one without a task has none
		},
		config: fmt.Sprintf("image = %q", enginetest.Image),
		// A command has no input that could end, and ends with its container.
		execute: []string{"-i=false", "ALLOC", "/program", "wait"},
		ended:   func(*testing.T) bool { return true },
	}
}
