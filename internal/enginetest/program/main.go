// Command program is all that is in the image of tests with container engines. It does what
// its first argument says.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	arguments := os.Args[2:]
	switch os.Args[1] {
	case "print": // OUT ERR CODE
		fmt.Print(arguments[0])
		fmt.Fprint(os.Stderr, arguments[1])
		os.Exit(number(arguments[2]))
	case "env": // NAME
		fmt.Println(os.Getenv(arguments[0]))
	case "cat": // FILE
		copyFile(arguments[0])
	case "write": // FILE TEXT
		if err := os.WriteFile(arguments[0], []byte(arguments[1]), 0o600); err != nil {
			fail(err)
		}
	case "count": // TO, in batches of BATCH that are 20 ms apart; then wait, unless END is "end"
		count(number(arguments[0]), number(arguments[1]))
		if len(arguments) > 2 && arguments[2] == "end" {
			return
		}
		wait()
	case "wait":
		wait()
	case "ignore":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "hog":
		hog()
	case "echo": // what comes on standard input
		_, _ = io.Copy(os.Stdout, os.Stdin)
	}
}

// count writes numbered lines to both streams.
func count(to, batch int) {
	for i := 1; i <= to; i++ {
		fmt.Println("o", i)
		fmt.Fprintln(os.Stderr, "e", i)
		if i%batch == 0 {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// wait says each signal and ends with SIGTERM.
func wait() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	fmt.Println("ready")
	for s := range signals {
		fmt.Println("got", s)
		if s == syscall.SIGTERM {
			os.Exit(0)
		}
	}
}

// hog takes memory until there is none.
func hog() {
	var taken [][]byte
	for {
		block := make([]byte, 1<<20)
		for i := range block {
			block[i] = 1
		}
		taken = append(taken, block)
		_ = taken
	}
}

func copyFile(path string) {
	f, err := os.Open(path)
	if err != nil {
		fail(err)
	}
	_, _ = io.Copy(os.Stdout, f)
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		fail(err)
	}
	return n
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
