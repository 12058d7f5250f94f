package eventsink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// JournalSocket is where systemd's journal takes entries.
const JournalSocket = "/run/systemd/journal/socket"

// journalTimeout is how long the journal may take for an entry.
const journalTimeout = 10 * time.Second

// Journal writes an entry for each event, with fields by which journalctl finds them.
type Journal struct {
	socket string
	conn   *net.UnixConn
}

// NewJournal is for the journal that takes entries at a socket, once there is one.
func NewJournal(socket string) *Journal { return &Journal{socket: socket} }

// journalEvent is what the journal's fields have of an event.
type journalEvent struct {
	Topic, Type, Key, Namespace string
	Index                       uint64
}

// Deliver implements [Receiver]. An event that the journal takes not for its size is an entry
// without it.
func (j *Journal) Deliver(ctx context.Context, _ string, line []byte) error {
	var told struct{ Events []json.RawMessage }
	if err := json.Unmarshal(line, &told); err != nil {
		return &Refused{err}
	}
	for _, text := range told.Events {
		var e journalEvent
		if err := json.Unmarshal(text, &e); err != nil {
			return &Refused{err}
		}
		fields := e.fields()
		err := j.send(ctx, fields+"WASMNODE_EVENT="+string(text)+"\n")
		if errors.Is(err, unix.EMSGSIZE) {
			err = j.send(ctx, fields)
		}
		if err != nil {
			return fmt.Errorf("the journal: %w", err)
		}
	}
	return nil
}

// fields are an entry but for the event. What is rendered as JSON has no line end in it, and
// what its texts have is taken out.
func (e *journalEvent) fields() string {
	message := fmt.Sprintf("%s %s: %s", e.Topic, e.Key, e.Type)
	var b strings.Builder
	for _, field := range [][2]string{
		{"MESSAGE", message}, {"PRIORITY", "6"}, {"SYSLOG_IDENTIFIER", "wasmnode"},
		{"WASMNODE_TOPIC", e.Topic}, {"WASMNODE_TYPE", e.Type}, {"WASMNODE_KEY", e.Key},
		{"WASMNODE_NAMESPACE", e.Namespace}, {"WASMNODE_INDEX", fmt.Sprint(e.Index)},
	} {
		if field[1] != "" {
			fmt.Fprintf(&b, "%s=%s\n", field[0], strings.ReplaceAll(field[1], "\n", " "))
		}
	}
	return b.String()
}

// send sends an entry. A journal that was started again has another socket.
func (j *Journal) send(ctx context.Context, entry string) (err error) {
	for range 2 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if j.conn == nil {
			if j.conn, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: j.socket, Net: "unixgram"}); err != nil {
				return err
			}
		}
		if err = j.write(ctx, entry); err == nil || errors.Is(err, unix.EMSGSIZE) {
			return err
		}
		_ = j.Close()
	}
	return err
}

// write waits no longer than ctx. A write to a socket that is closed fails by itself.
func (j *Journal) write(ctx context.Context, entry string) error {
	conn := j.conn
	_ = conn.SetWriteDeadline(time.Now().Add(journalTimeout))
	defer context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Unix(1, 0)) })()
	_, err := conn.Write([]byte(entry))
	return err
}

// Sync implements [Receiver]. When the journal writes is its own matter.
func (*Journal) Sync() error { return nil }

// Close implements [Receiver].
func (j *Journal) Close() error {
	if j.conn == nil {
		return nil
	}
	err := j.conn.Close()
	j.conn = nil
	return err
}
