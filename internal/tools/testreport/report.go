package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// How many of the slowest are listed.
const (
	slowTests    = 10
	slowPackages = 5
)

// event is what "go test -json" writes in a line.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// timing is how long a test, or all of a package, took.
type timing struct {
	name    string
	seconds float64
}

type report struct {
	flaky    []string // tests that failed, and passed when they were run again
	outside  []string // packages that failed without a failed test, and what they wrote
	tests    []timing // slowest first
	packages []timing // slowest first
}

// pkg is what is known of a package while its events are read.
type pkg struct {
	failed  bool            // a test of the run that is being read has failed
	tests   map[string]bool // by name, whether it failed in an earlier run
	output  strings.Builder // of that run, outside of tests
	outside string          // the output of the runs that failed without a failed test
}

// read makes a report of the events of a run. Subtests count as their test.
func read(r io.Reader) (report, error) {
	packages := map[string]*pkg{}
	var rep report
	for decoder := json.NewDecoder(r); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return report{}, err
		}
		if e.Package == "" || strings.Contains(e.Test, "/") {
			continue
		}
		p := packages[e.Package]
		if p == nil {
			p = &pkg{tests: map[string]bool{}}
			packages[e.Package] = p
		}
		final := e.Action == "pass" || e.Action == "fail"
		switch name := e.Package + "." + e.Test; {
		case e.Test == "" && e.Action == "output":
			p.output.WriteString(e.Output)
		case e.Test == "" && final:
			rep.packages = append(rep.packages, timing{e.Package, e.Elapsed})
			p.end(e.Action == "fail")
		case final:
			rep.tests = append(rep.tests, timing{name, e.Elapsed})
			if e.Action == "pass" && p.tests[name] {
				rep.flaky = append(rep.flaky, name)
			}
			p.failed, p.tests[name] = p.failed || e.Action == "fail", e.Action == "fail"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if output := packages[name].outside; output != "" {
			rep.outside = append(rep.outside, name+"\n"+output)
		}
	}
	slices.Sort(rep.flaky)
	rep.tests, rep.packages = slowest(rep.tests, slowTests), slowest(rep.packages, slowPackages)
	return rep, nil
}

// end ends a run of the package.
func (p *pkg) end(failed bool) {
	if failed && !p.failed {
		p.outside += p.output.String() + "\n"
	}
	p.failed = false
	p.output.Reset()
}

func slowest(all []timing, n int) []timing {
	slices.SortFunc(all, func(a, b timing) int {
		return cmp.Or(-cmp.Compare(a.seconds, b.seconds), strings.Compare(a.name, b.name))
	})
	return all[:min(n, len(all))]
}

func (r report) print(w io.Writer) {
	section(w, "slowest packages", "", times(r.packages))
	section(w, "slowest tests", "", times(r.tests))
	section(w, "FAILED outside of any test", "a leak, an exit, a build: no second run excuses it", r.outside)
	section(w, "FLAKY", "failed, and passed when run again: to be fixed", r.flaky)
}

func times(all []timing) []string {
	var lines []string
	for _, t := range all {
		lines = append(lines, fmt.Sprintf("%7.1fs  %s", t.seconds, t.name))
	}
	return lines
}

// section prints lines below a heading, and nothing where there are none.
func section(w io.Writer, heading, why string, lines []string) {
	if len(lines) == 0 {
		return
	}
	if why != "" {
		heading += " (" + why + ")"
	}
	fmt.Fprintf(w, "\n=== %s\n", heading)
	for _, line := range lines {
		fmt.Fprintln(w, "  "+line)
	}
}
