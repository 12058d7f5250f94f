// Command program prints a greeting.
package main

func main() { println("hello") }
