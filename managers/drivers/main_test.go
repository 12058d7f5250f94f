package drivers

import (
	"testing"

	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
)

func TestMain(m *testing.M) { catalogtest.Main(m) }
