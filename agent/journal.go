package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/clientapi"
)

// maxComplaint bounds what is kept of what journalctl says is wrong, in bytes.
const maxComplaint = 1 << 10

// journal reads the machine's journal with systemd's own program. It ends with ctx, and when it
// is closed; that program's own failure is the error of the last read.
func journal(ctx context.Context, q clientapi.JournalQuery) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	args := []string{"--no-pager", "--unit=" + q.Service, fmt.Sprintf("--since=%d seconds ago", q.Since/time.Second)}
	if q.Follow {
		args = append(args, "--follow", "--no-tail")
	}
	r := &journalReader{cmd: exec.CommandContext(ctx, "journalctl", args...), cancel: cancel}
	r.cmd.Stderr = &r.complaint
	r.cmd.WaitDelay = time.Second
	var err error
	if r.lines, err = r.cmd.StdoutPipe(); err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return r, nil
}

// journalReader is one run of journalctl, for one goroutine.
type journalReader struct {
	cmd       *exec.Cmd
	cancel    context.CancelFunc
	lines     io.Reader
	complaint complaint
	ended     bool
}

// Read implements [io.Reader].
func (r *journalReader) Read(p []byte) (int, error) {
	n, err := r.lines.Read(p)
	if errors.Is(err, io.EOF) && !r.ended {
		r.ended = true
		if failed := r.cmd.Wait(); failed != nil {
			err = fmt.Errorf("journalctl: %s: %w", strings.TrimSpace(string(r.complaint)), failed)
		}
	}
	return n, err
}

// Close implements [io.Closer].
func (r *journalReader) Close() error {
	r.cancel()
	if !r.ended {
		r.ended = true
		_ = r.cmd.Wait() // it was ended
	}
	return nil
}

// complaint is the beginning of what a program says of its errors.
type complaint []byte

// Write implements [io.Writer].
func (c *complaint) Write(b []byte) (int, error) {
	*c = append(*c, b[:min(len(b), maxComplaint-len(*c))]...)
	return len(b), nil
}
