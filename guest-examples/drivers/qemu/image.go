package main

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/taskpath"
)

// imageTool looks at images and makes overlays.
const imageTool = "qemu-img"

// overlayFile is the overlay of a thin copy, in the task's directory.
const overlayFile = "image0.qcow2"

const notPermitted = " is neither in the task's directory or the one that the allocation's tasks share, nor in one of the plugin's image_paths"

// mostLayers is how many files may lie below an image, one the base of the other.
const mostLayers = 16

// drive is a file that the machine has as its disk.
type drive struct{ file, format string }

// permittedImage returns the absolute path of an image, which is where images may be.
func (q *qemu) permittedImage(image string, dirs *driver.TaskDirectories) (string, error) {
	absolute := path.Clean(image)
	if !path.IsAbs(image) {
		absolute = path.Join(dirs.Task, image)
	}
	if !q.permits(absolute, dirs) {
		return "", abi.NewError(abi.PermissionDenied, "image_path "+image+notPermitted)
	}
	return absolute, nil
}

// permits reports whether a machine may have a file, by its path.
func (q *qemu) permits(file string, dirs *driver.TaskDirectories) bool {
	return slices.ContainsFunc(append([]string{dirs.Task, dirs.Shared}, q.imagePaths...), func(dir string) bool {
		_, within := below(dir, file)
		return within
	})
}

// below returns where in a directory a file is, by its path.
func below(dir, file string) (rest string, within bool) {
	if dir == "" || !path.IsAbs(file) {
		return "", false
	}
	return strings.CutPrefix(path.Clean(file), strings.TrimSuffix(path.Clean(dir), "/")+"/")
}

// checkPlain refuses a file of the task's directories that is no regular one or is reached by a
// link: the emulator would follow it to whatever its user may read. What is not there is
// nothing.
func checkPlain(ctx context.Context, file string, dirs *driver.TaskDirectories) error {
	info, own, err := taskpath.Lstat(ctx, dirs, file)
	switch {
	case !own, errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, taskpath.ErrLink):
		return abi.NewError(abi.PermissionDenied, file+" is reached by a link, which may lead anywhere")
	case err != nil:
		return abi.NewError(abi.FailedPrecondition, file+": "+err.Error())
	case !info.Mode().IsRegular():
		return abi.NewError(abi.PermissionDenied, file+" is no file")
	}
	return nil
}

// prepareImage returns the disk of a machine: the image itself, or an overlay over it, which
// is kept over restarts of the task.
func (q *qemu) prepareImage(ctx context.Context, m *machine, dirs *driver.TaskDirectories) (drive, error) {
	format, err := q.inspect(ctx, m.image, dirs)
	if err != nil || !m.thin {
		return drive{m.image, format}, err
	}
	overlay := dirs.Task + "/" + overlayFile
	switch _, err := q.inspect(ctx, overlay, dirs); {
	case err == nil:
		return drive{overlay, "qcow2"}, nil
	case abi.CodeOf(err) != abi.NotFound:
		return drive{}, err
	}
	_, err = q.run(ctx, imageTool, nil, "create", "-f", "qcow2", "-F", format, "-b", m.image, overlay)
	if abi.CodeOf(err) == abi.FailedPrecondition {
		err = abi.NewError(abi.FailedPrecondition, "an overlay over "+m.image+": "+err.Error())
	}
	return drive{overlay, "qcow2"}, err
}

// inspect returns an image's format. An image is data that somebody else made, and it can
// name other files for the emulator to open: those have to be permitted as well. Each is
// looked at before the one that it is based on, or that has its data, is opened.
func (q *qemu) inspect(ctx context.Context, image string, dirs *driver.TaskDirectories) (format string, err error) {
	file, said := image, "" // what the layer above says that the format is
	for range mostLayers {
		layer, err := q.describe(ctx, image, file, dirs)
		if err != nil {
			return "", err
		}
		is := layer.Get("format").Text()
		if said != "" && said != is {
			return "", abi.NewError(abi.FailedPrecondition, "image "+image+" is made of "+file+", which is said to be "+said+" and looks like "+is)
		}
		if format == "" {
			format = is
		}
		if file = layer.Get("full-backing-filename").Text(); file == "" {
			return format, nil
		}
		said = layer.Get("backing-filename-format").Text()
	}
	return "", abi.NewError(abi.FailedPrecondition, "image "+image+" has more layers than "+strconv.Itoa(mostLayers))
}

// describe returns what is said of a file that an image is made of, if all is permitted that
// it names.
func (q *qemu) describe(ctx context.Context, image, file string, dirs *driver.TaskDirectories) (layer config.Value, err error) {
	if err := checkPlain(ctx, file, dirs); err != nil {
		return layer, err
	}
	if err := q.checkParts(ctx, image, file, dirs); err != nil {
		return layer, err
	}
	out, err := q.run(ctx, imageTool, nil, "info", "--output=json", "-U", file)
	switch {
	case abi.CodeOf(err) == abi.FailedPrecondition && strings.HasSuffix(err.Error(), "'"+file+"': No such file or directory"):
		return layer, abi.NewError(abi.NotFound, "there is no image "+file)
	case abi.CodeOf(err) == abi.FailedPrecondition:
		return layer, abi.NewError(abi.FailedPrecondition, "image "+image+": "+err.Error())
	case err != nil:
		return layer, err
	}
	layer, err = config.Parse(out)
	if err != nil || layer.Get("format").Text() == "" {
		return layer, abi.NewError(abi.Internal, "image "+image+": "+imageTool+" said what is not understood")
	}
	for _, named := range files(layer) {
		if err := q.checkNamed(ctx, image, file, named, dirs); err != nil {
			return layer, err
		}
	}
	return layer, nil
}

// checkNamed refuses what the machine may not have of the files that one of its image's names.
func (q *qemu) checkNamed(ctx context.Context, image, file, named string, dirs *driver.TaskDirectories) error {
	if !path.IsAbs(named) && !strings.Contains(named, ":") {
		named = path.Join(path.Dir(file), named)
	}
	if !q.permits(named, dirs) {
		return abi.NewError(abi.PermissionDenied, "image "+image+" is made of "+named+", which"+notPermitted)
	}
	return checkPlain(ctx, named, dirs)
}

// files are all that a description of an image names, at any depth: the image, what it is
// based on, the files that have its data.
func files(v config.Value) (out []string) {
	for _, f := range v.Fields() {
		switch f.Name {
		case "filename", "full-backing-filename", "data-file":
			out = append(out, f.Value.Text())
		}
		out = append(out, files(f.Value)...)
	}
	for _, item := range v.Items() {
		out = append(out, files(item)...)
	}
	return out
}
