// Command program says hello.
package main

func main() { println("hello") }
