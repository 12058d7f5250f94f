package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/wasmnode/wasmnode/abi"
)

// Replacement is the error of [Server.Serve] when another program is to go on with the
// workloads, in this process. No request is being answered then. The caller may serve again,
// and has to if there is no program.
type Replacement struct{ Program string }

// Error implements error.
func (r *Replacement) Error() string { return "to be replaced by " + r.Program }

// programID identifies a program's file, without reading it. The path of
// this process's own is /proc/self/exe.
func programID(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s: a file of type %T", path, info.Sys())
	}
	return fmt.Sprintf("%d-%d-%d-%d", s.Dev, s.Ino, info.Size(), info.ModTime().UnixNano()), nil
}

// errReplaced ends what is being answered. The client asks the next program.
var errReplaced = abi.NewRecoverableError(abi.Unavailable, "the supervisor is being replaced by another version")

// replaceTimeout bounds the end of what is being answered.
const replaceTimeout = 5 * time.Second

func (s *Server) replace(_ context.Context, req *request) (any, error) {
	if s.MayReplace == nil {
		return nil, abi.NewError(abi.Unimplemented, "this supervisor cannot be replaced")
	}
	if err := s.MayReplace(req.Program); err != nil {
		return nil, err
	}
	if err := s.writtenDown(); err != nil {
		return nil, err
	}
	select {
	case s.replacing <- req.Program:
	default: // it was asked already
	}
	return struct{}{}, nil
}

// writtenDown is why the next program would not know how some workloads ended.
func (s *Server) writtenDown() error {
	s.rewrite()
	if n := s.records.unwritten(); n > 0 {
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("the disk has not taken how workloads ended, which only this program knows: %d", n))
	}
	return nil
}

// DrainEnded waits until the ends of all workloads but those are written down. The error is
// that the disk does not take them.
func (s *Server) DrainEnded(but map[string]bool) error {
	for _, r := range s.records.running() {
		if !but[r.id] {
			_, _ = s.records.wait(context.Background(), r) // how it ended is its clients'
		}
	}
	return s.writtenDown()
}

// renew has the supervisor go on as this agent's program, if it is another one. When it
// cannot, it stays as it is, which it logs.
func (c *Client) renew(ctx context.Context, hello *Hello) *Hello {
	if c.Program == "" {
		return hello
	}
	id, err := programID(c.Program)
	if err != nil || id == hello.Program {
		return hello
	}
	if err := c.replace(ctx); err != nil {
		c.Logger.Info("the supervisor keeps running its own program", "pid", hello.PID, "version", hello.Version, "reason", err)
		return hello
	}
	renewed, err := backoff.Retry(ctx, func() (*Hello, error) {
		h, err := c.hello(ctx)
		if err == nil && h.Program != id {
			err = errors.New("it still runs another program")
		}
		return h, err
	}, backoff.WithBackOff(backoff.NewConstantBackOff(20*time.Millisecond)), backoff.WithMaxElapsedTime(replaceTimeout+launchTimeout))
	if err != nil {
		c.Logger.Warn("the supervisor was not replaced by this program", "pid", hello.PID, "error", err)
		return hello
	}
	c.Logger.Info("the supervisor was replaced by this program, with its tasks", "pid", renewed.PID, "before", hello.Version)
	return renewed
}

func (c *Client) replace(ctx context.Context) error {
	body, err := json.Marshal(&request{Program: c.Program})
	if err != nil {
		return err
	}
	return c.post(ctx, opReplace, body, nil)
}
