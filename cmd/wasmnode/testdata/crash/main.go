// Command crash is the task of a crash campaign: it notes its start in a file, prints
// so many numbered lines, and ends with a code.
//
//	crash STARTS LINES EVERY CODE
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	starts, err := os.OpenFile(os.Args[1], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	check(err)
	_, err = starts.WriteString("start\n")
	check(err)
	check(starts.Close())
	lines, err := strconv.Atoi(os.Args[2])
	check(err)
	every, err := time.ParseDuration(os.Args[3])
	check(err)
	code, err := strconv.Atoi(os.Args[4])
	check(err)
	fmt.Println("begin")
	for i := 1; i <= lines; i++ {
		fmt.Println("line", i)
		time.Sleep(every)
	}
	os.Exit(code)
}

func check(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(99)
	}
}
