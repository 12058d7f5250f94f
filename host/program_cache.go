package host

import (
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/wasmnode/wasmnode/sandbox/scan"
)

// keptProgramBytes bounds the programs whose content is kept for further starts.
const keptProgramBytes = 64 << 20

// settleTime is for how long a file must not have changed before what was read of it is
// kept: a file system may give two changes the same time when they are close.
const settleTime = time.Second

// programCache keeps the content and the digest of programs, by the identity of their files
// and when these changed last: a task that starts again reads nothing and computes nothing.
// The zero value is ready; it is safe for concurrent use.
type programCache struct {
	mu    sync.Mutex
	kept  []keptProgram // the last used one is last
	bytes int
}

type keptProgram struct {
	file   fileVersion
	source scan.Source
}

// fileVersion is a file as it was at a time. A change of the content changes it, also where
// somebody sets the file's own time back.
type fileVersion struct {
	device, inode uint64
	size          int64
	changed       syscall.Timespec
	modified      syscall.Timespec
}

// versionOf returns a file's version, and whether it has not changed for a while.
func versionOf(info os.FileInfo) (v fileVersion, settled bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileVersion{}, false
	}
	age := time.Since(time.Unix(s.Ctim.Unix()))
	return fileVersion{s.Dev, s.Ino, s.Size, s.Ctim, s.Mtim}, age > settleTime
}

// read returns an open file's content: what is kept of it, or what is read. Nothing is kept
// of a file that changes.
func (c *programCache) read(f *os.File, info os.FileInfo, read func() ([]byte, error)) (scan.Source, error) {
	version, settled := versionOf(info)
	if kept, ok := c.find(version); ok && settled {
		return kept, nil
	}
	content, err := read()
	if err != nil {
		return scan.Source{}, err
	}
	source := scan.NewSource(content)
	after, err := f.Stat()
	if err != nil || !settled {
		return source, err
	}
	if now, _ := versionOf(after); now == version {
		c.add(keptProgram{version, source})
	}
	return source, nil
}

// find returns what is kept of a file.
func (c *programCache) find(version fileVersion) (scan.Source, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.kept, func(k keptProgram) bool { return k.file == version })
	if i < 0 {
		return scan.Source{}, false
	}
	found := c.kept[i]
	c.kept = append(slices.Delete(c.kept, i, i+1), found)
	return found.source, true
}

// add keeps a program, instead of those that were not used for longest.
func (c *programCache) add(p keptProgram) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.source.Size() > keptProgramBytes || slices.ContainsFunc(c.kept, func(k keptProgram) bool { return k.file == p.file }) {
		return
	}
	c.kept, c.bytes = append(c.kept, p), c.bytes+p.source.Size()
	for c.bytes > keptProgramBytes {
		c.bytes -= c.kept[0].source.Size()
		c.kept = slices.Delete(c.kept, 0, 1)
	}
}
