// Package sdnotify tells the service manager that started this process how it is: that it is
// ready, reads its configuration again, ends, and lives. That is systemd, or any other that
// has its protocol, sd_notify(3): datagrams on a socket that the environment names.
//
// It must never know what the process does. Start reading at [Open].
package sdnotify

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The variables in which a service manager says what it wants to be told.
const (
	socketVariable   = "NOTIFY_SOCKET"
	watchdogVariable = "WATCHDOG_USEC"
	watchedVariable  = "WATCHDOG_PID"
)

// Service is this process as its service manager sees it. A nil one has none, and tells
// nobody. Methods may be called concurrently. What cannot be told is left untold: nothing
// waits for a service manager, and nothing fails without one.
type Service struct {
	conn     *net.UnixConn
	watchdog time.Duration
}

// Open takes what the environment says of a service manager out of it, so that no process
// which this one starts speaks in its name; nil: there is none.
//
// # Errors
//
// The environment names what is no socket to write to.
func Open() (*Service, error) {
	socket, watchdog, watched := take(socketVariable), take(watchdogVariable), take(watchedVariable)
	if socket == "" {
		return nil, nil
	}
	// An @ stands for a name without a file, as in Go.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", socketVariable, socket, err)
	}
	s := &Service{conn: conn}
	usec, err := strconv.ParseUint(watchdog, 10, 53)
	if err == nil && (watched == "" || watched == strconv.Itoa(os.Getpid())) {
		s.watchdog = time.Duration(usec) * time.Microsecond
	}
	return s, nil
}

func take(name string) string {
	value := os.Getenv(name)
	_ = os.Unsetenv(name) // fails for names that none of these is
	return value
}

// Close lets go of the service manager.
func (s *Service) Close() error {
	if s == nil {
		return nil
	}
	return s.conn.Close()
}

// Ready tells that the service does what it is for, also after [Service.Reloading].
func (s *Service) Ready() { s.tell("READY=1") }

// Status tells people in one line what the service does now.
func (s *Service) Status(text string) { s.tell("STATUS=" + strings.Join(strings.Fields(text), " ")) }

// Reloading tells that the configuration is read again, until [Service.Ready].
func (s *Service) Reloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return // no machine that runs this program lacks that clock
	}
	s.tell(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/int64(time.Microsecond)))
}

// Stopping tells that the service ends.
func (s *Service) Stopping() { s.tell("STOPPING=1") }

// Watch tells in good time, until ctx is done, that the service lives, each time after alive
// has returned: a service that is stuck in there is ended by its manager. It returns at once
// where nobody watches.
func (s *Service) Watch(ctx context.Context, alive func()) {
	if s == nil || s.watchdog <= 0 {
		return
	}
	tick := time.NewTicker(max(s.watchdog/3, time.Millisecond)) // one may be late, and one lost
	defer tick.Stop()
	for {
		alive()
		s.tell("WATCHDOG=1")
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// patience is how long a service manager may take to read.
const patience = time.Second

func (s *Service) tell(state string) {
	if s == nil {
		return
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(patience)) // fails once it is closed, as does what follows
	_, _ = s.conn.Write([]byte(state))                    // nothing depends on it
}
