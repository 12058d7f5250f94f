package network_test

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
	"github.com/wasmnode/wasmnode/sdk/go/network"
)

// probe is a driver whose tasks start by doing something.
type probe func(ctx context.Context) error

func (probe) Describe() *driver.Description {
	return &driver.Description{Name: "probe", Version: "1.0.0"}
}
func (probe) Configure(context.Context, []byte) error { return nil }
func (probe) Fingerprint(context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy}, nil
}
func (p probe) StartTask(ctx context.Context, _ *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	return &driver.TaskHandle{Version: 1}, nil, p(ctx)
}

// echo has a node send back what comes to a socket.
func echo(node *drivertest.Node) {
	l := node.Listen("/run/echo.sock")
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
}

// A guest has one thread, and still one goroutine reads while another writes.
func TestAConnectionIsReadAndWrittenAtOnce(t *testing.T) {
	node := drivertest.NewCompiled(t, guestbuild.Plugin(t, "network/testdata/dialer"), nil)
	echo(node)
	handle, _, err := node.StartTask(node.Task(`{}`))
	expect.NoError(t, err)
	expect.Equal(t, handle.Version, uint32(1<<20))
}

func TestAConnectionHasDeadlines(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver {
		return probe(func(ctx context.Context) error {
			conn, err := (&network.Dialer{Timeout: time.Minute}).DialContext(ctx, "unix", "/run/echo.sock")
			if err != nil {
				return err
			}
			expect.Equal(t, conn.RemoteAddr().String(), "/run/echo.sock")
			expect.Equal(t, conn.RemoteAddr().Network(), "unix")
			expect.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
			buf := make([]byte, 5)
			if _, err := conn.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read: %v", err)
			}
			expect.NoError(t, conn.SetDeadline(time.Time{}))
			_, err = conn.Write([]byte("hello"))
			expect.NoError(t, err)
			_, err = io.ReadFull(conn, buf)
			expect.NoError(t, err)
			expect.Equal(t, string(buf), "hello")
			expect.NoError(t, conn.SetWriteDeadline(time.Now()))
			if _, err := conn.Write(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("write: %v", err)
			}
			closed := make(chan error, 1)
			go func() {
				_, err := conn.Read(buf)
				closed <- err
			}()
			expect.NoError(t, conn.Close())
			if err := <-closed; !errors.Is(err, os.ErrClosed) && abi.CodeOf(err) != abi.NotFound {
				t.Errorf("a read of a closed connection: %v", err)
			}
			return nil
		})
	})
	echo(node)
	_, _, err := node.StartTask(node.Task(`{}`))
	expect.NoError(t, err)
}

func TestANetworkThatIsNone(t *testing.T) {
	_, err := network.Dial(t.Context(), "udp", "a:1")
	expect.Equal(t, abi.CodeOf(err), abi.InvalidArgument)
}
