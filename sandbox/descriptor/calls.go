package descriptor

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/sandbox/meter"
)

// errno is an error of WASI.
type errno = uint64

const (
	success         errno = 0
	again           errno = 6
	badDescriptor   errno = 8
	fault           errno = 21
	invalid         errno = 28
	inputOutput     errno = 29
	tooMany         errno = 33
	noDirectory     errno = 54
	notSupported    errno = 58
	nonblockFlag          = 1 << 2
	peekFlag              = 1 << 0
	shutReadFlag          = 1 << 0
	shutWriteFlag         = 1 << 1
	typeUnknown           = 0
	typeStream            = 6
	preopenNoDir          = 1
	allRights             = 1<<30 - 1
	maxTransfer           = 1 << 20 // bytes of one read or write, some hundred microseconds
	bytesOfVector         = 8
	bytesOfFdstat         = 24
	bytesOfFilestat       = 64
	bytesOfPrestat        = 8
)

var errnos = map[unix.Errno]errno{
	unix.EAGAIN: again, unix.EBADF: badDescriptor, unix.ECONNABORTED: 13, unix.ECONNRESET: 15, unix.EHOSTUNREACH: 23,
	unix.EINVAL: invalid, unix.EMFILE: tooMany, unix.ENETUNREACH: 40, unix.ENFILE: 41, unix.ENOBUFS: 42, unix.ENOMEM: 48,
	unix.ENOTCONN: 53, unix.EPIPE: 64, unix.ETIMEDOUT: 73,
}

func errnoOf(err error) errno {
	if err == nil {
		return success
	}
	var n unix.Errno
	if errors.As(err, &n) && errnos[n] != 0 {
		return errnos[n]
	}
	return inputOutput
}

// call is a call of a function of WASI with one of the table's descriptors.
type call struct {
	ctx        context.Context //nolint:containedctx // it lives within one host call
	table      *Table
	descriptor int32
	handle     *handle
	memory     api.Memory
	args       []uint64
}

func (c *call) arg(i int) uint32 { return uint32(c.args[i]) }

// calls are the functions that these descriptors have. Those of files fail.
var calls = map[string]func(*call) errno{
	"fd_close":            (*call).close,
	"fd_fdstat_get":       (*call).status,
	"fd_fdstat_set_flags": (*call).setFlags,
	"fd_filestat_get":     (*call).fileStatus,
	"fd_prestat_get":      (*call).prestat,
	"fd_read":             func(c *call) errno { return c.receive(0, 3) },
	"fd_write":            func(c *call) errno { return c.send(3) },
	"sock_accept":         (*call).accept,
	"sock_recv":           (*call).receiveSocket,
	"sock_send":           (*call).sendSocket,
	"sock_shutdown":       (*call).shutdown,
}

// Over returns a function of WASI that does the same as the engine's, and does what this
// package has of it for the descriptors of the [Table] in its context.
func Over(name string, engines api.GoModuleFunc) api.GoModuleFunc {
	switch {
	case name == "poll_oneoff":
		return func(ctx context.Context, m api.Module, stack []uint64) {
			if t := of(ctx); t == nil || !t.poll(ctx, m.Memory(), stack) {
				engines(ctx, m, stack)
			}
		}
	case strings.HasPrefix(name, "path_"):
		return ofDirectories(name, engines)
	case !strings.HasPrefix(name, "fd_") && !strings.HasPrefix(name, "sock_"):
		return engines
	}
	own := calls[name]
	return func(ctx context.Context, m api.Module, stack []uint64) {
		t := of(ctx)
		if t == nil {
			engines(ctx, m, stack)
			return
		}
		h, ours := t.find(int32(stack[0]))
		if name == "fd_renumber" && !ours {
			_, ours = t.find(int32(stack[1]))
		}
		switch {
		case !ours:
			engines(ctx, m, stack)
		case own == nil && h != nil, name == "fd_renumber":
			stack[0] = notSupported
		case h == nil:
			stack[0] = badDescriptor
		default:
			stack[0] = own(&call{ctx, t, int32(stack[0]), h, m.Memory(), stack})
		}
	}
}

// directories are which arguments of a function are descriptors of directories; else the
// first is.
var directories = map[string][]int{"path_link": {0, 4}, "path_rename": {0, 3}, "path_symlink": {2}}

// ofDirectories refuses a function of paths for the table's descriptors.
func ofDirectories(name string, engines api.GoModuleFunc) api.GoModuleFunc {
	arguments, ok := directories[name]
	if !ok {
		arguments = []int{0}
	}
	return func(ctx context.Context, m api.Module, stack []uint64) {
		t := of(ctx)
		if t != nil && slices.ContainsFunc(arguments, func(i int) bool {
			_, ours := t.find(int32(stack[i]))
			return ours
		}) {
			stack[0] = noDirectory
			return
		}
		engines(ctx, m, stack)
	}
}

func (c *call) close() errno {
	c.table.close(c.descriptor)
	return success
}

func (c *call) fileType() byte {
	if c.handle.kind == pipe {
		return typeUnknown
	}
	return typeStream
}

func (c *call) status() errno {
	out, ok := c.memory.Read(c.arg(1), bytesOfFdstat)
	if !ok {
		return fault
	}
	clear(out)
	out[0] = c.fileType()
	if c.handle.nonblock {
		out[2] = nonblockFlag
	}
	binary.LittleEndian.PutUint64(out[8:], allRights)
	binary.LittleEndian.PutUint64(out[16:], allRights)
	return success
}

func (c *call) setFlags() errno {
	if c.arg(1)&^nonblockFlag != 0 {
		return invalid
	}
	c.handle.nonblock = c.arg(1)&nonblockFlag != 0
	return success
}

