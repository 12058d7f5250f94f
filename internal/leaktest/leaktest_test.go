package leaktest_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.WithTimeout(m)) }

// TestAGoroutineThatEndsLateIsNotALeak leaves one behind for longer than goleak waits.
func TestAGoroutineThatEndsLateIsNotALeak(*testing.T) {
	late := time.After(2 * time.Second)
	go func() { <-late }()
}
