package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/network"
)

// Bounds of a guest agent, which is in the guest's hands: its answer has to be there in a quarter
// of the time, or in agentTime if that is more, as commands for one that does not run wait in the channel,
// and where another program has the channel, there is no answer either. Of what it says, so much is read, and of a refusal so much is told.
const (
	agentTime    = 3 * time.Second
	agentBytes   = 1 << 20
	refusalBytes = 256
)

var errTalks = abi.NewError(abi.ResourceExhausted, "says more than 1 MiB")

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
	said := &io.LimitedReader{R: conn, N: agentBytes}
	if err := synchronize(conn, said, now, now.Add(min(max(agentTime, half/2), half))); err != nil {
		return err
	}
	if err := conn.SetDeadline(now.Add(half)); err != nil {
		return err
	}
	// It answers only where it fails.
	if _, err := conn.Write([]byte(`{"execute":"guest-shutdown","arguments":{"mode":"powerdown"}}` + "\n")); err != nil {
		return err
	}
	_, err = await(bufio.NewScanner(said), "")
	switch {
	case said.N <= 0:
		return errTalks
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return abi.NewError(abi.DeadlineExceeded, "has not shut the machine down in half of the time")
	}
	refusal := err.Error()
	return abi.NewError(abi.CodeOf(err), "does not shut the machine down: "+refusal[:min(len(refusal), refusalBytes)])
}

// synchronize waits for an agent's answer to a number that nobody asked it for before: earlier
// answers, to whoever was connected then, may still be in the channel. The byte 0xff, which is in
// no text, has the agent forget a command that was cut.
func synchronize(conn net.Conn, said *io.LimitedReader, now, deadline time.Time) error {
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	id := now.UnixMilli()
	if _, err := conn.Write([]byte("\xff" + `{"execute":"guest-sync","arguments":{"id":` + strconv.FormatInt(id, 10) + `}}` + "\n")); err != nil {
		return err
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if line, err := config.Parse(lines.Bytes()); err == nil && line.Get("return").Int() == id {
			return nil
		}
	}
	switch err := lines.Err(); {
	case said.N <= 0:
		return errTalks
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		return abi.NewError(abi.CodeOf(err), "is not understood: "+err.Error())
	}
	return abi.NewError(abi.DeadlineExceeded, "does not answer")
}
