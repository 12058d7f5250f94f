// Command command is a program of many parts of Go, whose output must be the same
// metered and plain.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"math/big"
	"os"
	"sort"
	"strings"
	"text/template"
	"time"
)

func main() {
	var names []string
	x := uint32(1)
	for i := range 2000 {
		x = x*1664525 + 1013904223
		names = append(names, fmt.Sprintf("%x-%s-%g", x, strings.Repeat("z", i%7), float64(x)/3))
	}
	sort.Strings(names)
	var z bytes.Buffer
	gz := gzip.NewWriter(&z)
	fmt.Fprint(gz, names)
	gz.Close()
	fmt.Printf("%d %x\n", z.Len(), sha256.Sum256(z.Bytes()))
	f := new(big.Int).MulRange(1, 600)
	fmt.Println(f)
	template.Must(template.New("").Parse("{{range .}}{{.}} {{end}}\n")).Execute(os.Stdout, names[:20])
	squares := make(chan int)
	for i := range 50 {
		go func() { time.Sleep(time.Millisecond); squares <- i * i }()
	}
	sum := 0
	for range 50 {
		sum += <-squares
	}
	fmt.Println(sum, os.Args[1:])
	defer func() {
		fmt.Println("recovered", recover())
		os.Exit(3)
	}()
	fmt.Println(names[len(names)+sum%2])
}
