package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/network"
)

// connection is a connection to a gRPC server, over HTTP/2, on which one call is made after the
// other. The library for gRPC would make the plugin five times as large, and each of its
// instances, of which every task has one; what it does beyond this is not needed here.
type connection struct {
	net.Conn
	in        *bufio.Reader
	frame     []byte // the payload of the last one
	headers   *hpack.Decoder
	fields    map[string]string // of the headers that are decoded
	out       bytes.Buffer      // a frame's payload of headers
	encoder   *hpack.Encoder
	metadata  []hpack.HeaderField
	stream    uint32    // of the last call
	window    int64     // how much the server takes on the connection
	initial   int64     // how much it takes on a new stream
	remaining int64     // and on the last one
	until     time.Time // the operation has no more time; zero: it has
}

// The types of frames, and flags of them.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing = 0, 1, 3, 4, 6
	frameGoAway, frameWindow, frameContinuation                   = 7, 8, 9

	flagEnd, flagAck, flagEndHeaders, flagPadded, flagPriority = 1, 1, 4, 8, 0x20
)

const (
	// maxFrame is the largest frame that either side may send, as nobody asks for another one.
	maxFrame = 16 << 10
	// maxHeaders bounds a block of headers, and each header in it.
	maxHeaders = 64 << 10
	// maxMessage bounds a message of the server's; it is gRPC's own bound.
	maxMessage = 4 << 20
	// firstWindow is what either side may send before the other one has said more.
	firstWindow = 65535
	// settingWindow is the setting for that of new streams.
	settingWindow = 4
	// answerTime bounds a call that is no wait.
	answerTime = time.Minute
)

// patience is for how long the driver waits for containerd in an operation. It is less than the node
// gives that (abi/ABI.md): what the node has to cut off is the driver's fault, and a containerd that
// hangs is not.
var patience = struct{ fingerprint, start, stop, signal, stats, remove, recover time.Duration }{
	fingerprint: 8 * time.Second,
	start:       14*time.Minute + 30*time.Second,
	stop:        8 * time.Second, // beyond the time that the task has to end
	signal:      8 * time.Second,
	stats:       4 * time.Second,
	remove:      25 * time.Second,
	recover:     25 * time.Second,
}

// connect connects to a socket.
func connect(ctx context.Context, socket string, metadata ...hpack.HeaderField) (*connection, error) {
	conn, err := network.Dial(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	c := newConnection(conn, metadata)
	c.until, _ = ctx.Deadline()
	if err := c.greet(); err != nil {
		_ = conn.Close()
		return nil, lost(err, "a connection", answerTime)
	}
	return c, nil
}

func newConnection(conn net.Conn, metadata []hpack.HeaderField) *connection {
	c := &connection{Conn: conn, in: bufio.NewReader(conn), metadata: metadata, window: firstWindow, initial: firstWindow}
	c.encoder = hpack.NewEncoder(&c.out)
	c.headers = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if len(c.fields) < 100 {
			c.fields[f.Name] = f.Value
		}
	})
	c.headers.SetMaxStringLength(maxHeaders)
	return c
}

// greet says that this is HTTP/2, with no settings of its own.
func (c *connection) greet() error {
	if err := c.SetDeadline(time.Now().Add(c.within(answerTime))); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		return err
	}
	return c.writeFrame(frameSettings, 0, 0, nil)
}

// call calls a method, and hands over each message of the answer, which is good until take
// returns. Without a time it waits for as long as the operation may.
func (c *connection) call(method string, request []byte, longest time.Duration, take func(message []byte) error) error {
	var deadline time.Time
	if longest = c.within(longest); longest > 0 {
		deadline = time.Now().Add(longest)
	}
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	if err := c.send(method, request); err != nil {
		return lost(err, strings.TrimPrefix(method, services), longest)
	}
	outcome, err := c.receive(take)
	if err != nil {
		return lost(err, strings.TrimPrefix(method, services), longest)
	}
	return outcome
}

// within is so long, but no longer than the operation has; 0: there is no bound.
func (c *connection) within(longest time.Duration) time.Duration {
	if c.until.IsZero() {
		return longest
	}
	left := max(time.Until(c.until), time.Millisecond)
	if longest == 0 {
		return left
	}
	return min(longest, left)
}

