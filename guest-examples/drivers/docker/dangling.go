package main

import (
	"context"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/kv"
	nodelog "github.com/wasmnode/wasmnode/sdk/go/log"
)

// A container is this node's own by a label that no other node's have, and dangles when the
// node has no use for it that is noted. The note is made before the container, and removed
// before that is; a container without a note before it is created has no label either, and is
// never touched here.

const (
	// ownerKey has what labels this node's containers.
	ownerKey = "owner"
	// usedKey is before a task's ID, or networkUse and an allocation's.
	usedKey = "used/"
	// networkUse is before the ID of an allocation whose network a container holds.
	networkUse = "network/"
	// danglingPeriod and danglingGrace are Nomad's.
	danglingPeriod, danglingGrace = 5 * time.Minute, 5 * time.Minute
)

// dangling is what the plugin's gc.dangling_containers says.
type dangling struct {
	enabled, dry bool
	period       time.Duration // between two looks
	grace        time.Duration // after a container is created, and the plugin configured
}

func newDangling(c config.Value) (dangling, error) {
	s := dangling{enabled: true, dry: c.Get("dry_run").Bool(), period: danglingPeriod, grace: danglingGrace}
	if v := c.Get("enabled"); v.IsSet() {
		s.enabled = v.Bool()
	}
	for name, into := range map[string]*time.Duration{"period": &s.period, "creation_grace": &s.grace} {
		v := c.Get(name)
		if !v.IsSet() {
			continue
		}
		var err error
		if *into, err = v.Duration(); err != nil {
			return s, abi.NewError(abi.InvalidArgument, "gc.dangling_containers."+name+": "+err.Error())
		}
	}
	return s, nil
}

// use notes that the node has a use for a container, and returns what labels it. Empty: it
// cannot be noted, or need not.
func (d *docker) use(ctx context.Context, what string) (owner string) {
	if !d.collects.dangling.enabled {
		return ""
	}
	owner, err := d.ownLabel(ctx)
	if err != nil || d.note(ctx, what) != nil {
		return ""
	}
	return owner
}

// useAgain notes it of a container that is there, in case that the node's state is older.
func (d *docker) useAgain(ctx context.Context, what string, container config.Value) error {
	if !d.collects.dangling.enabled || container.Get("Config", "Labels", labelOwner).Text() == "" {
		return nil
	}
	err := d.note(ctx, what)
	if abi.IsRecoverable(err) {
		return err // without the note the container would be removed
	}
	return nil
}

func (d *docker) note(ctx context.Context, what string) error {
	_, version, err := kv.Get(ctx, usedKey+what)
	if err == nil && version == 0 {
		_, err = kv.Set(ctx, usedKey+what, nil)
	}
	return err
}

// unused is the end of a use.
func (d *docker) unused(ctx context.Context, what string) {
	if d.collects.dangling.enabled {
		_ = kv.Delete(ctx, usedKey+what) // then the container stays when it cannot be removed
	}
}

// ownLabel is the same for as long as the node keeps its state.
func (d *docker) ownLabel(ctx context.Context) (string, error) {
	value, version, err := kv.Get(ctx, ownerKey)
	if err != nil || version > 0 {
		return string(value), err
	}
	own := strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36) // it has to be another node's never, and is no secret
	if _, err = kv.SetIf(ctx, ownerKey, []byte(own), 0); isCode(err, abi.Aborted) {
		value, _, err = kv.Get(ctx, ownerKey)
		own = string(value)
	}
	return own, err
}

// removeDangling removes the containers of this node's that it has no use for.
func (d *docker) removeDangling(ctx context.Context, now time.Time) error {
	s := d.collects.dangling
	if !s.enabled || now.Sub(d.looked) < s.period || now.Sub(d.since) < s.grace {
		return nil
	}
	d.looked = now
	owner, version, err := kv.Get(ctx, ownerKey)
	if err != nil || version == 0 {
		return err
	}
	var filter object
	filter.texts("label", []string{labelOwner + "=" + string(owner)})
	found, err := d.engine.get(ctx, "/containers/json", url.Values{"all": {"1"}, "filters": {string(filter.encoded())}})
	if err != nil {
		return err
	}
	used, err := kv.List(ctx, usedKey) // after the containers: those had a note before they were
	if err != nil {
		return err
	}
	uses := map[string]bool{}
	for _, entry := range used {
		uses[entry.Key] = true
	}
	for _, v := range found.Items() {
		if !d.dangles(v, string(owner), uses, now) {
			continue
		}
		if err := d.removeOne(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// dangles judges a container, whatever the engine made of the filter.
func (d *docker) dangles(v config.Value, owner string, uses map[string]bool, now time.Time) bool {
	labels := v.Get("Labels")
	what := labels.Get(labelTask).Text()
	if what == "" {
		what = networkUse + labels.Get(labelAlloc).Text()
	}
	kept := !d.collects.containers && v.Get("State").Text() != "running"
	return owner != "" && labels.Get(labelOwner).Text() == owner && !uses[usedKey+what] && !kept &&
		now.Sub(time.Unix(v.Get("Created").Int(), 0)) >= d.collects.dangling.grace
}

func (d *docker) removeOne(ctx context.Context, v config.Value) error {
	id, alloc := v.Get("Id").Text(), v.Get("Labels", labelAlloc).Text()
	if d.collects.dangling.dry {
		nodelog.Info(ctx, "a dangling container would be removed", "container_id", id, "alloc_id", alloc)
		return nil
	}
	nodelog.Info(ctx, "a dangling container is removed", "container_id", id, "alloc_id", alloc)
	return d.remove(ctx, id)
}
