package trial

import (
	"bytes"
	"errors"
	"testing"
	"time"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"

	"google.golang.org/protobuf/proto"

	"github.com/wasmnode/wasmnode/sandbox/rootfs"
)

// Encode encodes a request that is written as JSON.
func Encode(op string, text []byte) ([]byte, error) {
	m, err := readRequest(op, text)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// Clock is the time that a plugin has whose call is repeated: how much has passed when it looks,
// and whether it sleeps.
func Clock() (look func() time.Duration, sleep func(time.Duration) time.Duration) {
	w := &world{}
	w.begin(time.Unix(0, 0), [32]byte{}, true, false, nil)
	return func() time.Duration {
		s, ns := w.Walltime()
		return time.Duration(s)*time.Second + time.Duration(ns)
	}, w.Asleep
}

// MessagesOf are the messages of each capability.
var MessagesOf = messagesOf

// Mask masks a message that is written as JSON.
func Mask(name string, text []byte) ([]byte, error) {
	encoded, err := wire(name, text)
	if err != nil {
		return nil, err
	}
	return (&masker{}).show(name, encoded), nil
}

// WriteRecording is the text of a recording.
func WriteRecording(r *Recording) ([]byte, error) {
	var out bytes.Buffer
	err := r.write(&out)
	for _, c := range r.Calls {
		err = errors.Join(err, c.write(&out))
	}
	return out.Bytes(), err
}

// Configure has a recorded call be made with another configuration.
func (c *RecordedCall) Configure(config string) { c.config = payload(config) }

// MaskFile is what is recorded of a file that is read in pieces, joined.
func MaskFile(file, text string, piece int) (out string) {
	var uses []takenUse
	for i := 0; i < len(text); i += piece {
		uses = append(uses, takenUse{file: &fileAsk{Path: file, file: 1}, got: &fileAnswer{data: []byte(text[i:min(i+piece, len(text))])}})
	}
	read := (&masker{}).contents(uses)
	for i := range uses {
		out += read[i]
	}
	return out
}

// Taken is why a call is not recorded that has so many uses of so many bytes together; nil: it is.
func Taken(uses, bytes int) error {
	t := &taking{bytes: bytes - takenOverhead*min(uses, bytes)}
	for range uses {
		t.keep(takenUse{}, 0)
	}
	if bytes == 0 {
		t.bytes = 0
	}
	return t.tooMuch()
}

// ReadFileOnce reads the file "a" of a directory with so much room, and returns how much it got.
func ReadFileOnce(t *testing.T, dir string, room int) int {
	t.Helper()
	seen, err := (&world{}).Files("/a", func() string { return "" }, func() (experimentalsys.FS, error) { return rootfs.Open(dir, true) })
	if err != nil {
		t.Fatal(err)
	}
	f, no := seen.OpenFile("a", experimentalsys.O_RDONLY, 0)
	if no != 0 {
		t.Fatal(no)
	}
	n, no := f.Read(make([]byte, room))
	if no != 0 || f.Close() != 0 {
		t.Fatal(no)
	}
	return n
}