// lost says that a connection was, in a call that had so long: that may pass.
func lost(err error, method string, longest time.Duration) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return abi.NewRecoverableError(abi.DeadlineExceeded, "containerd does not answer "+method+" within "+longest.Round(100*time.Millisecond).String())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return abi.NewRecoverableError(abi.Unavailable, "containerd has closed the connection")
	}
	return abi.NewRecoverableError(abi.Unavailable, "the connection to containerd: "+err.Error())
}

// send sends a request, in frames as the server takes them.
func (c *connection) send(method string, request []byte) error {
	c.stream += 2
	if c.stream == 2 {
		c.stream = 1
	}
	c.remaining = c.initial
	c.out.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method}, {Name: ":authority", Value: "containerd"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}, c.metadata...) {
		if err := c.encoder.WriteField(f); err != nil {
			return err
		}
	}
	if err := c.writeFrame(frameHeaders, flagEndHeaders, c.stream, c.out.Bytes()); err != nil {
		return err
	}
	body := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request)))
	body = append(body, request...)
	for len(body) > 0 {
		n := min(int64(len(body)), maxFrame, c.window, c.remaining)
		if n <= 0 {
			if err := c.awaitWindow(); err != nil {
				return err
			}
			continue
		}
		flags := byte(0)
		if n == int64(len(body)) {
			flags = flagEnd
		}
		if err := c.writeFrame(frameData, flags, c.stream, body[:n]); err != nil {
			return err
		}
		c.window, c.remaining, body = c.window-n, c.remaining-n, body[n:]
	}
	return nil
}

// awaitWindow reads a frame while the server takes no more of a request. An answer that comes
// before the request is whole is a refusal.
func (c *connection) awaitWindow() error {
	h, err := c.readFrame()
	if err != nil {
		return err
	}
	if h.stream == c.stream && (h.kind == frameHeaders || h.kind == frameData || h.kind == frameReset) {
		return errors.New("it refuses the request before it is whole")
	}
	return nil
}

// head is that of a frame.
type head struct {
	kind, flags byte
	stream      uint32
}

