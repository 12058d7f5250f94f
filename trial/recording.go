package trial

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
)

// Recording is calls of a plugin, with all that it asked the host for and was answered.
//
// As a text it is JSON, a line each: first {"recording": …}; then for each call {"call": …}, a
// {"use": …} for each use of a capability, those of configuring its instance first, and
// {"end": …}. The log of a plugin is not among its uses. Its secrets are masked: see maskRules.
type Recording struct {
	Plugin, Version string
	Digest          string // of the file
	// Secrets are the names that the plugin's schemas say secrets have.
	Secrets []string
	Calls   []*RecordedCall
}

// RecordedCall is a call in an instance that has seen none before it.
type RecordedCall struct {
	Op      string
	Line    int     // in the text
	config  payload // the plugin's
	request payload
	began   time.Time
	seed    [32]byte // of what it drew as random numbers
	Uses    []*RecordedUse
	outcome outcome
	fs      host.FSGrant // that the plugin had
}

// maxFiles is how many files of a call are named.
const maxFiles = 32

// Files are those that it asked for by WASI, sorted, at most 32.
func (c *RecordedCall) Files() (names []string) {
	for _, u := range c.Uses {
		if at, known := slices.BinarySearch(names, u.file()); u.file() != "" && !known && len(names) < maxFiles {
			names = slices.Insert(names, at, u.file())
		}
	}
	return names
}

// RecordedUse is a use of a capability, or of a file by WASI.
type RecordedUse struct {
	Op         string // the call's, or that which configures its instance
	Capability string // such as "process/v1 start", or "wasi/v1 open"
	Line       int

	asked  asked
	answer answered
	after  time.Duration // since the call began, when it was answered
}

// capabilities is how many uses it has but of files.
func (c *RecordedCall) capabilities() (n int) {
	for _, u := range c.Uses {
		if !isFile(u.Capability) {
			n++
		}
	}
	return n
}

// file is the path of the file that it is of; empty: it is of a capability.
func (u *RecordedUse) file() string {
	var ask fileAsk
	if !isFile(u.Capability) || json.Unmarshal(u.asked.request, &ask) != nil {
		return ""
	}
	return ask.Path
}

// name is what it is called for people.
func (u *RecordedUse) name() string { return strings.TrimSpace(u.Capability + " " + u.file()) }

// asked is what a plugin hands over.
type asked struct {
	number, room uint32
	request      payload
}

// answered is what it gets.
type answered struct {
	err    *abi.Error
	count  uint32
	answer payload
	ended  bool // it did not get anything any more
}

// outcome is how a call ended: an answer, an error of the plugin's, or a fault.
type outcome struct {
	answer payload
	err    *abi.Error
	fault  string // its kind
	text   string // of the fault, for people
}

// recordingFormat is the version of the text. A change that an older version of this program
// would read wrongly is another one.
const recordingFormat = 2

// Bounds of a recording.
const (
	maxRecordingBytes = 256 << 20
	maxLineBytes      = 16 << 20 // base64 takes a third more than the 4 MiB of a request
	maxRecordedCalls  = 10_000
	maxRecordedUses   = 100_000 // of one call
)

// recordLine is one line. One of its fields is set.
type recordLine struct {
	Recording *headerLine `json:"recording,omitempty"`
	Call      *callLine   `json:"call,omitempty"`
	Use       *useLine    `json:"use,omitempty"`
	End       *endLine    `json:"end,omitempty"`
}

type headerLine struct {
	Format  int      `json:"format"`
	Plugin  string   `json:"plugin"`
	Version string   `json:"version"`
	Digest  string   `json:"digest"`
	Masked  []string `json:"masked"`
	Secrets []string `json:"secrets,omitempty"`
}

type callLine struct {
	Operation string  `json:"operation"`
	Request   payload `json:"request,omitempty"`
	Config    payload `json:"config,omitempty"`
	BeganNS   int64   `json:"began_ns"`
	Random    []byte  `json:"random"`
	Files     *fsLine `json:"files,omitempty"`
}

// fsLine is which directories the plugin is granted.
type fsLine struct {
	ReadOnly  []string `json:"read_only,omitempty"`
	ReadWrite []string `json:"read_write,omitempty"`
}

