package drivertest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/command"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
)

// shell is a driver whose commands do what exec says.
type shell struct {
	probe
	exec func(ctx context.Context, c *driver.Command) (*driver.ExitResult, error)
}

func (s *shell) Exec(ctx context.Context, _ string, _ *driver.TaskHandle, c *driver.Command) (*driver.ExitResult, error) {
	return s.exec(ctx, c)
}

func shellNode(t *testing.T, exec func(ctx context.Context, c *driver.Command) (*driver.ExitResult, error)) (*drivertest.Node, *driver.TaskConfig, *driver.TaskHandle) {
	t.Helper()
	node := drivertest.New(t, func() driver.Driver { return &shell{exec: exec} })
	return node, node.Task(`{}`), &driver.TaskHandle{Version: 1}
}

func TestACommandHasStreams(t *testing.T) {
	node, task, handle := shellNode(t, func(ctx context.Context, c *driver.Command) (*driver.ExitResult, error) {
		expect.Equal(t, strings.Join(c.Args, " "), "cat -")
		expect.Equal(t, c.Timeout, time.Second)
		s, err := command.Open(ctx)
		expect.NoError(t, err)
		_, err = command.Open(ctx)
		expect.Code(t, err, abi.FailedPrecondition)
		size, err := s.NextSize()
		expect.NoError(t, err)
		fmt.Fprint(s.Stderr, c.TTY, c.Size, size)
		_, err = s.NextSize()
		expect.Equal(t, err, io.EOF)
		_, err = io.Copy(s.Stdout, s.Stdin)
		return &driver.ExitResult{ExitCode: 7}, err
	})
	var stdout, stderr bytes.Buffer
	sizes := make(chan driver.TerminalSize, 1)
	sizes <- driver.TerminalSize{Rows: 50, Columns: 65535}
	close(sizes)
	asked := &drivertest.Command{
		Args: []string{"cat", "-"}, TTY: true, Size: driver.TerminalSize{Rows: 24, Columns: 80}, Sizes: sizes, Timeout: time.Second,
		Stdin: strings.NewReader("input"), Stdout: &stdout, Stderr: &stderr,
	}
	result, err := node.Exec(task, handle, asked)
	expect.NoError(t, err)
	expect.Equal(t, result.ExitCode, int32(7))
	expect.Equal(t, stdout.String(), "input")
	expect.Equal(t, stderr.String(), "true {24 80} {50 65535}")

	asked.Stdin = io.MultiReader(strings.NewReader("some"), broken{})
	asked.Sizes = sizes // closed
	node, task, handle = shellNode(t, func(ctx context.Context, _ *driver.Command) (*driver.ExitResult, error) {
		s, err := command.Open(ctx)
		expect.NoError(t, err)
		_, err = io.Copy(s.Stdout, s.Stdin)
		return nil, err
	})
	_, err = node.Exec(task, handle, asked)
	expect.Code(t, err, abi.Unavailable, "nobody waits for it any more, as a node says it")
}

// broken is the input of a client that has gone.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("gone") }

func TestACommandWithoutStreams(t *testing.T) {
	node, task, handle := shellNode(t, func(ctx context.Context, _ *driver.Command) (*driver.ExitResult, error) {
		s, err := command.Open(ctx)
		expect.NoError(t, err)
		input, err := io.ReadAll(s.Stdin)
		expect.NoError(t, err)
		expect.Equal(t, len(input), 0)
		fmt.Fprint(s.Stdout, "out")
		fmt.Fprint(s.Stderr, "err")
		return &driver.ExitResult{}, nil
	})
	result, err := node.ExecTask(task, handle, []string{"ls"}, 0)
	expect.NoError(t, err)
	expect.Equal(t, string(result.Stdout)+string(result.Stderr), "outerr")

	// Nothing says how it ended.
	node, task, handle = shellNode(t, func(context.Context, *driver.Command) (*driver.ExitResult, error) { return nil, nil })
	_, err = node.ExecTask(task, handle, []string{"ls"}, 0)
	expect.Code(t, err, abi.Internal)
}
