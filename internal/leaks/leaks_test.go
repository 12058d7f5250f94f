package leaks_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaks.Patiently(m)) }

// TestAGoroutineThatEndsLateIsNoLeak leaves one behind for longer than goleak waits.
func TestAGoroutineThatEndsLateIsNoLeak(*testing.T) {
	late := time.After(2 * time.Second)
	go func() { <-late }()
}