type useLine struct {
	Capability string     `json:"capability"`
	Operation  string     `json:"operation"`
	Number     uint32     `json:"number,omitempty"`
	Room       uint32     `json:"room,omitempty"`
	Request    payload    `json:"request,omitempty"`
	Answer     payload    `json:"answer,omitempty"`
	Count      uint32     `json:"count,omitempty"`
	Error      *errorLine `json:"error,omitempty"`
	Ended      bool       `json:"ended,omitempty"`
	AfterNS    int64      `json:"after_ns"`
}

type endLine struct {
	Answer payload    `json:"answer,omitempty"`
	Error  *errorLine `json:"error,omitempty"`
	Fault  string     `json:"fault,omitempty"`
	Text   string     `json:"text,omitempty"`
}

type errorLine struct {
	Code        string `json:"code"`
	Message     string `json:"message,omitempty"`
	Recoverable bool   `json:"recoverable,omitempty"`
}

func lineOfError(e *abi.Error) *errorLine {
	if e == nil {
		return nil
	}
	return &errorLine{abi.CodeName(e.Code), e.Message, e.Recoverable}
}

func (l *errorLine) error() (*abi.Error, error) {
	if l == nil {
		return nil, nil
	}
	code := wasmnodev1.ErrorCode_value["ERROR_CODE_"+l.Code]
	if code == 0 {
		return nil, fmt.Errorf("error.code: %q is none", l.Code)
	}
	return &abi.Error{Code: abi.Code(code), Message: l.Message, Recoverable: l.Recoverable}, nil
}

// RecordingError is a fault of a recording's text.
type RecordingError struct {
	Line    int
	Problem string
}

// Error returns one line, which begins with the line's number.
func (e *RecordingError) Error() string { return fmt.Sprintf("%d: %s", e.Line, e.Problem) }

// ReadRecording reads a recording's text. It trusts nothing in it: what is not a recording, or
// beyond its bounds (256 MiB, 16 MiB a line, 10,000 calls, 100,000 uses in each), is a
// [*RecordingError].
func ReadRecording(from io.Reader) (*Recording, error) {
	lines := bufio.NewReaderSize(io.LimitReader(from, maxRecordingBytes+1), 64<<10)
	p := &recordingReader{}
	total := 0
	for {
		text, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			break
		}
		p.line++
		if total += len(text) + 1; err == nil && total > maxRecordingBytes {
			err = fmt.Errorf("the recording has more than %d bytes", maxRecordingBytes)
		}
		if err == nil {
			err = p.take(text)
		}
		if err != nil {
			return nil, &RecordingError{p.line, err.Error()}
		}
	}
	switch {
	case p.out == nil:
		return nil, &RecordingError{1, "this is no recording: it is empty"}
	case p.call != nil:
		return nil, &RecordingError{p.line, "the recording ends within a call"}
	}
	return p.out, nil
}

// readLine reads a line, without its end.
func readLine(from *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := from.ReadSlice('\n')
		if line = append(line, piece...); len(line) > maxLineBytes {
			return nil, fmt.Errorf("a line has at most %d bytes", maxLineBytes)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0, err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		default:
			return nil, err
		}
	}
}

// recordingReader takes the lines of a recording.
type recordingReader struct {
	line int
	out  *Recording    // nil: the first line has not come
	call *RecordedCall // that is under way
}

func (p *recordingReader) take(text []byte) error {
	var l recordLine
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&l); err != nil {
		if p.out == nil {
			return errors.New(`this is no recording: the first line is {"recording": …}`)
		}
		return err
	}
	if decoder.More() {
		return errors.New("one JSON object a line is expected")
	}
	switch {
	case p.out == nil && l.Recording != nil:
		return p.header(l.Recording)
	case p.out == nil:
		return errors.New(`this is no recording: the first line is {"recording": …}`)
	case p.call == nil && l.Call != nil:
		return p.begin(l.Call)
	case p.call != nil && l.Use != nil:
		return p.use(l.Use)
	case p.call != nil && l.End != nil:
		return p.end(l.End)
	case p.call == nil:
		return errors.New("a call is expected")
	}
	return errors.New("a use or the end of the call is expected")
}

func (p *recordingReader) header(l *headerLine) error {
	if l.Format != recordingFormat {
		return fmt.Errorf("the recording's format is %d, and this program reads %d", l.Format, recordingFormat)
	}
	p.out = &Recording{Plugin: l.Plugin, Version: l.Version, Digest: l.Digest, Secrets: l.Secrets}
	return nil
}

