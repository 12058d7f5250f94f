package guestbuild_test

import (
	"runtime"
	"testing"

	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// ending is a test of which is known how it ended.
type ending struct {
	testing.TB
	how string
}

func (e *ending) Helper() {}

func (e *ending) Skip(...any) {
	e.how = "skipped"
	runtime.Goexit()
}

func (e *ending) Fatal(...any) {
	e.how = "failed"
	runtime.Goexit()
}

func TestWhatIsMissingFailsWhereNothingMayBe(t *testing.T) {
	for _, c := range []struct{ ci, strict, want string }{
		{"", "", "skipped"},
		{"false", "0", "skipped"},
		{"true", "", "failed"},
		{"", "1", "failed"},
	} {
		t.Setenv("CI", c.ci)
		t.Setenv("WASMNODE_STRICT", c.strict)
		e := &ending{}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			guestbuild.Missing(e, "no compiler")
			e.how = "ran on"
		}()
		<-ended
		if e.how != c.want {
			t.Errorf("CI=%s WASMNODE_STRICT=%s: the test %s, want %s", c.ci, c.strict, e.how, c.want)
		}
	}
}
