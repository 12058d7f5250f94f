package outbound_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.WithTimeout(m)) }