func (p *recordingReader) begin(l *callLine) error {
	c := &RecordedCall{Op: l.Operation, Line: p.line, config: given(l.Config), request: given(l.Request), began: time.Unix(0, l.BeganNS)}
	if len(p.out.Calls) == maxRecordedCalls {
		return fmt.Errorf("a recording has at most %d calls", maxRecordedCalls)
	}
	if len(l.Random) != len(c.seed) {
		return fmt.Errorf("random: %d bytes are expected", len(c.seed))
	}
	copy(c.seed[:], l.Random)
	if _, err := message(c.Op, "Request"); err != nil {
		return err
	}
	if _, err := wire(OperationMessage(c.Op, "Request"), c.request); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if len(c.config) > 0 && c.config[0] != '{' {
		return errors.New("config: an object is expected")
	}
	if l.Files != nil {
		c.fs = host.FSGrant{ReadOnly: l.Files.ReadOnly, ReadWrite: l.Files.ReadWrite}
		if err := (host.Grants{FS: c.fs}).Validate(); err != nil {
			return fmt.Errorf("files: %w", err)
		}
	}
	p.call = c
	return nil
}

// functionName is how a capability is written in a recording.
var functionName = regexp.MustCompile(`^[a-z]{1,32}/v[0-9]{1,4} [a-z_]{1,64}$`)

func (p *recordingReader) use(l *useLine) (err error) {
	if len(p.call.Uses) == maxRecordedUses {
		return fmt.Errorf("a call has at most %d uses", maxRecordedUses)
	}
	if !functionName.MatchString(l.Capability) {
		return errors.New("capability: such as \"process/v1 start\" is expected")
	}
	if l.Operation != p.call.Op && l.Operation != configuring(p.call.Op) {
		return fmt.Errorf("operation: %s or %s is expected", p.call.Op, configuring(p.call.Op))
	}
	u := &RecordedUse{
		Op: l.Operation, Capability: l.Capability, Line: p.line, after: time.Duration(max(l.AfterNS, 0)),
		asked:  asked{l.Number, l.Room, given(l.Request)},
		answer: answered{count: l.Count, answer: given(l.Answer), ended: l.Ended},
	}
	if u.answer.err, err = l.Error.error(); err != nil {
		return err
	}
	if isFile(l.Capability) {
		_, err = readFileAnswer(u.answer.answer)
	} else {
		_, err = wire(messagesOf[l.Capability][1], u.answer.answer)
	}
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	p.call.Uses = append(p.call.Uses, u)
	return nil
}

func (p *recordingReader) end(l *endLine) (err error) {
	o := outcome{answer: given(l.Answer), fault: l.Fault, text: l.Text}
	if o.err, err = l.Error.error(); err != nil {
		return err
	}
	if o.err != nil && o.fault != "" || o.answer != nil && (o.err != nil || o.fault != "") {
		return errors.New("a call ends in one way")
	}
	p.call.outcome = o
	p.out.Calls = append(p.out.Calls, p.call)
	p.call = nil
	return nil
}

// write writes the first line.
func (r *Recording) write(to io.Writer) error {
	return writeLine(to, recordLine{Recording: &headerLine{recordingFormat, r.Plugin, r.Version, r.Digest, maskRules, r.Secrets}})
}

// write writes the lines of a call.
func (c *RecordedCall) write(to io.Writer) error {
	line := &callLine{c.Op, c.request, c.config, c.began.UnixNano(), c.seed[:], nil}
	if len(c.fs.ReadOnly)+len(c.fs.ReadWrite) > 0 {
		line.Files = &fsLine{c.fs.ReadOnly, c.fs.ReadWrite}
	}
	err := writeLine(to, recordLine{Call: line})
	for _, u := range c.Uses {
		err = errors.Join(err, writeLine(to, recordLine{Use: &useLine{
			Capability: u.Capability, Operation: u.Op, Number: u.asked.number, Room: u.asked.room, Request: u.asked.request,
			Answer: u.answer.answer, Count: u.answer.count, Error: lineOfError(u.answer.err), Ended: u.answer.ended, AfterNS: int64(u.after),
		}}))
	}
	o := c.outcome
	return errors.Join(err, writeLine(to, recordLine{End: &endLine{o.answer, lineOfError(o.err), o.fault, o.text}}))
}

func writeLine(to io.Writer, l recordLine) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = to.Write(append(text, '\n'))
	return err
}
