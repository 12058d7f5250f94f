package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sandbox"
)

// The bounds of what a plugin keeps.
const (
	maxKey        = 256
	maxValue      = 64 << 10
	maxKeys       = 1024
	maxKept       = 1 << 20 // bytes of all keys and values
	keepPerSecond = 20      // changes, each of which waits for the disk
	keepBurst     = 100
)

// Store is where what plugins keep is durable: when a method that changes something has
// returned nil. Its methods may be called concurrently, those of one plugin one at a time.
type Store interface {
	// Values returns all that a plugin keeps, by key.
	Values(plugin string) (map[string]Kept, error)
	Put(plugin, key string, v Kept) error
	// Delete removes a value. That there is none is not an error.
	Delete(plugin, key string) error
}

// Kept is a value that a plugin keeps.
type Kept struct {
	Version uint64
	Value   []byte
}

// kvFuncs is wasmnode:kv/v1: a small durable store of the plugin's own.
var kvFuncs = map[string]sandbox.HostFunc{
	abi.FuncKVGet:    keeping(func() *wasmnodev1.KvGetRequest { return &wasmnodev1.KvGetRequest{} }, (*keeper).look, (*keeper).get),
	abi.FuncKVSet:    keeping(func() *wasmnodev1.KvSetRequest { return &wasmnodev1.KvSetRequest{} }, (*keeper).change, (*keeper).set),
	abi.FuncKVDelete: keeping(func() *wasmnodev1.KvDeleteRequest { return &wasmnodev1.KvDeleteRequest{} }, (*keeper).change, (*keeper).remove),
	abi.FuncKVList:   keeping(func() *wasmnodev1.KvListRequest { return &wasmnodev1.KvListRequest{} }, (*keeper).look, (*keeper).list),
}

// work is something that is done with what a plugin keeps.
type work func(*keeper) (Message, error)

// keeping makes a function of one that works with what the plugin keeps, in a way.
func keeping[R Message](empty func() R, way func(*keeper, context.Context, work) (Message, error), do func(k *keeper, request R) (Message, error)) sandbox.HostFunc {
	return structured(func(ctx context.Context, c *call, request []byte) (Message, error) {
		r := empty()
		if err := decode(request, r); err != nil {
			return nil, abi.NewError(abi.InvalidArgument, "not a message of this function")
		}
		s := c.plugin.pool.settings()
		switch {
		case s == nil:
			return nil, abi.NewError(abi.PermissionDenied, "keeping values: not before the plugin is configured")
		case !s.grants.KV.Enabled:
			return nil, lacking(noStore(c.plugin.Name()))
		case c.plugin.host.cfg.Store == nil:
			return nil, abi.NewError(abi.Unimplemented, "this node keeps no values of plugins")
		}
		return way(c.plugin.host.keeper(c.plugin.storeName()), ctx, func(k *keeper) (Message, error) { return do(k, r) })
	})
}

// storeName is what the plugin keeps belongs to. A driver and a device plugin may have one name.
func (p *Plugin) storeName() string { return string(p.spec.Kind) + "/" + p.Name() }

// keeper is what a plugin of one name keeps, whichever version of it asks.
type keeper struct {
	plugin string
	store  Store
	rate   *rate.Limiter
	turn   chan struct{} // holds one value while nobody works with the rest
	values map[string]Kept
	bytes  int // of keys and values
	newest uint64
	// What is told of them, without waiting for a turn.
	toldValues, toldBytes atomic.Int64
}

// kept is how many values a plugin keeps, and their bytes with those of their keys, as far as that
// is known.
func (h *Host) kept(plugin string) (values, bytes int) {
	h.mu.Lock()
	k := h.keepers[plugin]
	h.mu.Unlock()
	if k == nil {
		return 0, 0
	}
	return int(k.toldValues.Load()), int(k.toldBytes.Load())
}

// tell has others know what there is now.
func (k *keeper) tell() {
	k.toldValues.Store(int64(len(k.values)))
	k.toldBytes.Store(int64(k.bytes))
}

// keeper returns that of a plugin.
func (h *Host) keeper(plugin string) *keeper {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.keepers[plugin]
	if k == nil {
		k = &keeper{plugin: plugin, store: h.cfg.Store, rate: rate.NewLimiter(keepPerSecond, keepBurst), turn: make(chan struct{}, 1)}
		k.turn <- struct{}{}
		h.keepers[plugin] = k
	}
	return k
}

// look does something that needs the disk at the first time only. What it takes of the
// processor is the guest's time, which is bounded.
func (k *keeper) look(ctx context.Context, do work) (Message, error) {
	resume := sandbox.Pause(ctx)
	select {
	case <-k.turn:
	case <-ctx.Done():
		resume()
		return nil, context.Cause(ctx)
	}
	if k.values == nil {
		k.turn <- struct{}{}
		resume()
		return k.change(ctx, do)
	}
	defer func() { k.turn <- struct{}{} }()
	resume()
	return do(k)
}

