package main

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/network"
	"github.com/wasmnode/wasmnode/sdk/go/task"
)

const (
	// listenTime is how long an emulator that has just been started may take to listen.
	listenTime  = time.Second
	listenPause = 20 * time.Millisecond
	// quitTime is how long one may take to end that was told to.
	quitTime = 2 * time.Second
)

// StopTask has a machine with graceful_shutdown switch itself off, and waits: its guest agent is
// told to, or its power button is pressed. After the timeout the emulator is told to end, which
// still writes what it has for the disk; if that does not help either, the node ends it.
func (*qemu) StopTask(ctx context.Context, taskID string, h *driver.TaskHandle, _ string, timeout time.Duration) (*driver.TaskHandle, error) {
	if len(h.DriverState) == 0 {
		return nil, abi.NewError(abi.Unimplemented, "without graceful_shutdown the node ends the emulator")
	}
	monitorAt, agentAt, _ := strings.Cut(string(h.DriverState), stateSeparator)
	deadline := time.Now().Add(timeout)
	// However short the timeout is, the emulator can be told to end.
	m, err := openMonitor(ctx, monitorAt, time.Now().Add(max(timeout, quitTime)))
	if err != nil {
		return nil, abi.NewError(abi.CodeOf(err), "the machine's monitor: "+err.Error())
	}
	defer m.close()
	ended, err := m.switchOff(ctx, taskID, agentAt, deadline)
	if ended || err != nil {
		return nil, err
	}
	if err := task.Event(ctx, taskID, "The machine runs on "+timeout.String()+" after it was told to switch itself off: it is switched off", nil); err != nil {
		return nil, err
	}
	deadline = time.Now().Add(quitTime)
	if err := m.send("quit", deadline); err != nil {
		return nil, err
	}
	ended, err = m.ended(deadline)
	if err == nil && !ended {
		err = abi.NewError(abi.DeadlineExceeded, "the emulator does not end")
	}
	return nil, err
}

// switchOff has the guest shut itself down, by its agent, if it has one that does, else by its power
// button; false: it has not in time. An agent that does not is an event.
func (m *monitor) switchOff(ctx context.Context, taskID, agent string, deadline time.Time) (ended bool, err error) {
	if agent != "" {
		err := shutDown(ctx, agent, deadline)
		if err == nil {
			return m.ended(deadline)
		}
		if err := task.Event(ctx, taskID, "The guest agent "+err.Error()+": the machine's power button is pressed", nil); err != nil {
			return false, err
		}
	}
	if err := m.send("system_powerdown", deadline); err != nil {
		return false, err
	}
	return m.ended(deadline)
}

// monitor is a connection to an emulator, by the QEMU machine protocol: a line of JSON is a
// command, its answer, or an event.
type monitor struct {
	conn net.Conn
}

// openMonitor connects, and waits a moment for an emulator that does not listen yet.
func openMonitor(ctx context.Context, socket string, deadline time.Time) (*monitor, error) {
	listening := time.Now().Add(listenTime)
	conn, err := network.Dial(ctx, "unix", socket)
	for abi.IsRecoverable(err) && time.Now().Before(listening) && time.Now().Before(deadline) {
		time.Sleep(listenPause)
		conn, err = network.Dial(ctx, "unix", socket)
	}
	if err != nil {
		return nil, err
	}
	m := &monitor{conn}
	if err := m.greet(deadline); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

func (m *monitor) close() { _ = m.conn.Close() }

// greet reads the greeting and leaves the mode in which there are no commands.
func (m *monitor) greet(deadline time.Time) error {
	if err := m.conn.SetDeadline(deadline); err != nil {
		return err
	}
	said := bufio.NewScanner(m.conn)
	if _, err := await(said, "QMP"); err != nil {
		return err
	}
	if err := m.send("qmp_capabilities", deadline); err != nil {
		return err
	}
	_, err := await(said, "return")
	return err
}

// ended reads until the emulator has gone; false: it has not in time.
func (m *monitor) ended(deadline time.Time) (bool, error) {
	if err := m.conn.SetDeadline(deadline); err != nil {
		return false, err
	}
	gone, err := await(bufio.NewScanner(m.conn), "")
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return gone, err
}

func (m *monitor) send(command string, deadline time.Time) error {
	if err := m.conn.SetDeadline(deadline); err != nil {
		return err
	}
	_, err := m.conn.Write([]byte(`{"execute":"` + command + `"}` + "\n"))
	return err
}

// await reads lines, of 64 KiB at most, until an object has a field; with none, until the
// other side has gone. What it refuses is an error, and the rest of a line that was cut at an
// earlier deadline is nothing.
func await(said *bufio.Scanner, field string) (gone bool, err error) {
	for said.Scan() {
		line, err := config.Parse(said.Bytes())
		if err != nil {
			continue
		}
		if refused := line.Get("error"); refused.IsSet() {
			return false, abi.NewError(abi.FailedPrecondition, refused.Get("desc").Text())
		}
		if field != "" && line.Get(field).IsSet() {
			return false, nil
		}
	}
	switch err := said.Err(); {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, bufio.ErrTooLong):
		return false, err
	case field != "":
		return true, abi.NewError(abi.Unavailable, "the emulator has closed the connection")
	}
	return true, nil
}
