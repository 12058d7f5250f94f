package configschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Change is one difference between what two schemas take.
type Change struct {
	Path string // as in HCL: "mount.from"
	// Text is what has changed, in words: "now required".
	Text string
	// Breaking: a configuration that the old schema takes may be refused by the new one.
	Breaking bool
}

// Compare tells what is different in the fields of a newer schema. What is said of them beside
// what they take is not compared.
func Compare(old, new []*Field) []Change { return compare("", old, new) }

func compare(within string, old, new []*Field) (changes []Change) {
	for _, was := range old {
		if find(new, was.Name) == nil {
			changes = append(changes, Change{within + was.Name, "gone", true})
		}
	}
	for _, is := range new {
		path := within + is.Name
		was := find(old, is.Name)
		switch {
		case was != nil:
			changes = append(changes, compareField(path, was, is)...)
		case is.Required:
			changes = append(changes, Change{path, "new, and required", true})
		default:
			changes = append(changes, Change{path, "new: " + is.Type, false})
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

func find(fields []*Field, name string) *Field {
	if i := slices.IndexFunc(fields, func(f *Field) bool { return f.Name == name }); i >= 0 {
		return fields[i]
	}
	return nil
}

// compareField compares a field with what it was.
func compareField(path string, was, is *Field) (changes []Change) {
	add := func(breaking bool, format string, args ...any) {
		changes = append(changes, Change{path, fmt.Sprintf(format, args...), breaking})
	}
	switch {
	case is.Required && !was.Required:
		add(true, "now required")
	case was.Required && !is.Required:
		add(false, "no longer required")
	}
	if was.Type != is.Type {
		add(!widens(was, is), "was %s, now %s", was.Type, is.Type)
	}
	for _, limit := range is.Limits {
		if !slices.Contains(was.Limits, limit) {
			add(true, "now: %s", limit)
		}
	}
	for _, limit := range was.Limits {
		if !slices.Contains(is.Limits, limit) {
			add(false, "no longer: %s", limit)
		}
	}
	compareValues(was.Values, is.Values, add)
	if !bytes.Equal(was.Default, is.Default) {
		add(false, "default was %s, now %s", orNone(was.Default), orNone(is.Default))
	}
	if is.Deprecated && !was.Deprecated {
		add(false, "now deprecated")
	}
	return append(changes, compare(path+".", was.Fields, is.Fields)...)
}

// compareValues compares the only values that a field takes; none: any.
func compareValues(was, is []json.RawMessage, add func(bool, string, ...any)) {
	has := func(all []json.RawMessage, value json.RawMessage) bool {
		return len(all) == 0 || slices.ContainsFunc(all, func(v json.RawMessage) bool { return bytes.Equal(v, value) })
	}
	if len(was) == 0 && len(is) > 0 {
		add(true, "now one of %s", bytes.Join(toBytes(is), []byte(", ")))
		return
	}
	for _, value := range was {
		if !has(is, value) {
			add(true, "no longer %s", value)
		}
	}
	for _, value := range is {
		if !has(was, value) {
			add(false, "now also %s", value)
		}
	}
	if len(was) > 0 && len(is) == 0 {
		add(false, "now any value")
	}
}

func toBytes(values []json.RawMessage) (all [][]byte) {
	for _, v := range values {
		all = append(all, v)
	}
	return all
}

func orNone(value json.RawMessage) string {
	if len(value) == 0 {
		return "none"
	}
	return cut(string(value))
}

// widens reports whether a field takes all that it took: a block that may now come several times,
// a number that was a whole one, and more types than before.
func widens(was, is *Field) bool {
	if was.Form == FormBlock && is.Form == FormBlocks || is.Type == "anything" {
		return true
	}
	now := strings.Split(is.Type, " or ")
	for _, t := range strings.Split(was.Type, " or ") {
		if !slices.Contains(now, t) && (t != "whole number" || !slices.Contains(now, "number")) {
			return false
		}
	}
	return true
}