func (c *connection) writeFrame(kind, flags byte, stream uint32, payload []byte) error {
	n := len(payload)
	b := append(make([]byte, 0, 9+n), byte(n>>16), byte(n>>8), byte(n), kind, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	_, err := c.Write(append(b, payload...))
	return err
}

// readFrame reads a frame, and does what concerns the connection.
func (c *connection) readFrame() (h head, err error) {
	var b [9]byte
	if _, err := io.ReadFull(c.in, b[:]); err != nil {
		return h, err
	}
	n := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	h = head{b[3], b[4], binary.BigEndian.Uint32(b[5:]) &^ (1 << 31)}
	if n > maxFrame {
		return h, errors.New("a frame is larger than agreed")
	}
	if cap(c.frame) < n {
		c.frame = make([]byte, maxFrame)
	}
	c.frame = c.frame[:n]
	if _, err := io.ReadFull(c.in, c.frame); err != nil {
		return h, err
	}
	switch {
	case h.kind == frameSettings && h.flags&flagAck == 0:
		return h, c.takeSettings()
	case h.kind == framePing && h.flags&flagAck == 0:
		return h, c.writeFrame(framePing, flagAck, 0, c.frame)
	case h.kind == frameWindow && n == 4:
		c.takeWindow(h.stream, int64(binary.BigEndian.Uint32(c.frame)&^(1<<31)))
	case h.kind == frameGoAway:
		return h, io.EOF
	}
	return h, nil
}

func (c *connection) takeSettings() error {
	for b := c.frame; len(b) >= 6; b = b[6:] {
		if value := int64(binary.BigEndian.Uint32(b[2:])); binary.BigEndian.Uint16(b) == settingWindow {
			c.remaining += value - c.initial
			c.initial = value
		}
	}
	return c.writeFrame(frameSettings, flagAck, 0, nil)
}

func (c *connection) takeWindow(stream uint32, more int64) {
	switch stream {
	case 0:
		c.window += more
	case c.stream:
		c.remaining += more
	}
}

// receive reads the answer to the last call. The outcome is what the server makes of it, or what
// take does; an error is the connection's.
func (c *connection) receive(take func(message []byte) error) (outcome, err error) {
	var body []byte
	for outcome == nil {
		h, err := c.readFrame()
		switch {
		case err != nil:
			return nil, err
		case h.stream != c.stream:
		case h.kind == frameReset:
			return abi.NewRecoverableError(abi.Unavailable, "containerd has broken the call off"), nil
		case h.kind == frameHeaders:
			if err := c.readHeaders(h); err != nil {
				return nil, err
			}
			if h.flags&flagEnd != 0 {
				return c.outcome(), nil
			}
		case h.kind == frameData:
			content, err := c.takeData(h)
			if err != nil {
				return nil, err
			}
			if body, outcome, err = messages(append(body, content...), take); err != nil {
				return nil, err
			}
		}
	}
	return outcome, nil
}

// takeData returns a frame's data, and lets the server send as much again.
func (c *connection) takeData(h head) ([]byte, error) {
	if n := uint32(len(c.frame)); n > 0 {
		more := binary.BigEndian.AppendUint32(nil, n)
		if err := errors.Join(c.writeFrame(frameWindow, 0, 0, more), c.writeFrame(frameWindow, 0, c.stream, more)); err != nil {
			return nil, err
		}
	}
	if h.flags&flagEnd != 0 {
		return nil, io.ErrUnexpectedEOF // the status comes in headers
	}
	return unpadded(h, c.frame)
}

// messages hands over those that are whole, and returns the rest.
func messages(body []byte, take func(message []byte) error) (rest []byte, outcome, err error) {
	for len(body) >= 5 && outcome == nil {
		n := binary.BigEndian.Uint32(body[1:])
		switch {
		case body[0] != 0:
			return nil, nil, errors.New("a message is compressed")
		case n > maxMessage:
			return nil, nil, errors.New("a message is larger than 4 MiB")
		case uint32(len(body)-5) < n:
			return body, nil, nil
		}
		outcome = take(body[5 : 5+n])
		body = body[5+n:]
	}
	return body, outcome, nil
}

func unpadded(h head, b []byte) ([]byte, error) {
	if h.flags&flagPadded == 0 {
		return b, nil
	}
	if len(b) < 1 || int(b[0]) >= len(b) {
		return nil, errors.New("a frame has more padding than content")
	}
	return b[1 : len(b)-int(b[0])], nil
}

// readHeaders decodes a block of headers, in as many frames as it has.
func (c *connection) readHeaders(h head) error {
	content, err := unpadded(h, c.frame)
	if err != nil {
		return err
	}
	if h.flags&flagPriority != 0 {
		if len(content) < 5 {
			return io.ErrUnexpectedEOF
		}
		content = content[5:]
	}
	block := bytes.Clone(content)
	for end := h.flags&flagEndHeaders != 0; !end; {
		next, err := c.readFrame()
		if err != nil {
			return err
		}
		if block = append(block, c.frame...); next.kind != frameContinuation || len(block) > maxHeaders {
			return errors.New("its headers do not end")
		}
		end = next.flags&flagEndHeaders != 0
	}
	c.fields = map[string]string{}
	if _, err := c.headers.Write(block); err != nil {
		return err
	}
	return c.headers.Close()
}

// outcome is how a call has ended, by the headers that end it.
func (c *connection) outcome() error {
	text, found := c.fields["grpc-status"]
	if !found {
		return abi.NewError(abi.Internal, "the socket is not containerd's: it answers with the status "+strconv.Quote(c.fields[":status"]))
	}
	n, err := strconv.Atoi(text)
	if err == nil && n == 0 {
		return nil
	}
	message := unescape(c.fields["grpc-message"])
	switch code := abi.Code(n); {
	case err != nil || n < 0 || n > 16 || code == abi.Unavailable: // the numbers that gRPC has are those of the node's codes
		return abi.NewRecoverableError(abi.Unavailable, message)
	case code == abi.Cancelled, code == abi.DeadlineExceeded, code == abi.ResourceExhausted, code == abi.Aborted:
		return abi.NewRecoverableError(code, message)
	default:
		return abi.NewError(code, message)
	}
}

// unescape undoes gRPC's way to have any text in a header.
func unescape(text string) string {
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(n))
				i += 2
				continue
			}
		}
		b = append(b, text[i])
	}
	return string(b)
}
