package main

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/kv"
)

const (
	// defaultImageDelay is Nomad's.
	defaultImageDelay = 3 * time.Minute
	// imageKey is before the ID of an image that a task has had. The value is since when no
	// container has it, in nanoseconds of the epoch; empty while one may.
	imageKey = "image/"
)

// collection is what the plugin's gc says.
type collection struct {
	images     bool
	delay      time.Duration // before an image is removed
	containers bool
	dangling   dangling
}

// newCollection reads the plugin's gc.
func newCollection(settings config.Value) (collection, error) {
	gc := settings.Get("gc")
	c := collection{images: true, delay: defaultImageDelay, containers: true}
	if v := gc.Get("image"); v.IsSet() {
		c.images = v.Bool()
	}
	if v := gc.Get("container"); v.IsSet() {
		c.containers = v.Bool()
	}
	if v := gc.Get("image_delay"); v.IsSet() {
		var err error
		if c.delay, err = v.Duration(); err != nil {
			return c, abi.NewError(abi.InvalidArgument, "gc.image_delay: "+err.Error())
		}
	}
	var err error
	c.dangling, err = newDangling(gc.Get("dangling_containers"))
	return c, err
}

// hasImage notes that a task is about to have an image. Where that cannot be noted, the image
// stays.
func (d *docker) hasImage(ctx context.Context, id string) {
	if !d.collects.images || id == "" {
		return
	}
	if since, version, err := kv.Get(ctx, imageKey+id); err == nil && (version == 0 || len(since) > 0) {
		_, _ = kv.Set(ctx, imageKey+id, nil)
	}
}

// collectImages removes the images that tasks have had and no container has had for a while.
func (d *docker) collectImages(ctx context.Context) error {
	if !d.collects.images {
		return nil
	}
	noted, err := kv.List(ctx, imageKey)
	if err != nil || len(noted) == 0 {
		return err
	}
	containers, err := d.engine.get(ctx, "/containers/json", url.Values{"all": {"1"}})
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, v := range containers.Items() {
		used[v.Get("ImageID").Text()] = true
	}
	for _, entry := range noted {
		id := strings.TrimPrefix(entry.Key, imageKey)
		if err := d.collectImage(ctx, id, used[id], time.Now()); err != nil && !isCode(err, abi.Aborted) { // a task has it now
			return err
		}
	}
	return nil
}

// collectImage removes an image if it has been unused for long enough.
func (d *docker) collectImage(ctx context.Context, id string, used bool, now time.Time) error {
	value, version, err := kv.Get(ctx, imageKey+id)
	if err != nil || version == 0 {
		return err
	}
	since, _ := strconv.ParseInt(string(value), 10, 64) // 0: one has had it until now
	switch {
	case used && since == 0:
		return nil
	case used:
		_, err = kv.SetIf(ctx, imageKey+id, nil, version)
		return err
	case since == 0:
		_, err = kv.SetIf(ctx, imageKey+id, strconv.AppendInt(nil, now.UnixNano(), 10), version)
		return err
	case now.Sub(time.Unix(0, since)) < d.collects.delay:
		return nil
	}
	if err := kv.DeleteIf(ctx, imageKey+id, version); err != nil {
		return err
	}
	if err = d.removeImage(ctx, id); err != nil {
		_, _ = kv.SetIf(ctx, imageKey+id, value, 0) // another look removes it, unless a task has it by then
	}
	return err
}

// removeImage removes an image that has one name, unless a container has it after all.
func (d *docker) removeImage(ctx context.Context, id string) error {
	image, err := d.engine.get(ctx, "/images/"+id+"/json", nil)
	switch {
	case err != nil:
	case len(image.Get("RepoTags").Items()) > 1: // which Docker refuses, and Podman fails at
		return nil
	default:
		err = d.engine.delete(ctx, "/images/"+id, nil)
	}
	if absent(err) || isCode(err, abi.FailedPrecondition) {
		return nil
	}
	return err
}
