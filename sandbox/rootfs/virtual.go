package rootfs

import (
	"sync/atomic"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// virtualDirs is how often a guest has a directory open that is none of the host's. Each
// descriptor costs the host memory, also one of no file.
type virtualDirs struct{ open atomic.Int32 }

// add opens the directory for reading, [MaxOpenFiles] times at most.
func (v *virtualDirs) add(flag experimentalsys.Oflag) (virtualDir, experimentalsys.Errno) {
	if flag&(experimentalsys.O_RDWR|experimentalsys.O_WRONLY|experimentalsys.O_CREAT|experimentalsys.O_TRUNC) != 0 {
		return virtualDir{}, experimentalsys.EISDIR
	}
	if v.open.Add(1) > MaxOpenFiles {
		v.open.Add(-1)
		return virtualDir{}, experimentalsys.EAGAIN
	}
	return virtualDir{of: v}, 0
}

// virtualDir is such a directory that is open. It holds nothing of the system's.
type virtualDir struct {
	experimentalsys.UnimplementedFile
	of     *virtualDirs
	closed bool
}

func (*virtualDir) Dev() (uint64, experimentalsys.Errno) { return 0, 0 }

func (*virtualDir) Ino() (sys.Inode, experimentalsys.Errno) { return 0, 0 }

func (*virtualDir) IsDir() (bool, experimentalsys.Errno) { return true, 0 }

func (*virtualDir) Read([]byte) (int, experimentalsys.Errno) { return 0, experimentalsys.EISDIR }

// Close is idempotent.
func (d *virtualDir) Close() experimentalsys.Errno {
	if !d.closed {
		d.closed = true
		d.of.open.Add(-1)
	}
	return 0
}
