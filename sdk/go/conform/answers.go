package conform

import (
	"errors"
	"fmt"

	"github.com/wasmnode/wasmnode/abi"
)

// asAnswer returns the error that a plugin answered; false: it answered none.
func asAnswer(err error) (*abi.Error, bool) {
	var fault *faultError
	var e *abi.Error
	if errors.As(err, &fault) || !errors.As(err, &e) {
		return nil, false
	}
	return e, true
}

// faultOf returns why a call has no answer; nil: it has one, if only an error.
func faultOf(err error) error {
	if _, answered := asAnswer(err); answered {
		return nil
	}
	return err
}

// optional is nil for an operation that the plugin leaves to the node.
func optional(err error) error {
	if errors.Is(err, abi.NewError(abi.Unimplemented, "")) {
		return nil
	}
	return err
}

// said is an error with what was asked.
func said(what string, err error) error {
	if err == nil {
		return nil
	}
	if e, answered := asAnswer(err); answered {
		return fmt.Errorf("%s: %s: %s", what, abi.CodeName(e.Code), e.Message)
	}
	return fmt.Errorf("%s: %w", what, err)
}
