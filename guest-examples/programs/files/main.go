// Command files writes, reads, lists and removes files, prints variables and sleeps, one
// step an argument, and stops at the first that fails.
//
//	files write:PATH=TEXT read:PATH list:PATH remove:PATH mkdir:PATH link:TARGET=PATH \
//	      env:NAME sleep:DURATION
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	for _, step := range os.Args[1:] {
		verb, rest, _ := strings.Cut(step, ":")
		path, text, _ := strings.Cut(rest, "=")
		if err := do(verb, path, text); err != nil {
			fmt.Fprintf(os.Stderr, "files: %s: %v\n", step, err)
			os.Exit(1)
		}
	}
}

func do(verb, path, text string) error {
	switch verb {
	case "write":
		return os.WriteFile(path, []byte(text), 0o644)
	case "read":
		content, err := os.ReadFile(path)
		if err == nil {
			fmt.Println(string(content))
		}
		return err
	case "list":
		entries, err := os.ReadDir(path)
		for _, e := range entries {
			fmt.Println(e.Name())
		}
		return err
	case "env":
		fmt.Println(os.Getenv(path))
		return nil
	case "sleep":
		d, err := time.ParseDuration(path)
		time.Sleep(d)
		return err
	case "mkdir":
		return os.Mkdir(path, 0o755)
	case "remove":
		return os.RemoveAll(path)
	case "link":
		return os.Symlink(path, text)
	default:
		return fmt.Errorf("no such step")
	}
}
