// Command faulty_device is a device plugin that does what a test writes into the
// directory that it is configured with: the file that is named as an operation says how
// that operation misbehaves, or is the message that it answers with. An operation without
// a file answers in order: the plugin has the devices a and b of the group acme/gpu/x1.
package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/device"
)

const schema = `{"type": "object", "properties": {"dir": {"type": "string"}}, "required": ["dir"], "additionalProperties": false}`

func init() { device.Serve(&faulty{}) }

func main() {}

type faulty struct{ dir string }

var group = &device.GroupID{Vendor: "acme", Type: "gpu", Name: "x1"}

func (*faulty) Describe() *device.Description {
	return &device.Description{Name: "faulty", Version: "0.1.0", PluginConfigSchema: schema}
}

func (f *faulty) Configure(_ context.Context, data []byte) error {
	c, err := config.Parse(data)
	f.dir = c.Get("dir").Text()
	return err
}

// misbehave writes a line into the file calls and does what the operation's file says. It
// returns the message to answer with; nil: an orderly one.
func (f *faulty) misbehave(op, about string) ([]byte, error) {
	if err := f.note(op + " " + about + "\n"); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path.Join(f.dir, op))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	switch string(text) {
	case "trap":
		panic("told to")
	case "exit":
		os.Exit(3)
	case "spin":
		for {
		}
	case "sleep":
		time.Sleep(time.Hour)
	case "error":
		return nil, abi.NewError(abi.Unavailable, "told to fail")
	}
	return text, err
}

func (f *faulty) note(line string) error {
	calls, err := os.OpenFile(path.Join(f.dir, "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = calls.WriteString(line)
	return errors.Join(err, calls.Close())
}

func (f *faulty) Fingerprint(context.Context) (*device.Fingerprint, error) {
	text, err := f.misbehave("fingerprint", "")
	switch {
	case err != nil:
		return nil, err
	case string(text) == "flutter":
		// Other devices each time, and a wish to be asked again at once.
		id := strconv.FormatInt(time.Now().UnixNano(), 10)
		return &device.Fingerprint{NextPollMs: 1, Groups: []*device.Group{{Id: group, Devices: []*device.Device{{Id: id, Healthy: true}}}}}, nil
	case text != nil:
		answer := &device.Fingerprint{}
		return answer, answer.UnmarshalVT(text)
	}
	return &device.Fingerprint{NextPollMs: 1000, Groups: []*device.Group{{
		Id: group, Devices: []*device.Device{{Id: "a", Healthy: true}, {Id: "b", Healthy: true}},
	}}}, nil
}

func (f *faulty) Reserve(_ context.Context, r *device.Reservation) (*device.Edits, error) {
	text, err := f.misbehave("reserve", r.User.AllocId)
	if err != nil || text == nil {
		return &device.Edits{Env: []string{"ACME=" + strings.Join(r.DeviceIDs, ",")}}, err
	}
	answer := &device.Edits{}
	return answer, answer.UnmarshalVT(text)
}

func (f *faulty) Release(_ context.Context, r *device.Reservation) error {
	_, err := f.misbehave("release", r.User.AllocId)
	return err
}

func (f *faulty) Stats(context.Context) (*device.Stats, error) {
	text, err := f.misbehave("stats", "")
	if err != nil {
		return nil, err
	}
	answer := &device.Stats{}
	if text != nil {
		return answer, answer.UnmarshalVT(text)
	}
	g := &device.GroupStats{Id: group, Devices: map[string]*device.InstanceStats{}}
	for _, id := range []string{"a", "b"} {
		g.Devices[id] = &device.InstanceStats{Summary: device.IntValue(7, "W")}
	}
	answer.Groups, answer.NextPollMs = []*device.GroupStats{g}, 1000
	return answer, nil
}
