package descriptor

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/sandbox/meter"
)

// interest is that a guest waits for events of a handle.
type interest struct {
	handle *handle
	events int16
}

// waiter waits for handles of one guest: with an epoll of its own, which is itself waited
// for as Go waits for files. A guest that waits has no thread, and no goroutine but its own.
type waiter struct {
	epoll   *os.File
	watched map[*handle]struct{} // that are in it
	round   uint64
}

// wait returns when one of the handles may be ready, or the deadline has passed. It ends the
// guest when its call is over; until then the guest's time does not pass.
func (w *waiter) wait(ctx context.Context, all []interest, deadline time.Time) error {
	if err := w.open(); err != nil {
		return err
	}
	if err := w.watch(all); err != nil {
		return err
	}
	if err := w.epoll.SetReadDeadline(deadline); err != nil {
		return err
	}
	raw, err := w.epoll.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = w.epoll.SetReadDeadline(time.Unix(1, 0)) })
	w.await(ctx, raw)
	stop()
	meter.Check(ctx)
	return nil
}

// await waits for the epoll. Its error says that the deadline has passed: the caller looks
// at the clock.
func (w *waiter) await(ctx context.Context, raw interface {
	Read(func(fd uintptr) bool) error
}) {
	defer meter.Pause(ctx)()
	var events [1]unix.EpollEvent
	_ = raw.Read(func(fd uintptr) bool {
		n, err := unix.EpollWait(int(fd), events[:], 0)
		return n > 0 || err != nil
	})
}

// open makes the epoll.
func (w *waiter) open() error {
	if w.epoll != nil {
		return nil
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return err
	}
	w.epoll, w.watched = os.NewFile(uintptr(fd), "epoll"), map[*handle]struct{}{}
	return nil
}

// watch has the epoll wait for these and for nothing else: an end of a connection is
// reported for as long as that is in it.
func (w *waiter) watch(all []interest) error {
	w.round++
	for _, i := range all {
		h := i.handle
		if h.round != w.round {
			h.round, h.wanted = w.round, 0
		}
		h.wanted |= uint32(i.events) // the numbers are the same
	}
	for h := range w.watched {
		if h.round != w.round {
			w.forget(h)
		}
	}
	for _, i := range all {
		if err := w.set(i.handle); err != nil {
			return err
		}
	}
	return nil
}

// set has the epoll wait for what is wanted of a handle.
func (w *waiter) set(h *handle) error {
	if h.watched == h.wanted {
		return nil
	}
	op := unix.EPOLL_CTL_MOD
	if h.watched == 0 {
		op = unix.EPOLL_CTL_ADD
	}
	if err := w.control(op, h); err != nil {
		return err
	}
	h.watched = h.wanted
	w.watched[h] = struct{}{}
	return nil
}

// forget takes a handle out of the epoll, if it is there.
func (w *waiter) forget(h *handle) {
	if h.watched != 0 {
		_ = w.control(unix.EPOLL_CTL_DEL, h) // its end takes it out, too
		h.watched = 0
		delete(w.watched, h)
	}
}

func (w *waiter) control(op int, h *handle) error {
	raw, err := w.epoll.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := error(nil)
	if err := raw.Control(func(fd uintptr) {
		controlErr = unix.EpollCtl(int(fd), op, h.fd, &unix.EpollEvent{Events: h.wanted, Fd: int32(h.fd)})
	}); err != nil {
		return err
	}
	return controlErr
}

func (w *waiter) close() {
	if w.epoll != nil {
		_ = w.epoll.Close()
	}
}
