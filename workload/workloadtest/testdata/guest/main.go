// Command guest does what the conformance suite asks of a workload, one verb a run.
package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

var sink uint64

func main() {
	resetSignals()
	args := os.Args[1:]
	switch verb := args[0]; verb {
	case "exit": // CODE
		code, err := strconv.Atoi(args[1])
		check(err)
		os.Exit(code)
	case "print": // STDOUT STDERR
		fmt.Print(args[1])
		fmt.Fprint(os.Stderr, args[2])
	case "lines": // COUNT
		count, err := strconv.Atoi(args[1])
		check(err)
		for i := range count {
			fmt.Printf("line %d\n", i)
		}
	case "describe": // itself: arguments and environment
		fmt.Printf("args %q\n", append([]string{filepath.Base(os.Args[0])}, args...))
		env := os.Environ()
		slices.Sort(env)
		fmt.Printf("env %s\n", strings.Join(env, " "))
	case "stdin":
		n, err := io.Copy(io.Discard, os.Stdin)
		fmt.Printf("%d bytes, %v\n", n, err)
	case "clock":
		before := time.Now()
		time.Sleep(time.Millisecond)
		fmt.Printf("%d %v\n", before.Year(), time.Since(before) >= time.Millisecond)
	case "spin":
		fmt.Println("ready")
		for {
			sink = sink*6364136223846793005 + 1442695040888963407
		}
	case "sleep":
		fmt.Println("ready")
		time.Sleep(math.MaxInt64)
	case "grow":
		var kept [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			kept = append(kept, b)
			sink += uint64(len(kept))
		}
	case "cat": // FILE
		b, err := os.ReadFile(args[1])
		check(err)
		fmt.Print(string(b))
	case "write": // FILE TEXT
		check(os.WriteFile(args[1], []byte(args[2]), 0o644))
	default:
		fmt.Fprintln(os.Stderr, "no such verb:", verb)
		os.Exit(2)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}