// change does one thing after the other. A caller whose context ends does not wait for the disk,
// on which what it asked for may still come about.
func (k *keeper) change(ctx context.Context, do work) (Message, error) {
	defer sandbox.Pause(ctx)()
	type answer struct {
		message Message
		err     error
	}
	select {
	case <-k.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() { k.turn <- struct{}{} }()
		if err := k.load(); err != nil {
			answered <- answer{nil, err}
			return
		}
		message, err := do(k)
		answered <- answer{message, err}
	}()
	select {
	case a := <-answered:
		return a.message, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// load reads what is kept, once.
func (k *keeper) load() error {
	if k.values != nil {
		return nil
	}
	values, err := k.store.Values(k.plugin)
	if err != nil {
		return unavailable(err)
	}
	k.values, k.bytes = map[string]Kept{}, 0
	for key, v := range values {
		k.values[key] = v
		k.bytes += len(key) + len(v.Value)
		k.newest = max(k.newest, v.Version)
	}
	k.tell()
	return nil
}

func unavailable(err error) error {
	return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("the node's database: %v", err))
}

func (k *keeper) get(r *wasmnodev1.KvGetRequest) (Message, error) {
	v := k.values[r.Key]
	return &wasmnodev1.KvGetResponse{Value: v.Value, Version: v.Version}, nil
}

func (k *keeper) set(r *wasmnodev1.KvSetRequest) (Message, error) {
	old, there := k.values[r.Key]
	bytes := k.bytes + len(r.Key) + len(r.Value)
	if there {
		bytes -= len(r.Key) + len(old.Value)
	}
	switch {
	case len(r.Key) == 0 || len(r.Key) > maxKey || !utf8.ValidString(r.Key):
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("a key is 1 to %d bytes of UTF-8", maxKey))
	case len(r.Value) > maxValue:
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("a value of %d bytes, the limit is %d", len(r.Value), maxValue))
	case !there && len(k.values) == maxKeys:
		return nil, abi.NewError(abi.ResourceExhausted, fmt.Sprintf("there are %d keys, which is the limit", maxKeys))
	case bytes > maxKept:
		return nil, abi.NewError(abi.ResourceExhausted, fmt.Sprintf("all keys and values would have %d bytes, the limit is %d", bytes, maxKept))
	}
	if err := k.mayChange(old.Version, r.Version); err != nil {
		return nil, err
	}
	// Versions do not come back, not even those of keys that were deleted before a restart.
	next := Kept{Version: max(k.newest+1, uint64(time.Now().UnixNano())), Value: r.Value}
	if err := k.store.Put(k.plugin, r.Key, next); err != nil {
		return nil, k.failed(err)
	}
	k.values[r.Key], k.bytes, k.newest = next, bytes, next.Version
	k.tell()
	return &wasmnodev1.KvSetResponse{Version: next.Version}, nil
}

func (k *keeper) remove(r *wasmnodev1.KvDeleteRequest) (Message, error) {
	old, there := k.values[r.Key]
	if err := k.mayChange(old.Version, r.Version); err != nil {
		return nil, err
	}
	if !there {
		return &wasmnodev1.KvDeleteResponse{}, nil
	}
	if err := k.store.Delete(k.plugin, r.Key); err != nil {
		return nil, k.failed(err)
	}
	delete(k.values, r.Key)
	k.bytes -= len(r.Key) + len(old.Value)
	k.tell()
	return &wasmnodev1.KvDeleteResponse{}, nil
}

// mayChange refuses a change of another version than the one that is meant, and one too many.
func (k *keeper) mayChange(version uint64, meant *uint64) error {
	if meant != nil && *meant != version {
		return abi.NewError(abi.Aborted, fmt.Sprintf("the value has version %d, not %d", version, *meant))
	}
	if !k.rate.Allow() {
		return abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("more than %d changes a second", keepPerSecond))
	}
	return nil
}

// failed is after a change that may have come about all the same: what is kept is read again.
func (k *keeper) failed(err error) error {
	k.values = nil
	return unavailable(err)
}

func (k *keeper) list(r *wasmnodev1.KvListRequest) (Message, error) {
	var keys []string
	for key := range k.values {
		if strings.HasPrefix(key, r.Prefix) && key > r.After {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	out := &wasmnodev1.KvListResponse{}
	if r.Limit > 0 && len(keys) > int(r.Limit) {
		keys, out.More = keys[:r.Limit], true
	}
	for _, key := range keys {
		v := k.values[key]
		out.Entries = append(out.Entries, &wasmnodev1.KvEntry{Key: key, Version: v.Version, Size: uint64(len(v.Value))})
	}
	return out, nil
}
