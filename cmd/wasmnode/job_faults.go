package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/jobspec"
)

// maxExcerpt bounds each part of a line that is shown: before a fault, the fault, and after.
const maxExcerpt = 60

// unreadable prints why a job file could not be read, and returns the exit code.
func (m meta) unreadable(f *flags, file *jobFile, err error) int {
	var bad *jobspec.Error
	if !errors.As(err, &bad) {
		return m.fail(f, err)
	}
	return m.faulty(file, bad.Faults)
}

// invalid prints what the node finds wrong with the job in a file, and returns the exit code.
func (m meta) invalid(file *jobFile, faults []string) int {
	return m.faulty(file, jobspec.Locate(file.path, file.sources[file.path], faults))
}

// warningMark is before each warning in a node's answer.
const warningMark = "\n* "

// jobWarnings prints what a node warns of in the job in a file: last, with its place and in the
// order of the file, what is within the job.
func (m meta) jobWarnings(file *jobFile, text string) {
	if text == "" {
		return
	}
	var lines, within []string
	for i, warning := range strings.Split(text, warningMark) {
		if i > 0 && strings.HasPrefix(warning, "group ") {
			within = append(within, warning)
		} else {
			lines = append(lines, warning)
		}
	}
	for _, fault := range jobspec.Locate(file.path, file.sources[file.path], within) {
		lines = append(lines, fault.Line)
	}
	m.ui.Warn("Job Warnings:\n" + strings.Join(lines, warningMark))
}

// faulty prints what is wrong with a job file: each fault on a line that begins with its
// place, and what is there.
func (m meta) faulty(file *jobFile, faults []jobspec.Fault) int {
	for i, fault := range faults {
		if i == jobspec.MaxFaults {
			m.ui.Error(fmt.Sprintf("(and %d more)", len(faults)-i))
			break
		}
		m.ui.Error("Error: " + fault.Line)
		if text := excerpt(file.sources[fault.At.Filename], fault.At); text != "" {
			m.ui.Quote(text)
		}
	}
	return 1
}

// excerpt is the line of a file in which a range begins, and a line that points to the range;
// empty when nothing is there. Tabs are four columns wide.
func excerpt(content []byte, at hcl.Range) string {
	start := at.Start.Byte
	if start > len(content) {
		return ""
	}
	from := bytes.LastIndexByte(content[:start], '\n') + 1
	line, _, _ := strings.Cut(string(content[from:]), "\n")
	line = strings.TrimSuffix(line, "\r")
	if strings.TrimSpace(line) == "" {
		return ""
	}
	column := min(start-from, len(line))
	end := min(max(at.End.Byte-from, column), len(line))
	shown := func(text string) []rune {
		text = strings.ReplaceAll(text, "\t", "    ")
		return []rune(plaintext.Line(text, len(text)))
	}
	before, marked, after := shown(line[:column]), shown(line[column:end]), shown(line[end:])
	if n := len(before); n > maxExcerpt {
		before = append([]rune("…"), before[n-maxExcerpt:]...)
	}
	number := strconv.Itoa(at.Start.Line)
	return fmt.Sprintf("  %s | %s%s%s\n  %s | %s%s", number, string(before), cut(marked), cut(after),
		strings.Repeat(" ", len(number)), strings.Repeat(" ", len(before)), strings.Repeat("^", max(1, min(len(marked), maxExcerpt))))
}

func cut(text []rune) string {
	if len(text) > maxExcerpt {
		return string(text[:maxExcerpt]) + "…"
	}
	return string(text)
}
