// Command sleep prints that it is ready, sleeps, and prints that it is done.
//
//	sleep [DURATION]
//
// Without a DURATION, such as 1m30s, it sleeps for ever.
package main

import (
	"fmt"
	"math"
	"os"
	"time"
)

func main() {
	d := time.Duration(math.MaxInt64)
	if len(os.Args) > 1 {
		var err error
		if d, err = time.ParseDuration(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "sleep:", err)
			os.Exit(2)
		}
	}
	fmt.Println("ready")
	time.Sleep(d)
	fmt.Println("done")
}
