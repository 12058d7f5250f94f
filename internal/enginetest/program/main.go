// Command program is all that is in the image of tests with container engines. It does what
// its first argument says.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	case "link": // FILE
		target, err := os.Readlink(arguments[0])
		if err != nil {
			fail(err)
		}
		fmt.Println(target)
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
	case "terminal":
		terminal()
	case "echo": // what comes on standard input
		_, _ = io.Copy(os.Stdout, os.Stdin)
	}
}

// terminal says the size of its terminal, at first and whenever it changes, and what it reads. It
// ends with the code of a line "exit CODE", or with 9 at the end of its input.
func terminal() {
	size := func() {
		w, err := unix.IoctlGetWinsize(1, unix.TIOCGWINSZ)
		if err != nil {
			fail(err)
		}
		fmt.Printf("size %dx%d\n", w.Row, w.Col)
	}
	changes := make(chan os.Signal, 8)
	signal.Notify(changes, syscall.SIGWINCH)
	size()
	go func() {
		for range changes {
			size()
		}
	}()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if code, ok := strings.CutPrefix(lines.Text(), "exit "); ok {
			os.Exit(number(code))
		}
		fmt.Println("read", lines.Text())
	}
	os.Exit(9)
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
