//go:build !linux

package apart

import (
	"errors"
	"syscall"
)

const available = false

func attributes() *syscall.SysProcAttr { return nil }

func limit(Bounds) error { return errors.ErrUnsupported }

// PeakBytes returns the most memory that this process has had at once; it is not known.
func PeakBytes() uint64 { return 0 }
