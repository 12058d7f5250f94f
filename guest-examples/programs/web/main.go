// Command web serves HTTP on the first port that its task has it listen on.
//
//	web [TEXT]
//
// It answers every request with TEXT, or "hello", and /env/NAME with the value of that
// variable. When it is asked to end it lets the requests that are under way be answered first; its task
// needs `signals = true` for that.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// firstListener is the descriptor of the first port in the task's listen.
const firstListener = 3

func main() {
	text := "hello"
	if len(os.Args) > 1 {
		text = os.Args[1]
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

func serve(text string) error {
	l, err := net.FileListener(os.NewFile(firstListener, "listener"))
	if err != nil {
		return fmt.Errorf("the task has no port to listen on: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) })
	mux.HandleFunc("/env/{name}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, os.Getenv(r.PathValue("name"))) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	stopped := make(chan error, 1)
	go func() {
		signal := awaitSignal()
		fmt.Println("stopping for signal", signal)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	}()
	fmt.Println("serving", os.Getenv("LISTEN_FDNAMES"))
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return <-stopped
}

// awaitSignal returns the number of the first signal, if signals come.
func awaitSignal() byte {
	descriptor, err := strconv.Atoi(os.Getenv("WASMNODE_SIGNAL_FD"))
	if err != nil {
		select {}
	}
	var number [1]byte
	if _, err := os.NewFile(uintptr(descriptor), "signals").Read(number[:]); err != nil {
		select {}
	}
	return number[0]
}
