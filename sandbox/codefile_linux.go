package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"unsafe"

	"github.com/tetratelabs/wazero"
	"golang.org/x/sys/unix"
)

// minCodeFile is the least code that is worth a file of its own.
const minCodeFile = 64 << 10

// mapCode puts a file in the place of the memory that a module's code was read into, so that
// what of it is not called needs none: the kernel reads a page when it is called, shares it
// with other processes, and may forget it. The file is of what was verified and read, byte for
// byte. The caller is the only one who uses the engine that compiled the module. An error leaves
// the module as it was.
func (d *diskCache) mapCode(dir string, compiled wazero.CompiledModule) error {
	code := machineCode(compiled)
	if len(code) < minCodeFile {
		return nil
	}
	path := filepath.Join(dir, codeName)
	f, err := openCode(path, code)
	if err != nil {
		if err = d.writeCode(path, code); err != nil {
			return err
		}
		d.prune(filepath.Base(dir))
		if f, err = openCode(path, code); err != nil {
			return err
		}
	}
	defer f.Close()
	return replaceBy(f, code)
}

// machineCode is where a module's code is; nil: that cannot be told. The engine does not say
// it, so that it is looked up in its fields, which another version of it may not have.
func machineCode(compiled wazero.CompiledModule) []byte {
	c := reflect.ValueOf(compiled)
	module, engine := fieldOf(c, "module"), fieldOf(c, "compiledEngine")
	id, all := fieldOf(module, "ID"), fieldOf(engine, "compiledModules")
	if all.Kind() != reflect.Map || !id.IsValid() || !id.Type().AssignableTo(all.Type().Key()) {
		return nil
	}
	code := fieldOf(fieldOf(fieldOf(all.MapIndex(id), "compiledModule"), "executables"), "executable")
	if code.Kind() != reflect.Slice || code.Type().Elem().Kind() != reflect.Uint8 || code.Len() == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(code.UnsafePointer()), code.Len())
}

// fieldOf returns a field of a struct, through pointers and interfaces; the zero Value: it has none.
func fieldOf(v reflect.Value, name string) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}

// openCode opens a file that has just that code in it.
func openCode(path string, code []byte) (f *os.File, err error) {
	if f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkOwner(path, info); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode()&othersWrite != 0 || info.Size() != int64(len(code)) {
		return nil, errors.New("the file of the code is not as it was written")
	}
	var chunk [256 << 10]byte
	for rest := code; len(rest) > 0; {
		n, err := io.ReadFull(f, chunk[:min(len(chunk), len(rest))])
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(chunk[:n], rest[:n]) {
			return nil, errors.New("the file of the code has other code in it")
		}
		rest = rest[n:]
	}
	return f, nil
}

// writeCode writes the file, whole or not at all.
func (d *diskCache) writeCode(path string, code []byte) error {
	f, err := os.CreateTemp(d.dir, partialPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(code)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil { // what is compared is what a page is read from later
		return err
	}
	return os.Rename(f.Name(), path)
}

// replaceBy maps a file where the code is.
func replaceBy(f *os.File, code []byte) error {
	page := uintptr(os.Getpagesize())
	size := (uintptr(len(code)) + page - 1) &^ (page - 1)
	at := unsafe.Pointer(&code[0])
	if uintptr(at)%page != 0 {
		return errors.New("the code does not begin with a page")
	}
	// Mapped elsewhere first: where that is refused, nothing has changed.
	mapped, err := unix.MmapPtr(int(f.Fd()), 0, nil, size, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("mapping it: %w", err)
	}
	if _, err := unix.MremapPtr(mapped, size, at, size, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
		return errors.Join(fmt.Errorf("mapping it in its place: %w", err), unix.MunmapPtr(mapped, size))
	}
	return nil
}
