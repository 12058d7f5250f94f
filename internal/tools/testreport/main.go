// Command testreport summarises a run of the tests: which tests passed
// only when they were run again, which packages failed outside of any test, and which
// tests and packages took longest.
//
//	testreport EVENTS STATUS
//
// EVENTS is a file of "go test -json", in which a package that is run again comes again;
// STATUS is what that run exited with. testreport exits with it, or with 1 where a package
// failed without a failed test: a leak that TestMain finds, say, which running tests again
// would hide. Start reading at [read].
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		status = 2
	}
	os.Exit(status)
}

func run(args []string) (int, error) {
	if len(args) != 2 {
		return 0, fmt.Errorf("usage: testreport EVENTS STATUS")
	}
	status, err := strconv.Atoi(args[1])
	if err != nil {
		return 0, err
	}
	f, err := os.Open(args[0])
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r, err := read(f)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", args[0], err)
	}
	r.print(os.Stdout)
	if status == 0 && len(r.outside) > 0 {
		status = 1
	}
	return status, nil
}
