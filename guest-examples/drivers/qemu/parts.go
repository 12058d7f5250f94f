package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/task"
)

// Some formats have an image name the files that its data is in, and QEMU's own tool opens those
// to describe the image. A task's file is read for that before. What is not the task's is the
// operator's, and cannot be seen here.

const (
	// headBytes are read: all that is looked for is in the first cluster of an image, and fits.
	headBytes = 64 << 10
	// probedBytes are what QEMU tells a format by.
	probedBytes = 512
)

// checkParts refuses an image of the task's that would have the tool open a file that the machine
// may not have.
func (q *qemu) checkParts(ctx context.Context, image, file string, dirs *driver.TaskDirectories) error {
	head, err := headOf(ctx, file, dirs)
	if err != nil {
		return abi.NewError(abi.FailedPrecondition, "image "+image+": "+err.Error())
	}
	if isDescriptor(head) {
		return abi.NewError(abi.PermissionDenied, "image "+image+" has "+file+", a VMDK that is made of other files, which is not supported: "+
			"make it one file with qemu-img convert")
	}
	named, err := dataFile(head)
	switch {
	case err != nil:
		return abi.NewError(abi.FailedPrecondition, "image "+image+": "+file+": "+err.Error())
	case named == "":
		return nil
	}
	return q.checkNamed(ctx, image, file, named, dirs)
}

// headOf reads the beginning of a file of the task's; nothing of another, or one that is not there.
func headOf(ctx context.Context, file string, dirs *driver.TaskDirectories) ([]byte, error) {
	at := ""
	if rest, own := below(dirs.Task, file); own {
		at = task.Dir(ctx) + "/" + rest
	} else if rest, own := below(dirs.Shared, file); own {
		at = task.AllocDir(ctx) + "/" + rest
	} else {
		return nil, nil
	}
	f, err := os.Open(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, headBytes)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:n], err
}

// isDescriptor reports whether QEMU takes a file for a VMDK whose data is in others: a text, or
// what has one in place of data.
func isDescriptor(head []byte) bool {
	const capacity = 12 // where the header has it
	if bytes.HasPrefix(head, []byte("KDMV")) {
		return len(head) < capacity+8 || binary.LittleEndian.Uint64(head[capacity:]) == 0
	}
	for line := range strings.Lines(string(head[:min(len(head), probedBytes)])) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return strings.HasPrefix(strings.ToLower(line), "version=")
		}
	}
	return false
}

var errDataFile = errors.New("it has its data in another file, and does not say in which")

// dataFile is the name of the file that a qcow2 has its data in; empty: it has it itself.
func dataFile(head []byte) (string, error) {
	const (
		features, length = 72, 100 // where the header has them, from version 3 on
		external         = 1 << 2  // of the features
		name             = 0x44415441
	)
	if !bytes.HasPrefix(head, []byte("QFI\xfb")) || len(head) < length+4 || binary.BigEndian.Uint32(head[4:]) < 3 ||
		binary.BigEndian.Uint64(head[features:])&external == 0 {
		return "", nil
	}
	for at := uint64(binary.BigEndian.Uint32(head[length:])); at+8 <= uint64(len(head)); {
		kind, size := binary.BigEndian.Uint32(head[at:]), uint64(binary.BigEndian.Uint32(head[at+4:]))
		at += 8
		switch {
		case kind == 0 || at+size > uint64(len(head)):
			return "", errDataFile
		case kind == name:
			return string(head[at : at+size]), nil
		}
		at += (size + 7) &^ 7
	}
	return "", errDataFile
}
