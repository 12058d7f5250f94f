// Package kv keeps values in the node's database, for the plugin itself: the capability
// wasmnode:kv/v1, which an operator has to grant. What a plugin keeps is there after a restart
// of the agent and in every instance and version of the plugin, and belongs to its name.
//
// A key is 1 to 256 bytes of UTF-8, and a value at most 64 KiB. There are at most 1,024 keys and
// 1 MiB of keys and values, and 20 changes a second, with bursts of 100.
//
// Errors of all functions are [abi.Error] values. PERMISSION_DENIED: it was not granted;
// INVALID_ARGUMENT: a bound of a key or a value; RESOURCE_EXHAUSTED: one of the others, recoverable
// if it is that of changes a second; UNAVAILABLE, recoverable: the node's database fails;
// UNIMPLEMENTED: this node keeps nothing.
package kv

import (
	"context"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// Entry is a key, with the version and the size of its value.
type Entry = wasmnodev1.KvEntry

// Get returns a value and its version. Version 0: there is none, which is no error.
func Get(ctx context.Context, key string) (value []byte, version uint64, err error) {
	var answer wasmnodev1.KvGetResponse
	err = hostcall.Ask(ctx, hostcall.KVGet, &wasmnodev1.KvGetRequest{Key: key}, &answer)
	return answer.Value, answer.Version, err
}

// Set stores a value, and returns the version that it has got. It is durable then.
func Set(ctx context.Context, key string, value []byte) (version uint64, err error) {
	return set(ctx, &wasmnodev1.KvSetRequest{Key: key, Value: value})
}

// SetIf stores a value if the one that is there has a version; 0: if there is none. The error
// is ABORTED if it has another.
func SetIf(ctx context.Context, key string, value []byte, version uint64) (next uint64, err error) {
	return set(ctx, &wasmnodev1.KvSetRequest{Key: key, Value: value, Version: &version})
}

func set(ctx context.Context, request *wasmnodev1.KvSetRequest) (version uint64, err error) {
	var answer wasmnodev1.KvSetResponse
	err = hostcall.Ask(ctx, hostcall.KVSet, request, &answer)
	return answer.Version, err
}

// Delete removes a value. That there is none is no error.
func Delete(ctx context.Context, key string) error {
	return hostcall.Ask(ctx, hostcall.KVDelete, &wasmnodev1.KvDeleteRequest{Key: key}, &wasmnodev1.KvDeleteResponse{})
}

// DeleteIf removes a value if it has a version. The error is ABORTED if it has another.
func DeleteIf(ctx context.Context, key string, version uint64) error {
	return hostcall.Ask(ctx, hostcall.KVDelete, &wasmnodev1.KvDeleteRequest{Key: key, Version: &version}, &wasmnodev1.KvDeleteResponse{})
}

// List returns the keys that begin with a prefix, in the order of their bytes.
func List(ctx context.Context, prefix string) ([]*Entry, error) {
	var answer wasmnodev1.KvListResponse
	err := hostcall.Ask(ctx, hostcall.KVList, &wasmnodev1.KvListRequest{Prefix: prefix}, &answer)
	return answer.Entries, err
}
