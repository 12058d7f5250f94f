package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/task"
)

const (
	// maxEntry bounds one entry of a log. Docker cuts lines at 16 KiB.
	maxEntry = 4 << 20
	// partBytes is where Docker cuts a long line. The parts are entries without a line end.
	partBytes = 16 << 10
	// flushBytes is how much output is gathered before it is handed to the node.
	flushBytes = 64 << 10
)

// The streams of a task's output, by the engine's numbers, which are the node's.
const (
	stdout = 1
	stderr = 2
)

// place is a place in one stream of a container's log: behind that many entries with that time.
// The time alone does not do: the parts of a long line have the same.
type place struct {
	time    int64 // in nanoseconds since the epoch
	entries int
}

// output is one stream of a container's output on its way to the task's log.
type output struct {
	stream  uint32
	from    place  // where the mark is: what lies before is in the task's log
	missing uint64 // bytes behind it that are, too
	passed  bool   // the mark has been passed
	skipped int    // entries with the mark's time before it
	at      place
	pending []byte
}

// newOutput reads the mark of a stream.
func newOutput(ctx context.Context, stream uint32) (*output, error) {
	mark, since, err := task.Marked(ctx, stream)
	if err != nil {
		return nil, err
	}
	o := &output{stream: stream, missing: since}
	nanoseconds, entries, _ := strings.Cut(string(mark), " ")
	o.from.time, _ = strconv.ParseInt(nanoseconds, 10, 64) // 0 without a mark
	o.from.entries, _ = strconv.Atoi(entries)
	o.at = o.from
	return o, nil
}

// take takes an entry. What the task's log has already is passed over.
func (o *output) take(at int64, content []byte) {
	if !o.passed {
		switch {
		case at < o.from.time:
			return
		case at == o.from.time && o.skipped < o.from.entries:
			o.skipped++
			return
		}
		o.passed = true
	}
	if at == o.at.time {
		o.at.entries++
	} else {
		o.at = place{at, 1}
	}
	n := min(o.missing, uint64(len(content)))
	o.missing -= n
	o.pending = append(o.pending, content[n:]...)
}

// flush hands over what was gathered, and marks where it came from. An agent that ends between
// the two is none the worse: the node counts what came after a mark.
func (o *output) flush(ctx context.Context) error {
	if !o.passed || o.missing > 0 || len(o.pending) == 0 {
		return nil
	}
	w := task.Stdout(ctx)
	if o.stream == stderr {
		w = task.Stderr(ctx)
	}
	if _, err := w.Write(o.pending); err != nil {
		return err
	}
	o.pending = o.pending[:0]
	return task.Mark(ctx, o.stream, []byte(strconv.FormatInt(o.at.time, 10)+" "+strconv.Itoa(o.at.entries)))
}

// beginLogs marks the beginning of a container's output, before there is any.
func beginLogs(ctx context.Context) error {
	for _, stream := range []uint32{stdout, stderr} {
		if err := task.Mark(ctx, stream, []byte("0 0")); err != nil {
			return err
		}
	}
	return nil
}

// copyLogs copies a container's output, from where it is in the task's log. It ends with what
// there is, or, following, with the container.
func (d *docker) copyLogs(ctx context.Context, s state, following bool) error {
	var outputs [3]*output
	for _, stream := range []uint32{stdout, stderr} {
		o, err := newOutput(ctx, stream)
		if err != nil {
			return err
		}
		outputs[stream] = o
	}
	query := url.Values{"stdout": {"1"}, "stderr": {"1"}, "timestamps": {"1"}}
	if following {
		query.Set("follow", "1")
	}
	if first := min(outputs[stdout].from.time, outputs[stderr].from.time); first > 0 && !s.terminal {
		query.Set("since", since(first))
	} else if at := outputs[stdout].from.time; at > 0 && s.terminal {
		query.Set("since", since(at))
	}
	response, err := d.engine.send(ctx, request{method: "GET", path: "/containers/" + s.container + "/logs", query: query, lasting: true})
	if err != nil {
		return err
	}
	defer func() { _ = response.Close() }()
	var r io.Reader = response
	if following {
		r = followed{response, func() bool { return d.hasEnded(ctx, s) }}
	}
	return copyEntries(ctx, &log{r: bufio.NewReaderSize(r, 32<<10), terminal: s.terminal}, outputs)
}