func (c *call) fileStatus() errno {
	out, ok := c.memory.Read(c.arg(1), bytesOfFilestat)
	if !ok {
		return fault
	}
	clear(out)
	out[16] = c.fileType()
	return success
}

// prestat says that the descriptor is there and no directory, so that a program that looks
// for its directories goes on behind it.
func (c *call) prestat() errno {
	if c.descriptor < First || c.descriptor >= firstConnection {
		return badDescriptor
	}
	out, ok := c.memory.Read(c.arg(1), bytesOfPrestat)
	if !ok {
		return fault
	}
	clear(out)
	out[0] = preopenNoDir
	return success
}

func (c *call) accept() errno {
	if c.handle.kind != listener {
		return invalid
	}
	if c.table.full() {
		if c.handle.nonblock {
			return again
		}
		return tooMany
	}
	if _, ok := c.memory.Read(c.arg(2), 4); !ok {
		return fault
	}
	var accepted *handle
	e := c.until(unix.POLLIN, func() (err error) {
		accepted, err = accept(c.handle)
		return err
	})
	if e != success {
		return e
	}
	accepted.nonblock = c.arg(1)&nonblockFlag != 0
	c.memory.WriteUint32Le(c.arg(2), uint32(c.table.add(accepted)))
	return success
}

// until does something that does not block; where the guest's descriptor does, it waits for
// the events and does it again.
func (c *call) until(events int16, do func() error) errno {
	for {
		meter.Check(c.ctx)
		switch err := do(); {
		case errors.Is(err, unix.EINTR) || c.handle.kind == listener && errors.Is(err, unix.ECONNABORTED):
		case !errors.Is(err, unix.EAGAIN) || c.handle.nonblock:
			return errnoOf(err)
		default:
			if err := c.table.waiter.wait(c.ctx, []interest{{c.handle, events}}, never); err != nil {
				return errnoOf(err)
			}
		}
	}
}

// receiveSocket is sock_recv. A connection has no boundaries to wait for.
func (c *call) receiveSocket() errno {
	flags := c.arg(3)
	if flags&^peekFlag != 0 {
		return notSupported
	}
	if !c.memory.WriteUint16Le(c.arg(5), 0) {
		return fault
	}
	if flags != 0 {
		return c.receive(unix.MSG_PEEK, 4)
	}
	return c.receive(0, 4)
}

// receive reads into the buffers of the arguments 1 and 2, as far as there is something to
// read, and waits for the first of it.
func (c *call) receive(flags, result int) errno {
	if c.handle.kind == listener {
		return invalid
	}
	return c.transfer(unix.POLLIN, result, func(b []byte) (int, error) {
		if c.handle.kind == pipe {
			return unix.Read(c.handle.fd, b)
		}
		n, _, err := unix.Recvfrom(c.handle.fd, b, flags)
		return n, err
	}, flags == 0)
}

func (c *call) sendSocket() errno {
	if c.arg(3) != 0 {
		return notSupported
	}
	return c.send(4)
}

// send writes the buffers of the arguments 1 and 2, as far as that does not block, and waits
// until it can write some.
func (c *call) send(result int) errno {
	if c.handle.kind != connection {
		return invalid
	}
	return c.transfer(unix.POLLOUT, result, func(b []byte) (int, error) {
		return unix.SendmsgN(c.handle.fd, b, nil, nil, unix.MSG_NOSIGNAL)
	}, true)
}

// transfer moves bytes between the guest's buffers and a handle: those of the first buffer
// that has room, and of the others for as long as each is moved whole.
func (c *call) transfer(events int16, result int, move func([]byte) (int, error), more bool) errno {
	buffers, e := c.buffers()
	if e != success {
		return e
	}
	if _, ok := c.memory.Read(c.arg(result), 4); !ok {
		return fault
	}
	total := 0
	for i, b := range buffers {
		n := 0
		do := func() (err error) {
			n, err = move(b)
			n = max(n, 0)
			return err
		}
		if i == 0 {
			e = c.until(events, do)
		} else {
			e = errnoOf(do())
		}
		total += n
		if e != success || n < len(b) || !more {
			break
		}
	}
	if total == 0 && e != success {
		return e
	}
	c.memory.WriteUint32Le(c.arg(result), uint32(total))
	return success
}

// buffers returns the guest's buffers that are not empty, up to maxTransfer bytes of them;
// if none has room, an empty one.
func (c *call) buffers() (out [][]byte, _ errno) {
	vectors, ok := c.memory.Read(c.arg(1), c.arg(2)*bytesOfVector)
	if !ok {
		return nil, fault
	}
	left := uint32(maxTransfer)
	for ; len(vectors) > 0 && left > 0; vectors = vectors[bytesOfVector:] {
		length := min(binary.LittleEndian.Uint32(vectors[4:]), left)
		b, ok := c.memory.Read(binary.LittleEndian.Uint32(vectors), length)
		if !ok {
			return nil, fault
		}
		if left -= length; length > 0 {
			out = append(out, b)
		}
	}
	if out == nil {
		out = [][]byte{{}}
	}
	return out, success
}

func (c *call) shutdown() errno {
	if c.handle.kind != connection {
		return invalid
	}
	how, known := map[uint32]int{
		shutReadFlag: unix.SHUT_RD, shutWriteFlag: unix.SHUT_WR, shutReadFlag | shutWriteFlag: unix.SHUT_RDWR,
	}[c.arg(1)]
	if !known {
		return invalid
	}
	return errnoOf(unix.Shutdown(c.handle.fd, how))
}
