package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
)

// leaseTime is for how long containerd keeps what was unpacked by a start that ended halfway.
const leaseTime = time.Hour

// unpack makes the snapshots of an image that was brought without: one for each of its layers.
func (e engine) unpack(ctx context.Context, i *image) error {
	lease := "unpack-" + strconv.FormatUint(rand.Uint64(), 36)
	c, err := e.open(ctx, hpack.HeaderField{Name: "containerd-lease", Value: lease}) // what is made belongs to it
	if err != nil {
		return err
	}
	defer c.close()
	m := about(lease)
	m.texted(3, map[string]string{"containerd.io/gc.expire": time.Now().Add(leaseTime).UTC().Format(time.RFC3339)})
	if _, err := c.ask("leases.v1.Leases/Create", m); err != nil {
		return err
	}
	if len(i.layers) != len(i.diffs) {
		return abi.NewError(abi.FailedPrecondition, "it has not as many layers as it says")
	}
	for n := range i.layers {
		if err := c.unpackLayer(i, n); err != nil {
			return err
		}
	}
	if err := c.refer(i); err != nil {
		return err
	}
	_, err = c.ask("leases.v1.Leases/Delete", about(lease))
	return err
}

// unpackLayer makes the snapshot of a layer and those below it, unless it is there.
func (c *client) unpackLayer(i *image, n int) error {
	name := chain(i.diffs[:n+1])
	if found, err := c.hasSnapshot(name); found || err != nil {
		return err
	}
	key := name + "-" + strconv.FormatUint(rand.Uint64(), 36)
	mounts, err := c.prepare(key, chain(i.diffs[:n]))
	if err != nil {
		return err
	}
	if err = c.apply(i.layers[n], i.diffs[n], mounts); err == nil {
		m := about(c.snapshotter)
		m.text(2, name)
		m.text(3, key)
		if _, err = c.ask("snapshots.v1.Snapshots/Commit", m); err == nil {
			return nil
		}
	}
	_ = c.removeSnapshot(key)
	if isCode(err, abi.AlreadyExists) { // somebody else was faster
		return nil
	}
	return err
}

// apply unpacks a layer into mounts, which may take as long as the start.
func (c *client) apply(layer config.Value, diff string, mounts []fields) error {
	descriptor, m := &message{}, &message{}
	descriptor.text(1, layer.Get("mediaType").Text())
	descriptor.text(2, layer.Get("digest").Text())
	descriptor.number(3, uint64(layer.Get("size").Int()))
	m.raw(1, descriptor.b)
	for _, mount := range mounts {
		m.raw(2, mount)
	}
	answer, err := c.askWithin(0, "diff.v1.Diff/Apply", m)
	if err == nil && answer.text(1, 2) != diff {
		err = abi.NewError(abi.FailedPrecondition, "layer "+layer.Get("digest").Text()+" is not what the image says of it")
	}
	return err
}

func (c *client) hasSnapshot(name string) (bool, error) {
	m := about(c.snapshotter)
	m.text(2, name)
	_, err := c.ask("snapshots.v1.Snapshots/Stat", m)
	if absent(err) {
		return false, nil
	}
	return err == nil, err
}

// refer has the image's configuration keep the snapshots, as containerd's own client does.
func (c *client) refer(i *image) error {
	name := "containerd.io/gc.ref.snapshot." + c.snapshotter
	info, mask, m := about(i.config), &message{}, &message{}
	info.texted(5, map[string]string{name: i.chain})
	mask.text(1, "labels."+name)
	m.raw(1, info.b)
	m.raw(2, mask.b)
	_, err := c.ask("content.v1.Content/Update", m)
	return err
}
