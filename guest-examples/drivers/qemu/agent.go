package main

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/network"
)

// agentTime is how long a guest agent may take to answer. Commands for one that does not run wait
// in the channel, and where another program has the channel, there is no answer either.
const agentTime = 3 * time.Second

// shutDown has the guest agent behind a socket shut its machine down, and returns when the machine
// has gone. That, and the answer of the agent, may take half of the time: the rest is for the power
// button. The error says what the agent does instead.
func shutDown(ctx context.Context, socket string, deadline time.Time) error {
	conn, err := network.Dial(ctx, "unix", socket)
	if err != nil {
		return abi.NewError(abi.CodeOf(err), "is not reached: "+err.Error())
	}
	defer func() { _ = conn.Close() }()
	now := time.Now()
	half := deadline.Sub(now) / 2
	if err := synchronize(conn, now, now.Add(min(agentTime, half))); err != nil {
		return err
	}
	if err := conn.SetDeadline(now.Add(half)); err != nil {
		return err
	}
	// It answers only where it fails.
	if _, err := conn.Write([]byte(`{"execute":"guest-shutdown","arguments":{"mode":"powerdown"}}` + "\n")); err != nil {
		return err
	}
	_, err = await(bufio.NewScanner(conn), "")
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return abi.NewError(abi.DeadlineExceeded, "has not shut the machine down in half of the time")
	}
	return abi.NewError(abi.CodeOf(err), "does not shut the machine down: "+err.Error())
}

// synchronize waits for an agent's answer to a number that nobody asked it for before: earlier
// answers, to whoever was connected then, may still be in the channel. The byte 0xff, which is in
// no text, has the agent forget a command that was cut.
func synchronize(conn net.Conn, now, deadline time.Time) error {
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	id := now.UnixMilli()
	if _, err := conn.Write([]byte("\xff" + `{"execute":"guest-sync","arguments":{"id":` + strconv.FormatInt(id, 10) + `}}` + "\n")); err != nil {
		return err
	}
	said := bufio.NewScanner(conn)
	for said.Scan() {
		if line, err := config.Parse(said.Bytes()); err == nil && line.Get("return").Int() == id {
			return nil
		}
	}
	if err := said.Err(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return abi.NewError(abi.CodeOf(err), "is not understood: "+err.Error())
	}
	return abi.NewError(abi.DeadlineExceeded, "does not answer")
}
