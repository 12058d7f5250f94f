// Package sysfs reads the kernel's trees of small text files. What is in them may come
// from a device, which is not trusted: everything read is made valid for a fingerprint.
//
// Start reading at [Read].
package sysfs

import (
	"os"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wasmnode/wasmnode/sdk/go/device"
)

// maxText bounds a file's content, in bytes: short enough to be a part of a name.
const maxText = 100

// Read returns a file's content, on one line; "" for one that cannot be read.
func Read(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return clean(string(b))
}

// Int returns the number in a file, in decimal or, after "0x", in hexadecimal.
func Int(file string) (n int64, ok bool) {
	n, err := strconv.ParseInt(Read(file), 0, 64)
	return n, err == nil
}

// Line returns what a file has after a name and a colon: "Model: GTX" for "Model" is
// "GTX"; "" for a file that does not.
func Line(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok {
			if value, ok := strings.CutPrefix(strings.TrimSpace(rest), ":"); ok {
				return clean(value)
			}
		}
	}
	return ""
}

// Link returns the last element of where a symbolic link leads; "" when there is none.
func Link(file string) string {
	target, err := os.Readlink(file)
	if err != nil {
		return ""
	}
	return clean(path.Base(target))
}

// clean makes one short line of printing characters of a text.
func clean(s string) string {
	var b strings.Builder
	for _, r := range strings.TrimSpace(s) {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			r = ' '
		}
		if b.Len()+utf8.RuneLen(r) > maxText {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// Name makes a part of a group's name of a text; otherwise when nothing is left of it.
func Name(s, otherwise string) string {
	s = clean(strings.ReplaceAll(s, "/", "-"))
	if s == "" {
		return otherwise
	}
	return s
}

// Entries returns the names in a directory; none when it cannot be read.
func Entries(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Common keeps of a group's attributes those that another device has too: what a group
// says is true of each of its devices.
func Common(group, other map[string]*device.Attribute) {
	for name, a := range group {
		if !a.EqualVT(other[name]) {
			delete(group, name)
		}
	}
}
