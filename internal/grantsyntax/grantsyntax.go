// Package grantsyntax checks the values of grants (paths, device nodes, commands, users,
// addresses, sockets and requests of HTTP), so that the reader of a configuration and its
// user refuse the same.
//
// It does not know what the permissions are for. Start reading at [Path].
package grantsyntax

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Further stands for any number of arguments, as the last of a helper's.
const Further = "..."

// Any stands for all commands, users, ports or methods.
const Any = "*"

// metacharacters are the characters of patterns, which could be meant as such, and the one that
// the system takes for a path's end.
const metacharacters = "*?[\x00"

// Path refuses what is not one directory or file.
func Path(path string) error {
	if !clean(path) {
		return fmt.Errorf(`%q has to be an absolute path without "..", "//" or patterns`, path)
	}
	return nil
}

// PathRights refuses what is not a path with what may be done with it, such as "rx:/usr".
func PathRights(text string) error {
	rights, path, _ := strings.Cut(text, ":")
	if rights == "" || strings.Trim(rights, "rwcx") != "" {
		return fmt.Errorf(`%q has to begin with one or more of "rwcx" and a colon`, text)
	}
	return Path(path)
}

// ReadWrite begins a path that may be mounted to be written to.
const ReadWrite = "rw"

// Mount refuses what is not a path that may be mounted, such as "r:/srv" or "rw:/srv".
func Mount(text string) error {
	rights, path, _ := strings.Cut(text, ":")
	if rights != "r" && rights != ReadWrite {
		return fmt.Errorf(`%q has to begin with "r:" or "rw:"`, text)
	}
	return Path(path)
}

// Node refuses what is neither a device node, nor a directory of them, nor the beginning
// of nodes' names with '*' for the rest.
func Node(node string) error {
	if !strings.HasPrefix(node, "/dev/") || filepath.Clean(node) != node || strings.ContainsAny(strings.TrimSuffix(node, "*"), metacharacters) {
		return fmt.Errorf("%q has to be an absolute path below /dev, with a '*' at its end at most", node)
	}
	return nil
}

// Command refuses what is neither a program, nor a directory's programs, nor all.
func Command(command string) error {
	directory, all := strings.CutSuffix(command, "/*")
	switch {
	case command == Any, all && directory == "", clean(directory) && directory != "/":
		return nil
	}
	return fmt.Errorf(`%q has to be an absolute path without ".." or "//", such a directory with "/*" at its end, or "*" alone`, command)
}

// User refuses what is neither a user, nor a user with a group, nor all.
func User(user string) error {
	if user == Any || user != "" && !strings.ContainsAny(user, metacharacters+" ") {
		return nil
	}
	return fmt.Errorf(`%q has to be a user, USER:GROUP, or "*" alone`, user)
}

func clean(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && !strings.ContainsAny(path, metacharacters)
}
