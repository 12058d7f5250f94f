package testfile

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/wasmnode/wasmnode/abi"
)

// compareAnswer compares what became of a step with what is expected of it.
func (r *running) compareAnswer(s *step, answer []byte, err error) {
	failing := s.failing()
	if err != nil && !failing {
		var placed *placedError
		if errors.As(err, &placed) {
			r.at = placed.at
		}
		r.Fatalf("%s: %s", s.kind, told(err))
	}
	if err == nil && failing {
		r.Fatalf("%s: it was done, and is expected to fail", s.kind)
	}
	got := map[string]any{}
	if err != nil {
		got["error"], got["code"] = told(err), codeOf(err)
	} else if s.answers != "" {
		if got, err = decode(s.answers, answer); err != nil {
			r.Fatalf("%s: %v", s.kind, err)
		}
	}
	for _, want := range s.expect {
		if problem := compare(want.name, want.value, got[want.name]); problem != "" {
			r.at = want.at
			r.Fatalf("%s: %s", s.kind, problem)
		}
	}
}

// failing reports whether a step is expected to fail.
func (s *step) failing() bool {
	for _, want := range s.expect {
		if want.name == "error" || want.name == "code" {
			return true
		}
	}
	return false
}

// told is an error as a test sees it.
func told(err error) string {
	var e *abi.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// codeOf is the name of an error's code; empty: a fault, or a refusal of the node's, which have none.
func codeOf(err error) string {
	var e *abi.Error
	if errors.As(err, &e) {
		return abi.CodeName(e.Code)
	}
	return ""
}

// compareFacts compares what the plugin did to the node with what is expected. With real processes
// that may still be to come.
func (r *running) compareFacts(s *step) {
	until := time.Now()
	if r.test.RealProcesses {
		until = until.Add(patience)
	}
	for {
		at, problem := r.differing(s)
		if problem == "" {
			return
		}
		if !time.Now().Before(until) || r.ctx.Err() != nil {
			r.at = at
			r.Fatalf("expect: %s", strings.TrimSpace(problem))
		}
		time.Sleep(lookAgain)
	}
}

// differing is the first of what is expected that is not so, and how.
func (r *running) differing(s *step) (at hcl.Range, problem string) {
	for _, want := range s.expect {
		got, err := facts[want.name].of(r.node)
		if err != nil {
			return want.at, fmt.Sprintf("%s: %v", want.name, err)
		}
		if problem := compare(want.name, want.value, got); problem != "" {
			return want.at, problem
		}
	}
	return at, ""
}
