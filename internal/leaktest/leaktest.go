// Package leaktest has a package's tests wait for their goroutines to end before those that
// are left count as leaked. It is for tests only. Start reading at [WithTimeout].
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// testTimeout is how long a goroutine may take to end that was asked to, or whose process
// has: a busy machine may run others first.
const testTimeout = time.Minute

// WithTimeout returns a package's tests for [goleak.VerifyTestMain], which by itself waits
// for half a second: once they have passed, they end when no goroutine of theirs is left,
// or a minute later.
func WithTimeout(m *testing.M) goleak.TestingM { return retryingTests{m} }

type retryingTests struct{ tests *testing.M }

// Run implements [goleak.TestingM].
func (r retryingTests) Run() int {
	code := r.tests.Run()
	for deadline := time.Now().Add(testTimeout); code == 0 && time.Now().Before(deadline); {
		if goleak.Find() == nil { // it waits a while itself
			break
		}
	}
	return code
}
