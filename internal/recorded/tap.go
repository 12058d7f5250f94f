package recorded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// What the first bytes of a connection and of a stream say, and yamux's frames.
const (
	byteMultiplex = 0x06
	byteRPC       = 0x01
	byteStreaming = 0x05

	frameHeader = 12
	frameData   = 0
)

// maxFrames is how many frames of a streaming request are kept.
const maxFrames = 4

// A Tap keeps what passes on connections without TLS between a node and its servers. Its zero
// value is ready.
type Tap struct {
	mu    sync.Mutex
	conns []*heard
}

// heard is what both sides of a connection have said.
type heard struct{ node, server bytes.Buffer }

// Connection is for what both sides of another connection say.
func (t *Tap) Connection() (node, server io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &heard{}
	t.conns = append(t.conns, c)
	return side{&t.mu, &c.node}, side{&t.mu, &c.server}
}

// side is one side of a connection.
type side struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

// Write implements io.Writer.
func (s side) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}

// Exchanges are those that have ended so far, by connection and stream.
func (t *Tap) Exchanges() (list []Exchange, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, c := range t.conns {
		if c.node.Len() == 0 || c.node.Bytes()[0] != byteMultiplex {
			continue
		}
		node, server := streams(c.node.Bytes()[1:]), streams(c.server.Bytes())
		for _, id := range slices.Sorted(maps.Keys(node)) {
			by, asked, answered := ByNode, node[id], server[id]
			if id%2 == 0 {
				by, asked, answered = ByServer, server[id], node[id]
			}
			found, err := exchanges(by, asked, answered)
			if err != nil {
				return nil, fmt.Errorf("connection %d, stream %d: %w", n, id, err)
			}
			list = append(list, found...)
		}
	}
	return list, nil
}

// streams is what a side has said on each of its streams.
func streams(side []byte) map[uint32][]byte {
	all := map[uint32][]byte{}
	for len(side) >= frameHeader {
		kind, id, length := side[1], binary.BigEndian.Uint32(side[4:]), int(binary.BigEndian.Uint32(side[8:]))
		side = side[frameHeader:]
		if kind != frameData {
			continue
		}
		if len(side) < length { // it was cut
			break
		}
		all[id] = append(all[id], side[:length]...)
		side = side[length:]
	}
	return all
}

// exchanges are those of a stream.
func exchanges(by string, asked, answered []byte) (list []Exchange, err error) {
	if len(asked) == 0 {
		return nil, nil
	}
	questions, err := values(asked[1:])
	if err != nil {
		return nil, err
	}
	answers, err := values(answered)
	if err != nil {
		return nil, err
	}
	switch asked[0] {
	case byteRPC:
		for n := 0; n+1 < len(questions) && n+1 < len(answers); n += 2 {
			x := Exchange{By: by, Method: text(questions[n], "ServiceMethod"), Args: questions[n+1], Error: text(answers[n], "Error")}
			if x.Error == "" {
				x.Reply = answers[n+1]
			}
			list = append(list, x)
		}
	case byteStreaming:
		if len(questions) > 1 && len(answers) > 0 {
			x := Exchange{By: by, Method: text(questions[0], "Method"), Args: questions[1], Error: text(answers[0], "Error")}
			x.Frames = answers[1:min(len(answers), maxFrames+1)]
			list = append(list, x)
		}
	}
	return list, nil
}

// text is a field of a header.
func text(header any, field string) string {
	fields, _ := header.(map[string]any)
	s, _ := fields[field].(string)
	return s
}

// values are those that are whole.
func values(raw []byte) (list []any, err error) {
	h := &codec.MsgpackHandle{}
	h.RawToString, h.MapType, h.TimeNotBuiltin = true, reflect.TypeFor[map[string]any](), true
	for d := codec.NewDecoderBytes(raw, h); d.NumBytesRead() < len(raw); {
		var v any
		switch err := d.Decode(&v); {
		case err == io.EOF || err == io.ErrUnexpectedEOF: //nolint:errorlint // as they are: the rest is cut
			return list, nil
		case err != nil:
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}
