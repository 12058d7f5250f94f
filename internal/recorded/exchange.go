package recorded

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"
)

// An Exchange is a question with its answer. Values are nil, bool, int64, uint64, float64, string,
// []any and map[string]any, as they stood on the wire; a time is a string there.
type Exchange struct {
	By     string // ByNode or ByServer
	Method string
	Args   any
	Error  string // the answer, if it was one
	Reply  any
	Frames []any // the answer to a streaming request, instead of Reply
}

// Who has asked.
const (
	ByNode   = "node"
	ByServer = "server"
)

// line is an exchange in a file, one a line.
type line struct {
	By     string `json:"by"`
	Method string `json:"method"`
	Args   any    `json:"args"`
	Error  string `json:"error,omitempty"`
	Reply  any    `json:"reply,omitempty"`
	Frames []any  `json:"frames,omitempty"`
}

// Write writes exchanges to a file.
func Write(path string, list []Exchange) error {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	for _, x := range list {
		l := line{x.By, x.Method, toJSON(x.Args), x.Error, toJSON(x.Reply), nil}
		for _, f := range x.Frames {
			l.Frames = append(l.Frames, toJSON(f))
		}
		if err := e.Encode(l); err != nil {
			return err
		}
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// Read reads what Write has written.
func Read(path string) (list []Exchange, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	d := json.NewDecoder(bufio.NewReader(file))
	d.UseNumber()
	for d.More() {
		var l line
		if err := d.Decode(&l); err != nil {
			return nil, fmt.Errorf("%s: exchange %d: %w", path, len(list)+1, err)
		}
		x := Exchange{By: l.By, Method: l.Method, Args: fromJSON(l.Args), Error: l.Error, Reply: fromJSON(l.Reply)}
		for _, f := range l.Frames {
			x.Frames = append(x.Frames, fromJSON(f))
		}
		list = append(list, x)
	}
	return list, nil
}

// What JSON has no form for is a map with one of these keys.
const (
	keyTime  = "$time"
	keyBytes = "$bytes"
	keyFloat = "$float"
)

func toJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, in := range v {
			out[k] = toJSON(in)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, in := range v {
			out[i] = toJSON(in)
		}
		return out
	case float64:
		return map[string]any{keyFloat: strconv.FormatFloat(v, 'g', -1, 64)}
	case string:
		if at, is := timeOf(v); is {
			return map[string]any{keyTime: at}
		}
		if !isText(v) {
			return map[string]any{keyBytes: base64.StdEncoding.EncodeToString([]byte(v))}
		}
	}
	return v
}

// fromJSON is what a file has, which the tests themselves wrote: what is none is left as it is.
func fromJSON(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
		n, _ := strconv.ParseUint(string(v), 10, 64)
		return n
	case []any:
		for i := range v {
			v[i] = fromJSON(v[i])
		}
	case map[string]any:
		for key, read := range map[string]func(string) any{keyTime: readTime, keyBytes: readBytes, keyFloat: readFloat} {
			if text, is := v[key].(string); is && len(v) == 1 {
				return read(text)
			}
		}
		for k := range v {
			v[k] = fromJSON(v[k])
		}
	}
	return v
}

func readTime(text string) any {
	at, _ := time.Parse(time.RFC3339Nano, text)
	raw, _ := at.MarshalBinary()
	return string(raw)
}

func readBytes(text string) any {
	raw, _ := base64.StdEncoding.DecodeString(text)
	return string(raw)
}

func readFloat(text string) any {
	f, _ := strconv.ParseFloat(text, 64)
	return f
}

// timeOf reports whether a string is a time in Go's binary form.
func timeOf(s string) (at time.Time, is bool) {
	const size, version = 15, 1
	if len(s) != size || s[0] != version || at.UnmarshalBinary([]byte(s)) != nil {
		return at, false
	}
	return at.UTC(), true
}

// isText reports whether a string has nothing in it that no text has.
func isText(s string) bool {
	for _, r := range s {
		if r == '\uFFFD' || r < ' ' && r != '\n' && r != '\t' && r != '\r' && r != '\x1b' {
			return false
		}
	}
	return true
}
