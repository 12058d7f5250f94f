package main

import (
	"context"
	"path"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// imageTool looks at images and makes overlays.
const imageTool = "qemu-img"

// overlayFile is the overlay of a thin copy, in the task's directory.
const overlayFile = "image0.qcow2"

const notPermitted = " is neither in the allocation's directory nor in one of the plugin's image_paths"

// drive is a file that the machine has as its disk.
type drive struct{ file, format string }

// permittedImage returns the absolute path of an image, which is in the allocation's directory
// or where the operator permits it.
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
	for _, dir := range append([]string{dirs.Alloc}, q.imagePaths...) {
		if dir != "" && path.IsAbs(file) && strings.HasPrefix(path.Clean(file), strings.TrimSuffix(path.Clean(dir), "/")+"/") {
			return true
		}
	}
	return false
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
// name other files for the emulator to open: those have to be permitted as well.
func (q *qemu) inspect(ctx context.Context, image string, dirs *driver.TaskDirectories) (string, error) {
	out, err := q.run(ctx, imageTool, nil, "info", "--output=json", "--backing-chain", "-U", image)
	switch {
	case abi.CodeOf(err) == abi.FailedPrecondition && strings.HasSuffix(err.Error(), "'"+image+"': No such file or directory"):
		return "", abi.NewError(abi.NotFound, "there is no image "+image)
	case abi.CodeOf(err) == abi.FailedPrecondition:
		return "", abi.NewError(abi.FailedPrecondition, "image "+image+": "+err.Error())
	case err != nil:
		return "", err
	}
	chain, err := config.Parse(out)
	if err != nil || len(chain.Items()) == 0 {
		return "", abi.NewError(abi.Internal, "image "+image+": "+imageTool+" said what is not understood")
	}
	for _, layer := range chain.Items() {
		for _, file := range files(layer) {
			if !path.IsAbs(file) && !strings.Contains(file, ":") {
				file = path.Join(path.Dir(layer.Get("filename").Text()), file)
			}
			if !q.permits(file, dirs) {
				return "", abi.NewError(abi.PermissionDenied, "image "+image+" is made of "+file+", which"+notPermitted)
			}
		}
	}
	return chain.Items()[0].Get("format").Text(), nil
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
