package trial

import (
	"bytes"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
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
	w.begin(time.Unix(0, 0), [32]byte{}, true, false)
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
