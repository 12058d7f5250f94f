package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// diffText renders in what two versions of a job differ. Groups and tasks that are the
// same are only named, or left out where verbose is not set.
func diffText(d *nomad.JobDiff, verbose bool) string {
	var b diffWriter
	b.line(0, d.Type, fmt.Sprintf("Job: %q", d.ID))
	b.contents(0, d.Fields, d.Objects)
	for _, g := range d.TaskGroups {
		if g.Type == "None" && len(g.Updates) == 0 && !verbose {
			continue
		}
		b.line(0, g.Type, fmt.Sprintf("Task Group: %q%s", g.Name, updatesText(g.Updates)))
		b.contents(2, g.Fields, g.Objects)
		for _, t := range g.Tasks {
			if t.Type == "None" && !verbose && len(g.Updates) == 0 {
				continue
			}
			b.line(2, t.Type, fmt.Sprintf("Task: %q%s", t.Name, parenthesisedList(t.Annotations)))
			b.contents(4, t.Fields, t.Objects)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func updatesText(updates map[string]uint64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(updates)) {
		parts = append(parts, fmt.Sprintf("%d %s", updates[name], name))
	}
	return parenthesisedList(parts)
}

func parenthesisedList(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// diffWriter writes a difference a line, with a mark of its type.
type diffWriter struct{ strings.Builder }

// marks are what stands before a line, as wide as the widest.
var marks = map[string]string{"Added": "+   ", "Deleted": "-   ", "Edited": "+/- ", "None": "    "}

func (b *diffWriter) line(indent int, kind, text string) {
	fmt.Fprintf(b, "%s%s%s\n", strings.Repeat(" ", indent), marks[kind], text)
}

func (b *diffWriter) contents(indent int, fields []*nomad.FieldDiff, objects []*nomad.ObjectDiff) {
	width := 0
	for _, f := range fields {
		width = max(width, len(f.Name))
	}
	for _, f := range fields {
		value := fmt.Sprintf("%q", f.New)
		switch f.Type {
		case "Deleted":
			value = fmt.Sprintf("%q", f.Old)
		case "Edited":
			value = fmt.Sprintf("%q => %q", f.Old, f.New)
		}
		b.line(indent+2, f.Type, fmt.Sprintf("%-*s %s%s", width+1, f.Name+":", value, parenthesisedList(f.Annotations)))
	}
	for _, o := range objects {
		b.line(indent+2, o.Type, o.Name+" {")
		b.contents(indent+2, o.Fields, o.Objects)
		b.line(indent+2, "None", "}")
	}
}
