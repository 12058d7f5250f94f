// Command plugin exports one function that doubles its argument.
package main

//go:wasmexport double
func double(n int32) int32 { return 2 * n }

func main() {}
