package devices

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/structs"
)

// Bounds of a reservation.
const (
	maxEdits        = 64 // of each kind
	maxVariable     = 4 << 10
	maxDevicePath   = 1 << 10
	defaultNodePerm = "rw"
)

// checkReservation makes a reservation of a plugin's answer. Nothing may reach a task
// that the plugin was not granted, or that the task's own directories are hidden by.
func checkReservation(a *wasmnodev1.DeviceReserveResponse, plugin string, g host.Grants) (*structs.DeviceReservation, error) {
	e := a.GetContainerEdits()
	if e == nil {
		e = &wasmnodev1.ContainerEdits{}
	}
	if len(e.Hooks) > 0 {
		return nil, errors.New("hooks: a node runs no programs of a plugin's")
	}
	if n := max(len(e.Env), len(e.DeviceNodes), len(e.Mounts)); n > maxEdits {
		return nil, fmt.Errorf("%d edits of one kind, the limit is %d", n, maxEdits)
	}
	c := editCheck{plugin: plugin, grants: g, taken: map[string]bool{}, out: &structs.DeviceReservation{Env: map[string]string{}}}
	for i, variable := range e.Env {
		if err := c.variable(variable); err != nil {
			return nil, fmt.Errorf("env[%d]: %w", i, err)
		}
	}
	for i, n := range e.DeviceNodes {
		if err := c.node(n); err != nil {
			return nil, fmt.Errorf("device_nodes[%d]: %w", i, err)
		}
	}
	for i, m := range e.Mounts {
		if err := c.mount(m); err != nil {
			return nil, fmt.Errorf("mounts[%d]: %w", i, err)
		}
	}
	return c.out, nil
}

// editCheck checks the edits of one reservation and collects them.
type editCheck struct {
	plugin string
	grants host.Grants
	taken  map[string]bool // paths in the task
	out    *structs.DeviceReservation
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// variable takes "NAME=value". What the node tells its tasks, and what decides which
// code a program loads, cannot be set by a device.
func (c *editCheck) variable(text string) error {
	name, value, ok := strings.Cut(text, "=")
	switch {
	case len(text) > maxVariable:
		return fmt.Errorf("%d bytes, the limit is %d", len(text), maxVariable)
	case !ok:
		return fmt.Errorf("%q is not of the form NAME=value", catalog.Printable(text))
	case !variableName.MatchString(name):
		return fmt.Errorf("%q is not the name of a variable", catalog.Printable(name))
	case !isLine(value):
		return fmt.Errorf("%s: its value has characters that do not print", name)
	case strings.HasPrefix(name, "NOMAD_") || strings.HasPrefix(name, "LD_") || name == "PATH":
		return fmt.Errorf("%s cannot be set by a device", name)
	}
	if _, twice := c.out.Env[name]; twice {
		return fmt.Errorf("%s is listed twice", name)
	}
	c.out.Env[name] = value
	return nil
}

func (c *editCheck) node(n *wasmnodev1.EditedDeviceNode) error {
	out := structs.DeviceNode{TaskPath: n.GetPath(), HostPath: n.GetHostPath(), Permissions: n.GetPermissions()}
	if out.HostPath == "" {
		out.HostPath = out.TaskPath
	}
	if out.Permissions == "" {
		out.Permissions = defaultNodePerm
	}
	if err := c.target("path", out.TaskPath); err != nil {
		return err
	}
	if err := cleanPath("host_path", out.HostPath); err != nil {
		return err
	}
	for i, p := range out.Permissions {
		if !strings.ContainsRune("rwm", p) || strings.ContainsRune(out.Permissions[:i], p) {
			return fmt.Errorf("permissions: %q is not a subset of \"rwm\"", catalog.Printable(out.Permissions))
		}
	}
	if !c.grants.NodeGranted(out.HostPath) {
		return &host.MissingGrantError{Plugin: c.plugin, Capability: "for " + out.HostPath,
			Fix: fmt.Sprintf("plugin %q { grant { devices { nodes = [%q] } } }", c.plugin, out.HostPath)}
	}
	c.out.Nodes = append(c.out.Nodes, out)
	return nil
}

func (c *editCheck) mount(m *wasmnodev1.EditedMount) error {
	out := structs.Mount{TaskPath: m.GetContainerPath(), HostPath: m.GetHostPath(), ReadOnly: true}
	for _, option := range m.GetOptions() {
		switch option {
		case "rw":
			out.ReadOnly = false
		case "ro", "bind", "rbind":
		default:
			return fmt.Errorf("options: %q is none of ro, rw, bind, rbind", catalog.Printable(option))
		}
	}
	if !out.ReadOnly && slices.Contains(m.GetOptions(), "ro") {
		return errors.New("options: both ro and rw")
	}
	if err := c.target("container_path", out.TaskPath); err != nil {
		return err
	}
	if err := cleanPath("host_path", out.HostPath); err != nil {
		return err
	}
	if !c.grants.Mountable(out.HostPath, out.ReadOnly) {
		key := "read_only"
		if !out.ReadOnly {
			key = "read_write"
		}
		return &host.MissingGrantError{Plugin: c.plugin, Capability: "for " + out.HostPath,
			Fix: fmt.Sprintf("plugin %q { grant { fs { %s = [%q] } } }", c.plugin, key, nearestDirectory(out.HostPath))}
	}
	c.out.Mounts = append(c.out.Mounts, out)
	return nil
}

// nearestDirectory is the smallest directory that can be granted to have a path in it: the
// path itself, if it is one.
func nearestDirectory(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	return filepath.Dir(path)
}

// target checks a path in the task, which no other edit may have and which must not
// hide what every task has.
func (c *editCheck) target(what, p string) error {
	if err := cleanPath(what, p); err != nil {
		return err
	}
	if c.taken[p] {
		return fmt.Errorf("%s: %s is listed twice", what, p)
	}
	c.taken[p] = true
	for _, own := range []string{"/alloc", "/local", "/secrets", "/proc", "/sys"} {
		if p == own || strings.HasPrefix(p, own+"/") {
			return fmt.Errorf("%s: %s would hide a part of the task's own %s", what, p, own)
		}
	}
	if p == "/" || p == "/dev" || p == "/tmp" {
		return fmt.Errorf("%s: %s is the task's own", what, p)
	}
	return nil
}

func cleanPath(what, p string) error {
	switch {
	case len(p) > maxDevicePath:
		return fmt.Errorf("%s: %d bytes, the limit is %d", what, len(p), maxDevicePath)
	case !path.IsAbs(p) || path.Clean(p) != p || !isLine(p):
		return fmt.Errorf("%s: %q is not an absolute, clean path", what, catalog.Printable(p))
	}
	return nil
}
