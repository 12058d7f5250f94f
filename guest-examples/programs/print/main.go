// Command print writes lines of a known form to standard output or error, for tests
// of log files.
//
//	print [-n LINES] [-width BYTES] [-stderr] [-every DURATION]
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	lines := flag.Int("n", 1, "how many lines")
	width := flag.Int("width", 0, "the least length of a line in bytes, without its end")
	toStderr := flag.Bool("stderr", false, "write to standard error")
	every := flag.Duration("every", 0, "the time between two lines")
	flag.Parse()
	to := os.Stdout
	if *toStderr {
		to = os.Stderr
	}
	out := bufio.NewWriter(to)
	for i := 1; i <= *lines; i++ {
		line := fmt.Sprintf("line %d", i)
		if pad := *width - len(line); pad > 0 {
			line += strings.Repeat(".", pad)
		}
		fmt.Fprintln(out, line)
		if *every > 0 {
			if out.Flush() != nil {
				os.Exit(1)
			}
			time.Sleep(*every)
		}
	}
	if err := out.Flush(); err != nil {
		os.Exit(1)
	}
}
