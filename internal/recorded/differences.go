package recorded

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Differences are those that are meant, each with its reason.
type Differences []struct {
	// Where is a method and a path, as a Difference has them. One that ends in "*" is for all that
	// begin so.
	Where string
	Way   string
	Why   string
}

// ReadDifferences reads a file of them.
func ReadDifferences(path string) (list Differences, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// Has reports whether a difference is among them.
func (l Differences) Has(d Difference) bool { return l.Index(d) >= 0 }

// Index is the first that a difference is among; less than 0: it is among none.
func (l Differences) Index(d Difference) int {
	for i, one := range l {
		start, wild := strings.CutSuffix(one.Where, "*")
		if one.Way == d.Way && (one.Where == d.Where || wild && strings.HasPrefix(d.Where, start)) {
			return i
		}
	}
	return -1
}

// Of are the exchanges of a method that one side has asked for.
func Of(list []Exchange, by, method string) (of []Exchange) {
	for _, x := range list {
		if x.By == by && x.Method == method {
			of = append(of, x)
		}
	}
	return of
}

// CompareAll compares what a node asks servers for, and what it answers them, with what Nomad's own
// client does: what only it asks for, and method by method what both do.
func CompareAll(theirs, ours []Exchange) (list []Difference) {
	var methods []string
	for _, x := range append(slices.Clone(theirs), ours...) {
		if name := x.By + " " + x.Method; !slices.Contains(methods, name) {
			methods = append(methods, name)
		}
	}
	slices.Sort(methods)
	for _, name := range methods {
		by, method, _ := strings.Cut(name, " ")
		their, own := Of(theirs, by, method), Of(ours, by, method)
		switch {
		case len(own) == 0:
			list = append(list, Difference{Where: method, Way: Missing, Detail: "it is never asked for"})
		case len(their) == 0:
			list = append(list, Difference{Where: method, Way: Unknown, Detail: "only ours asks for it"})
		default:
			for _, d := range Compare(sent(their), sent(own)) {
				d.Where = strings.TrimSuffix(method+" "+d.Where, " ")
				list = append(list, d)
			}
		}
	}
	return list
}

// sent are the fields of what a node has sent: its questions, or its answers.
func sent(list []Exchange) Fields {
	f := Fields{}
	for _, x := range list {
		switch {
		case x.By == ByNode:
			f.Add(x.Args)
		case x.Error == "" && x.Frames == nil:
			f.Add(x.Reply)
		}
	}
	return f
}
