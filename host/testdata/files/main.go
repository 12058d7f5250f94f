// Command files is a driver that does with files what its tasks say, as programs in Go do.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/task"
)

func init() { driver.Serve(files{}) }

func main() {}

type files struct{}

func (files) Describe() *driver.Description {
	return &driver.Description{Name: "files", Version: "1.0.0"}
}

func (files) Configure(context.Context, []byte) error { return nil }

// Fingerprint says what it sees while no call is about a task.
func (files) Fingerprint(ctx context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy, Description: list(task.Dir(ctx)) + read(task.Dir(ctx)+"/local/file") + said(os.WriteFile(task.Dir(ctx)+"/new", nil, 0o644))}, nil
}

// kept is left open by a task that says so.
var kept []*os.File

// StartTask does what the task says and answers with what came of it as its state.
func (files) StartTask(ctx context.Context, t *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	c, err := config.Parse(t.DriverConfig)
	if err != nil {
		return nil, nil, err
	}
	path := strings.NewReplacer("TASK", task.Dir(ctx), "ALLOC", task.AllocDir(ctx)).Replace(c.Get("path").Text())
	answer := ""
	switch c.Get("do").Text() {
	case "read":
		answer = read(path)
	case "list":
		answer = list(path)
	case "write":
		answer = said(os.WriteFile(path, []byte("written"), 0o644))
	case "need":
		_, err := os.ReadFile(path)
		return nil, nil, err
	case "link":
		answer = said(os.Symlink("/etc", path))
	case "rename":
		answer = said(os.Rename(path, path+".new"))
	case "keep":
		f, err := os.Open(path)
		kept, answer = append(kept, f), said(err)
	case "kept":
		for _, f := range kept {
			_, err := f.Read(make([]byte, 1))
			answer += said(err)
		}
	}
	return &driver.TaskHandle{Version: 1, DriverState: []byte(answer)}, nil, nil
}

func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return said(err)
	}
	return string(b)
}

func list(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return said(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return "[" + strings.Join(names, " ") + "]"
}

func said(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}
