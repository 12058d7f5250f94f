//go:build !linux

package sandbox

import "github.com/tetratelabs/wazero"

// mapCode does nothing: code stays in memory.
func (d *diskCache) mapCode(string, wazero.CompiledModule) error { return nil }
