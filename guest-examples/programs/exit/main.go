// Command exit ends with the code that its argument names, 0 without one.
//
//	exit [CODE]
package main

import (
	"os"
	"strconv"
)

func main() {
	code := 0
	if len(os.Args) > 1 {
		var err error
		if code, err = strconv.Atoi(os.Args[1]); err != nil {
			println("exit: not a number: " + os.Args[1])
			code = 2
		}
	}
	os.Exit(code)
}
