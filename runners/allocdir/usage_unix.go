//go:build unix

package allocdir

import (
	"io/fs"
	"syscall"
)

// sectorBytes is the unit of st_blocks.
const sectorBytes = 512

// onDisk is what a file really takes: sparse files count for what they hold.
func onDisk(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * sectorBytes
	}
	return info.Size()
}
