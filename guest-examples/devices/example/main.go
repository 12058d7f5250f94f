// Command example is the device plugin "example": the files in a directory are devices
// of the group nomad/file/mock, for learning and for tests. An empty file is a device
// that is unhealthy.
package main

import (
	"context"
	_ "embed"
	"os"
	"path"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/device"
)

//go:embed plugin_schema.json
var pluginSchema string

func init() { device.Serve(&example{}) }

func main() {}

type example struct{ dir string }

var group = &device.GroupID{Vendor: "nomad", Type: "file", Name: "mock"}

func (*example) Describe() *device.Description {
	return &device.Description{Name: "example", Version: "0.1.0", PluginConfigSchema: pluginSchema}
}

func (e *example) Configure(_ context.Context, data []byte) error {
	c, err := config.Parse(data)
	e.dir = c.Get("dir").Text()
	return err
}

func (e *example) Fingerprint(context.Context) (*device.Fingerprint, error) {
	files, err := e.files()
	if err != nil {
		return nil, err
	}
	g := &device.Group{Id: group, Attributes: map[string]*device.Attribute{"dir": device.String(e.dir)}}
	for _, f := range files {
		d := &device.Device{Id: f.Name(), Healthy: f.Size() > 0}
		if !d.Healthy {
			d.HealthDescription = "the file is empty"
		}
		g.Devices = append(g.Devices, d)
	}
	answer := &device.Fingerprint{NextPollMs: 1000}
	if len(g.Devices) > 0 {
		answer.Groups = []*device.Group{g}
	}
	return answer, nil
}

// files are the regular files in the directory.
func (e *example) files() (files []os.FileInfo, err error) {
	entries, err := os.ReadDir(e.dir)
	if err != nil {
		return nil, abi.NewError(abi.Unavailable, err.Error()+": is the directory granted to this plugin?")
	}
	for _, entry := range entries {
		if f, err := entry.Info(); err == nil && f.Mode().IsRegular() {
			files = append(files, f)
		}
	}
	return files, nil
}

func (e *example) Reserve(_ context.Context, r *device.Reservation) (*device.Edits, error) {
	edits := &device.Edits{Env: []string{"EXAMPLE_DEVICES=" + strings.Join(r.DeviceIDs, ",")}}
	for _, id := range r.DeviceIDs {
		if _, err := os.Stat(path.Join(e.dir, id)); err != nil {
			return nil, abi.NewError(abi.NotFound, "device "+id+" is gone")
		}
		edits.Mounts = append(edits.Mounts, &device.Mount{HostPath: path.Join(e.dir, id), ContainerPath: path.Join("/devices", id)})
	}
	return edits, nil
}

func (e *example) Stats(context.Context) (*device.Stats, error) {
	files, err := e.files()
	if err != nil || len(files) == 0 {
		return &device.Stats{}, err
	}
	g := &device.GroupStats{Id: group, Devices: map[string]*device.InstanceStats{}}
	for _, f := range files {
		size := device.IntValue(f.Size(), "B")
		size.Description = "Size of the file"
		g.Devices[f.Name()] = &device.InstanceStats{Summary: size, Stats: []*device.Figure{
			device.Stat(size, "file", "size"),
			device.Stat(device.IntValue(f.ModTime().Unix(), "s"), "file", "modified"),
		}}
	}
	return &device.Stats{Groups: []*device.GroupStats{g}}, nil
}
