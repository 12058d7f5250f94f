package sandbox_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.EnterCompiler()
	goleak.VerifyTestMain(leaktest.WithTimeout(m))
}
