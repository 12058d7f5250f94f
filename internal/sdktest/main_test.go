package sdktest

import (
	"fmt"
	"os"
	"testing"
)

// programs is the directory of what is compiled.
var programs string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sdktest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
