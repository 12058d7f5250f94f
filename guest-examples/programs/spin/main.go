// Command spin prints that it is ready and then burns a processor core for ever.
package main

import "os"

// sink keeps the loop from being optimised away.
var sink uint64

func main() {
	_, _ = os.Stdout.WriteString("ready\n")
	for {
		sink = sink*6364136223846793005 + 1442695040888963407
	}
}
