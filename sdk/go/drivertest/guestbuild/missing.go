package guestbuild

import (
	"os"
	"testing"
)

// Missing ends a test on a machine that lacks what it needs, such as a compiler: the test is
// skipped, and with CI=true or WASMNODE_STRICT=1, where nothing may be left out, it fails. The
// advice says what is missing and how it is installed.
func Missing(t testing.TB, advice string) {
	t.Helper()
	if os.Getenv("CI") == "true" || os.Getenv("WASMNODE_STRICT") == "1" {
		t.Fatal(advice)
	}
	t.Skip(advice)
}
