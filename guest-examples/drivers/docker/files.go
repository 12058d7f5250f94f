package main

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/taskpath"
)

// files are the task's directories, the job's volumes and what the configuration mounts.
func (b *builder) files(group membership) {
	d := b.t.Directories
	binds := []string{d.Shared + ":/alloc", d.Local + ":/local", d.Secrets + ":/secrets"}
	if group.mode != "" {
		binds = append(binds, path.Join(d.Task, hostsName)+":/etc/hosts")
	}
	for _, m := range b.t.Mounts {
		bind := m.HostPath + ":" + m.TaskPath
		if m.ReadOnly {
			bind += ":ro"
		}
		binds = append(binds, bind)
	}
	b.host.text("VolumeDriver", b.c.Get("volume_driver").Text())
	for _, text := range b.c.Get("volumes").Texts() {
		if bind := b.volume(text); bind != "" {
			binds = append(binds, bind)
		}
	}
	b.host.texts("Binds", binds)
	var items [][]byte
	for _, name := range []string{"mount", "mounts"} {
		for _, v := range b.c.Get(name).Items() {
			items = append(items, b.mount(v))
		}
	}
	b.host.list("Mounts", items)
}

// volume is an element of volumes, "SOURCE:TARGET[:MODE]" or a target alone.
func (b *builder) volume(text string) string {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		b.refuse("invalid docker volume " + strconv.Quote(text) + ": not <src>:<destination> format")
		return ""
	}
	if name := b.c.Get("volume_driver").Text(); name != "" {
		b.needVolumes("use volume driver " + strconv.Quote(name))
		return text
	}
	parts[0] = b.hostPath(parts[0], text)
	return strings.Join(parts, ":")
}

// needVolumes refuses what only an operator who enabled volumes lets a task have.
func (b *builder) needVolumes(what string) {
	if !b.d.settings.Get("volumes", "enabled").Bool() {
		b.refuse("volumes are not enabled; cannot " + what)
	}
}

// hostPath is a path of the machine: one of the task's directories, or any where the operator
// enabled volumes. It was asked for in a text.
func (b *builder) hostPath(source, text string) string {
	full := path.Clean(source)
	if !path.IsAbs(full) {
		full = path.Join(b.t.Directories.Task, source)
	}
	if !taskpath.Own(b.t.Directories, full) {
		b.needVolumes("mount host path: " + strconv.Quote(text))
	} else if !b.d.settings.Get("volumes", "enabled").Bool() {
		b.local = append(b.local, full)
	}
	return full
}

// checkLinks refuses a path of the task's directories that is reached by a link: the engine
// would follow it to anywhere. What is not there the engine makes.
func checkLinks(ctx context.Context, dirs *driver.TaskDirectories, full string) error {
	what := "volume " + strconv.Quote(full)
	switch _, _, err := taskpath.Lstat(ctx, dirs, full); {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, taskpath.ErrLink):
		return abi.NewError(abi.PermissionDenied, what+" is reached by a link, which may lead anywhere: volumes are not enabled")
	default:
		return abi.NewError(abi.FailedPrecondition, what+": "+err.Error())
	}
}

// mount is a block of that name.
func (b *builder) mount(v config.Value) []byte {
	kind, source := v.Get("type").Text(), v.Get("source").Text()
	var o, options object
	o.text("Type", kind)
	o.text("Target", v.Get("target").Text())
	o.truth("ReadOnly", v.Get("readonly").Bool())
	switch kind {
	case "bind":
		o.text("Source", b.hostPath(source, source))
		options.text("Propagation", v.Get("bind_options", "propagation").Text())
		o.object("BindOptions", &options)
	case "tmpfs":
		if source != "" {
			b.refuse("a mount of type tmpfs has no source")
		}
		options.number("SizeBytes", v.Get("tmpfs_options", "size").Int())
		options.number("Mode", v.Get("tmpfs_options", "mode").Int())
		o.object("TmpfsOptions", &options)
	default:
		b.needVolumes("mount volume: " + strconv.Quote(source))
		o.text("Source", source)
		volume := v.Get("volume_options")
		options.truth("NoCopy", volume.Get("no_copy").Bool())
		options.texted("Labels", volume.Get("labels").Map())
		var with object
		with.text("Name", volume.Get("driver_config", "name").Text())
		with.texted("Options", volume.Get("driver_config", "options").Map())
		options.object("DriverConfig", &with)
		o.object("VolumeOptions", &options)
	}
	return o.encoded()
}
