package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/secrets"
)

// Recorder writes a recording. One goroutine at a time uses it.
type Recorder struct {
	to   io.Writer
	mask masker
}

// NewRecorder begins a recording of a plugin, unless there is one that goes on: then what is
// written follows it. It has to be one of the same file.
func (t *Trial) NewRecorder(to io.Writer, before *Recording) (*Recorder, error) {
	p := t.plugin
	if before == nil {
		before = newRecording(p)
		return &Recorder{to: to, mask: newMasker(before.Secrets)}, before.write(to)
	}
	if before.Digest != p.Digest() {
		return nil, fmt.Errorf("the recording is of another file: of %s %s", before.Plugin, before.Version)
	}
	return &Recorder{to: to, mask: newMasker(before.Secrets)}, nil
}

// newRecording begins a recording of a plugin.
func newRecording(p *host.Plugin) *Recording {
	return &Recording{Plugin: p.Name(), Version: p.Version(), Digest: p.Digest(), Secrets: secrets.Declared(p.Description().GetPluginConfigSchema(), p.Description().GetTaskConfigSchema())}
}

// errUnrepeatable is what a trial is told that was not opened to repeat anything.
var errUnrepeatable = errors.New("the trial is not repeatable")

// Record makes a call in a new instance, and writes it. The error is that of writing.
func (t *Trial) Record(ctx context.Context, c Call, to *Recorder) (*Result, error) {
	if t.world == nil {
		return nil, errUnrepeatable
	}
	taken := take(t.world, c.Op, c.Request)
	defer t.world.end()
	taken.config, taken.fs, c.Request = t.config, t.grants.FS, taken.request
	r := t.observe(ctx, c, true, func(o *host.Observer) {
		o.Exchanged = func(u host.CapabilityUse, x *host.Exchange) { taken.exchanged(u, x) }
	})
	if err := taken.tooMuch(); err != nil {
		return r, fmt.Errorf("the call is not recorded: %w", err)
	}
	rec := taken.recorded(&to.mask, r.Answer, r.Err)
	r.Files = rec.Files()
	if to.mask.Over {
		return r, fmt.Errorf("the call is not recorded: %w", errOver)
	}
	var lines bytes.Buffer
	if err := rec.write(&lines); err != nil {
		return r, err
	}
	_, err := to.to.Write(lines.Bytes())
	return r, err
}

// useOf is what was exchanged in a use of a capability, masked.
func useOf(k *masker, u host.CapabilityUse, x *host.Exchange, after time.Duration) *RecordedUse {
	out := &RecordedUse{Op: u.Op, Capability: capabilityName(u.Module, u.Function), after: after}
	out.asked = askedOf(k, out.Capability, x)
	out.answer = answered{ended: x.Ended, count: x.Count}
	switch {
	case x.Ended:
	case x.Code != 0:
		var m wasmnodev1.Error
		if len(x.Answer) == 0 || m.UnmarshalVT(x.Answer) != nil || m.Code == 0 {
			m = wasmnodev1.Error{Code: x.Code}
		}
		out.answer.err = maskError(k, abi.FromProto(&m))
	default:
		out.answer.answer = k.show(messagesOf[out.Capability][1], x.Answer)
	}
	return out
}

func askedOf(k *masker, capability string, x *host.Exchange) asked {
	return asked{x.Number, x.Room, k.show(messagesOf[capability][0], x.Request)}
}

func maskError(k *masker, e *abi.Error) *abi.Error {
	return &abi.Error{Code: e.Code, Message: k.Text(strings.ToValidUTF8(e.Message, "�")), Recoverable: e.Recoverable}
}

// givenUp is the outcome of a call that was not left to end by itself.
const givenUp = "was not finished"

// outcomeOf is how a call ended, masked.
func outcomeOf(k *masker, op string, answer []byte, err error) outcome {
	var fault *host.FaultError
	var e *abi.Error
	switch {
	case err == nil:
		return outcome{answer: k.show(OperationMessage(op, "Response"), answer)}
	case errors.As(err, &fault):
		return outcome{fault: string(fault.Kind), text: k.Line(err.Error(), false)}
	case errors.As(err, &e):
		e = maskError(k, e)
		e.Message = k.Line(e.Message, false)
		return outcome{err: e}
	}
	return outcome{fault: givenUp, text: k.Line(err.Error(), false)}
}

// interrupted reports whether a call ended since its time was over, or nobody wanted it any more.
func (o outcome) interrupted() bool {
	return o.fault == givenUp || o.fault == string(host.FaultTimeout)
}

// configuring is the operation that configures the instance that another is called in.
func configuring(op string) string {
	kind, _, _ := strings.Cut(op, "_")
	return kind + "_configure"
}
