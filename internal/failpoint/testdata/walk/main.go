// Command walk passes two points, three times each.
package main

import "github.com/wasmnode/wasmnode/internal/failpoint"

func main() {
	for range 3 {
		failpoint.Here("a")
		failpoint.Here("/directory/b", "c")
	}
}
