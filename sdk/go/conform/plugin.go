package conform

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// quickly is how long a description may take.
const quickly = time.Second

// describe checks what a plugin of any kind says of itself. Both kinds' answers have one
// encoding, as far as a device plugin's goes, but for the schema of its configuration.
func (r *run) describe() {
	began := time.Now()
	ask := func() (*wasmnodev1.DriverDescribeResponse, error) {
		request := encode(&wasmnodev1.DriverDescribeRequest{HostVersion: "0.0.0-conform"})
		if r.kind == "device_" {
			var d wasmnodev1.DeviceDescribeResponse
			err := r.ask(Call{Op: abi.OpDeviceDescribe, Request: request, Fresh: true}, &d)
			return &wasmnodev1.DriverDescribeResponse{Name: d.Name, Version: d.Version, PluginConfigSchema: d.PluginConfigSchema}, err
		}
		d := &wasmnodev1.DriverDescribeResponse{}
		return d, r.ask(Call{Op: abi.OpDriverDescribe, Request: request, Fresh: true}, d)
	}
	first, err := ask()
	took := time.Since(began)
	r.done("describe", err)
	if err != nil {
		return
	}
	r.description = *first
	r.report.Plugin, r.report.Version = first.Name, first.Version
	if took > quickly {
		err = fmt.Errorf("it took %v, and has milliseconds", took.Round(time.Millisecond))
	}
	r.done("describe/quick", err)
	again, err := ask()
	if err == nil && !again.EqualVT(first) {
		err = errors.New("it answers something else the second time")
	}
	r.done("describe/again", err)
	r.schema("schema/plugin", first.PluginConfigSchema)
	if r.kind == "driver_" {
		r.schema("schema/task", first.TaskConfigSchema)
	}
}

// unknownKey is in no configuration.
const unknownKey = "no_plugin_has_this_key"

// schema checks a schema: that it is one, and refuses a key that it does not know.
func (r *run) schema(name, schema string) {
	_, err := r.node.Fit(schema, []byte(`{"`+unknownKey+`": 1}`))
	switch {
	case err == nil:
		r.add(Fail, name, `it takes keys that it does not know, so that nobody notices a misspelled one: set "additionalProperties": false`)
	case strings.Contains(err.Error(), unknownKey):
		r.add(OK, name, "")
	default:
		r.add(Fail, name, err.Error()) // it is no schema
	}
}

// configure hands over the configuration, again, and one that no node hands over.
func (r *run) configure() {
	op := r.kind + "configure"
	request := encode(&wasmnodev1.DriverConfigureRequest{Config: r.opts.PluginConfig})
	var answer wasmnodev1.DriverConfigureResponse
	r.done("configure", r.ask(Call{Op: op, Request: request}, &answer))
	r.done("configure/again", r.ask(Call{Op: op, Request: request}, &answer))
	r.done("configure/no-json", faultOf(r.ask(Call{Op: op, Request: encode(&wasmnodev1.DriverConfigureRequest{Config: []byte("{\"")})}, &answer)))
	// The instance may have taken that over: it is not to be used for what follows.
	r.call(Call{Op: op, Request: request, Fresh: true})
}

// fingerprint checks how the plugin is.
func (r *run) fingerprint() {
	if r.kind == "device_" {
		return // that is about devices
	}
	var answer wasmnodev1.DriverFingerprintResponse
	err := r.ask(Call{Op: abi.OpDriverFingerprint, Fresh: true}, &answer)
	r.done("fingerprint", err)
	if err != nil {
		return
	}
	r.done("fingerprint/health", checkHealth(&answer))
	r.done("fingerprint/attributes", checkAttributes(r.description.Name, answer.Attributes))
	r.sweep("fingerprint", func(fail Fault) (int, error) {
		out := r.call(Call{Op: abi.OpDriverFingerprint, Fail: fail})
		return out.Asked, faultOf(out.Err)
	})
}

func checkHealth(f *wasmnodev1.DriverFingerprintResponse) error {
	if _, known := wasmnodev1.HealthState_name[int32(f.Health)]; !known || f.Health == 0 {
		return fmt.Errorf("the health %d is none", f.Health)
	}
	return nil
}

func checkAttributes(name string, attributes map[string]*wasmnodev1.Attribute) error {
	own := "driver." + name
	for key := range attributes {
		if key != own && !strings.HasPrefix(key, own+".") {
			return fmt.Errorf("the attribute %q is not %s, and not below it", key, own)
		}
	}
	return nil
}

// big is a request's length that a plugin with buffers of its own has no room for, within what
// a node sends.
const big = 2 << 20

// requests sends to each operation what is no request, or is one in an unusual form. A plugin
// may answer any of it with an error.
func (r *run) requests() {
	// Field 100, which no message has: bytes.
	long := append([]byte{0xa2, 0x06, 0x80, 0x80, 0x80, 0x01}, make([]byte, big)...)
	for _, op := range r.node.Operations() {
		if !strings.HasPrefix(op, r.kind) {
			continue
		}
		short := strings.TrimPrefix(op, r.kind)
		for _, c := range []struct {
			name    string
			request []byte
		}{
			{"empty", nil},
			{"broken", []byte{0x0a, 0xff, 0xff, 0x03, 'x'}},
			{"large", long},
		} {
			err := faultOf(r.call(Call{Op: op, Request: c.request}).Err)
			if err != nil && op == abi.OpDriverWaitTask && tooSlow(err) {
				err = nil // it may wait
			}
			r.done(short+"/"+c.name, err)
		}
	}
}
