//go:build !linux

package sandbox

import (
	"errors"
	"syscall"
)

const compilerAvailable = false

func compilerAttributes() *syscall.SysProcAttr { return nil }

func limitCompiler(bounds) error { return errors.ErrUnsupported }

func peakBytes() uint64 { return 0 }
