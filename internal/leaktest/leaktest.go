// Package leaktest has a package's tests wait for their goroutines to end before those that
// are left count as leaked. It is for tests only. Start reading at [WithTimeout].
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a goroutine may take to end that has been told to, or whose process
// has: a busy machine may run others first.
const patience = time.Minute

// WithTimeout returns a package's tests for [goleak.VerifyTestMain], which by itself waits
// for half a second: once they have passed, they end when no goroutine of theirs is left,
// or a minute later.
func WithTimeout(m *testing.M) goleak.TestingM { return patient{m} }

type patient struct{ tests *testing.M }

// Run implements [goleak.TestingM].
func (p patient) Run() int {
	code := p.tests.Run()
	for deadline := time.Now().Add(patience); code == 0 && time.Now().Before(deadline); {
		if goleak.Find() == nil { // it waits a while itself
			break
		}
	}
	return code
}
