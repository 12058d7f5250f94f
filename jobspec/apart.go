package jobspec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/internal/apart"
)

// parserProgram is the argument 0 by which [EnterParser] knows that it is in the new process.
const parserProgram = "wasmnode: parsing"

// Bounds of [ParseApart]. A file of a thousand groups takes a tenth of a second.
const (
	// ParseBytes is what parsing may take of memory.
	ParseBytes = 256 << 20
	// ParseTime is what it may take of a processor.
	ParseTime = 2 * time.Second

	maxAnswer = 32 << 20
)

// parsed is the answer of the process.
type parsed struct {
	Job   json.RawMessage `json:",omitempty"`
	Fault string          `json:",omitempty"` // instead of a job
}

// request is what the process is asked for.
type request struct {
	Options      Options
	Canonicalize bool
}

func (r *request) parse() (json.RawMessage, error) {
	job, err := Parse(r.Options)
	if err != nil {
		return nil, err
	}
	if r.Canonicalize {
		job.Canonicalize()
	}
	return json.Marshal(job)
}

// EnterParser is to be called first of all in main, or in TestMain: [ParseApart] then parses
// in a process of its own, which is this program again. It does not return in it.
func EnterParser() {
	apart.Enter(parserProgram, func(_ []string, in []byte) any {
		var r request
		if err := json.Unmarshal(in, &r); err != nil {
			return parsed{Fault: err.Error()}
		}
		job, err := r.parse()
		if err != nil {
			return parsed{Fault: err.Error()}
		}
		return parsed{Job: job}
	})
}

// ParseApart is [Parse] for a file of somebody else's: what its functions and loops compute
// is bounded by [ParseBytes] and [ParseTime]. It returns the job as JSON, canonicalised if
// that is asked for. A program that does not call [EnterParser], or that is not on Linux,
// parses without these bounds. The error's text is that of Parse, or that the file takes too
// much, or the context's.
func ParseApart(ctx context.Context, o Options, canonicalize bool) (json.RawMessage, error) {
	r := &request{o, canonicalize}
	if !apart.Entered(parserProgram) {
		return r.parse()
	}
	in, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var answer parsed
	_, err = apart.Run(ctx, parserProgram, apart.Bounds{Bytes: ParseBytes, Time: ParseTime, Answer: maxAnswer}, nil, in, &answer)
	var exceeded *apart.LimitError
	switch {
	case errors.As(err, &exceeded):
		return nil, fmt.Errorf("%s: the job file is too costly to evaluate: %w", o.Path, exceeded)
	case err != nil:
		return nil, err
	case answer.Job == nil:
		return nil, errors.New(answer.Fault)
	}
	return answer.Job, nil
}
