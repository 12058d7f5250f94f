package catalog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"os"
)

// maxSections bounds the section headers that are read to find a module's end. A
// module with more is left to the loader.
const maxSections = 4096

// wholeFile reports whether a file begins as a WebAssembly module or component and
// ends where its last section does. It reads nothing but the headers of sections.
func wholeFile(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	return err == nil && wholeModule(f, info.Size())
}

func wholeModule(r io.ReaderAt, size int64) bool {
	header := make([]byte, 8)
	if _, err := r.ReadAt(header, 0); err != nil || !bytes.HasPrefix(header, []byte("\x00asm")) {
		return false
	}
	at := int64(len(header))
	for range maxSections {
		if at == size {
			return true
		}
		// A section is its ID, its length, and as many bytes.
		section := bufio.NewReaderSize(io.NewSectionReader(r, at, 1+binary.MaxVarintLen32), 16)
		if _, err := section.ReadByte(); err != nil {
			return false
		}
		unreadable := section.Buffered()
		length, err := binary.ReadUvarint(section)
		if err != nil || length > 1<<32-1 {
			return false
		}
		at += 1 + int64(unreadable-section.Buffered()) + int64(length)
		if at > size {
			return false
		}
	}
	return true
}