// followed reads a log whose end may not come though its container has ended: Podman learns of that by
// an event, which it can miss.
type followed struct {
	log   *answer
	ended func() bool
}

// Read implements [io.Reader].
func (f followed) Read(p []byte) (int, error) {
	for {
		ready, err := f.log.Await(patience.silence)
		switch {
		case err != nil:
			return 0, err
		case ready:
			return f.log.Read(p)
		case f.ended():
			return 0, io.EOF
		}
	}
}

// hasEnded reports whether the engine says that a container does not run, or has it no more. One that
// does not answer does not say so.
func (d *docker) hasEnded(ctx context.Context, s state) bool {
	v, err := d.engine.inspect(ctx, s.container)
	return absent(err) || err == nil && !v.Get("State", "Running").Bool()
}

// since is a time in the words of the engine.
func since(nanoseconds int64) string {
	rest := strconv.FormatInt(nanoseconds%1e9, 10)
	return strconv.FormatInt(nanoseconds/1e9, 10) + "." + strings.Repeat("0", 9-len(rest)) + rest
}

// copyEntries copies entries until the log ends. It hands over what it has whenever it would
// have to wait for more.
func copyEntries(ctx context.Context, l *log, outputs [3]*output) error {
	for {
		stream, at, content, err := l.next()
		if errors.Is(err, io.EOF) {
			return flush(ctx, outputs)
		}
		if err != nil {
			return errors.Join(err, flush(ctx, outputs))
		}
		o := outputs[stream]
		o.take(at, content)
		if len(o.pending) >= flushBytes || l.r.Buffered() == 0 {
			if err := flush(ctx, outputs); err != nil {
				return err
			}
		}
	}
}

func flush(ctx context.Context, outputs [3]*output) error {
	return errors.Join(outputs[stdout].flush(ctx), outputs[stderr].flush(ctx))
}

// log reads the engine's log: frames, or with a terminal lines alone.
type log struct {
	r        *bufio.Reader
	terminal bool
	content  []byte
}

var errGarbled = abi.NewRecoverableError(abi.Unavailable, "the engine's log cannot be read")

// next returns an entry, whose content is good until the next one. io.EOF: there are no more.
func (l *log) next() (stream uint32, at int64, content []byte, err error) {
	if l.terminal {
		at, content, err = l.line()
		return stdout, at, content, err
	}
	var head [8]byte
	if _, err := io.ReadFull(l.r, head[:]); err != nil {
		return 0, 0, nil, interrupted(err)
	}
	n := binary.BigEndian.Uint32(head[4:])
	if stream = uint32(head[0]); stream != stdout && stream != stderr || n > maxEntry {
		return 0, 0, nil, errGarbled
	}
	l.content = slices.Grow(l.content[:0], int(n))[:n]
	if _, err := io.ReadFull(l.r, l.content); err != nil {
		return 0, 0, nil, interrupted(err)
	}
	at, content, err = stamped(l.content)
	return stream, at, content, err
}

// interrupted takes an entry that ends in the middle for the end: it comes again as a whole.
func interrupted(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// line reads an entry of a terminal's log: up to the end of its line, or where the engine cuts.
func (l *log) line() (int64, []byte, error) {
	stamp, err := l.r.ReadSlice(' ')
	if err != nil {
		return 0, nil, interrupted(err)
	}
	at, _, err := stamped(stamp)
	if err != nil {
		return 0, nil, err
	}
	l.content = l.content[:0]
	for len(l.content) < partBytes {
		c, err := l.r.ReadByte()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, nil, err
		}
		if l.content = append(l.content, c); c == '\n' {
			break
		}
	}
	return at, l.content, nil
}

// stamped splits an entry into its time and its content.
func stamped(entry []byte) (int64, []byte, error) {
	stamp, content, found := strings.Cut(string(entry), " ")
	t, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil || !found {
		return 0, nil, errGarbled
	}
	return t.UnixNano(), []byte(content), nil
}
