package engine_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaks.Patiently(m)) }
