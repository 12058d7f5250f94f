package forkexec

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Calls are system calls that are made one after the other, until one fails. The zero value has
// none. They are not for concurrent use.
type Calls struct {
	list    []call
	explain []func(syscall.Errno) error
	kept    []any // what the arguments point to
	keep    []int // files that are not closed
	invalid error // one of them cannot be an argument; nil: all can
}

// call is one of them. Assembly knows where its fields are.
type call struct {
	number    uintptr
	arguments [6]uintptr
	chained   uintptr       // 1: the first argument is the result of the call before
	expected  uintptr       // a result that is farther above it is a failure
	above     uintptr       // how far it may be
	failed    syscall.Errno // how it did, once it did
	index     uintptr
	closes    bool // files, see [Calls.CloseFiles]
}

// callSize is how large a call is, in bytes.
const callSize = unsafe.Sizeof(call{})

// unexpected is how a call failed whose result was not the expected one.
const unexpected = ^syscall.Errno(0)

// Add adds a call. Explain makes an error of the number of one; nil: the error is that. An argument
// that points to memory is made by [Calls.Text] or [Keep].
func (c *Calls) Add(explain func(syscall.Errno) error, number uintptr, arguments ...uintptr) {
	one := call{number: number, above: ^uintptr(0), index: uintptr(len(c.list))}
	copy(one.arguments[:], arguments)
	if explain == nil {
		explain = func(e syscall.Errno) error { return e }
	}
	c.list, c.explain = append(c.list, one), append(c.explain, explain)
}

// AddExpecting is Add for a call that fails also if its result is another one. The number is
// [syscall.Errno] 0 then.
func (c *Calls) AddExpecting(result uintptr, explain func(syscall.Errno) error, number uintptr, arguments ...uintptr) {
	c.Add(explain, number, arguments...)
	one := &c.list[len(c.list)-1]
	one.expected, one.above = result, 0
}

// Reopen adds a call after one that opens a file: the file is at this descriptor then, closed
// on exec, whatever was there before.
func (c *Calls) Reopen(explain func(syscall.Errno) error, fd int) {
	c.Add(explain, unix.SYS_DUP3, 0, uintptr(fd), unix.O_CLOEXEC)
	c.list[len(c.list)-1].chained = 1
}

// CloseFiles adds calls that close all files but the standard ones and those to keep. It is to come before what
// may not answer or is another user's: until then the process holds what its parent has open, also where that has
// closed it or has ended. It is called once.
func (c *Calls) CloseFiles(explain func(syscall.Errno) error, keep ...int) {
	c.keep = keep
	for range len(keep) + 2 { // the ranges beside them and the file where it reports, which is known when it is forked
		c.Add(explain, unix.SYS_CLOSE_RANGE)
		c.list[len(c.list)-1].closes = true
	}
}

// firstFD is the first file that is no standard one.
const firstFD = 3

// keepOpen has the calls that close files not close one more.
func (c *Calls) keepOpen(fd int) {
	keep := append(slices.Clone(c.keep), fd)
	slices.Sort(keep)
	first, next := firstFD, 0
	for i := range c.list {
		one := &c.list[i]
		if !one.closes {
			continue
		}
		for next < len(keep) && keep[next] <= first { // nothing is below it
			first, next = max(first, keep[next]+1), next+1
		}
		one.arguments[0], one.arguments[1] = uintptr(first), math.MaxUint32
		if next < len(keep) {
			one.arguments[1] = uintptr(keep[next] - 1)
			first = keep[next]
		}
	}
}

// Text returns an argument that points to a text and the zero after it. One with a zero in it is
// refused when the calls are made.
func (c *Calls) Text(s string) uintptr {
	text := c.terminated([]string{s})
	return Keep(c, &text[0])
}

// Texts returns an argument that points to a list of such texts, as execve(2) wants it.
func (c *Calls) Texts(list []string) uintptr {
	text := c.terminated(list)
	pointers := make([]*byte, len(list)+1)
	for i, s := range list {
		pointers[i] = &text[0]
		text = text[len(s)+1:]
	}
	return Keep(c, &pointers[0])
}

// terminated is the texts, each with a zero after it.
func (c *Calls) terminated(list []string) (all []byte) {
	for _, s := range list {
		if strings.IndexByte(s, 0) >= 0 {
			c.invalid = fmt.Errorf("%q has a zero byte in it: %w", s, unix.EINVAL)
		}
		all = append(append(all, s...), 0)
	}
	return all
}

// Keep returns an argument that points to what p points to, which stays until the calls were made.
func Keep[T any](c *Calls, p *T) uintptr {
	c.kept = append(c.kept, p) // by which it is on the heap, where nothing is moved
	return uintptr(unsafe.Pointer(p))
}

// Err returns why the calls cannot be made; nil: they can.
func (c *Calls) Err() error { return c.invalid }

// Make has the calling thread make the calls. Its goroutine has to be locked to it where they change
// the thread. The error is that of the first which failed; those after it are not made.
func (c *Calls) Make() error {
	if len(c.list) == 0 || c.invalid != nil {
		return c.invalid
	}
	made := makeCalls(&c.list[0], uintptr(len(c.list)))
	runtime.KeepAlive(c)
	if made == uintptr(len(c.list)) {
		return nil
	}
	return c.err(&c.list[made])
}

// err explains a call that failed.
func (c *Calls) err(one *call) error {
	if one.failed == unexpected {
		return c.explain[one.index](0)
	}
	return c.explain[one.index](one.failed)
}

// makeCalls makes them by this thread, and returns how many did not fail. It is written in assembly.
//
//go:noescape
func makeCalls(first *call, count uintptr) (made uintptr)
