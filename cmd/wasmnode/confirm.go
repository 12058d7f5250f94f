package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"
)

// confirm asks a person; nil: the answer is yes.
func (m meta) confirm(question string) error { return m.confirmFrom(os.Stdin, question) }

func (m meta) confirmFrom(in io.Reader, question string) error {
	m.ui.Output(question + " [y/N]")
	answer, err := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	case "":
		if err != nil {
			return errors.New("nobody answers: -yes does without")
		}
	}
	return errors.New("cancelled")
}
