package host_test

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/modtest"
)

// testStore keeps values in memory, and what a disk would do to them.
type testStore struct {
	mu     sync.Mutex
	values map[string]map[string]host.Kept
	fails  error
	stuck  chan struct{} // a change waits until it is closed; nil: none waits
}

func (s *testStore) Values(plugin string) (map[string]host.Kept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.values[plugin]), s.fails
}

func (s *testStore) change(plugin string, do func(map[string]host.Kept)) error {
	s.mu.Lock()
	stuck := s.stuck
	s.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return s.fails
	}
	if s.values == nil {
		s.values = map[string]map[string]host.Kept{}
	}
	if s.values[plugin] == nil {
		s.values[plugin] = map[string]host.Kept{}
	}
	do(s.values[plugin])
	return nil
}

func (s *testStore) Put(plugin, key string, v host.Kept) error {
	return s.change(plugin, func(values map[string]host.Kept) { values[key] = v })
}

func (s *testStore) Delete(plugin, key string) error {
	return s.change(plugin, func(values map[string]host.Kept) { delete(values, key) })
}

// keeps permits a plugin to keep values.
var keeps = host.Grants{KV: host.KVGrant{Enabled: true}}

// kv asks for something in the fingerprint of a plugin.
func (w *world) kv(t *testing.T, function string, request, into host.Message) *abi.Error {
	t.Helper()
	message := mustMarshal(request)
	const at = 128 << 10 // where there is room
	m := guest(nil, map[string][]byte{abi.OpDriverFingerprint: askAt(fnStart, at, len(message))})
	m.Imports[fnStart].Module, m.Imports[fnStart].Name = abi.ModuleKV, function
	m.Data, m.Pages = append(m.Data, modtest.Data{Offset: at, Bytes: message}), 4
	p := w.ready(t, m.Bytes(), keeps)
	out, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
	require.NoError(t, err)
	code, answer := decodeAnswer(t, out)
	if code != 0 {
		return answeredError(t, out)
	}
	require.NoError(t, into.UnmarshalVT(answer))
	return nil
}

func TestWhatAPluginKeepsIsDurableAndItsOwn(t *testing.T) {
	w := newWorld(t, host.Limits{})
	var set wasmnodev1.KvSetResponse
	require.Nil(t, w.kv(t, abi.FuncKVSet, &wasmnodev1.KvSetRequest{Key: "k", Value: []byte("one"), Version: new(uint64(0))}, &set))
	require.Equal(t, host.Kept{Version: set.Version, Value: []byte("one")}, w.store.values["driver/test"]["k"], "durable when it answers")
	var got wasmnodev1.KvGetResponse
	require.Nil(t, w.kv(t, abi.FuncKVGet, &wasmnodev1.KvGetRequest{Key: "k"}, &got))
	require.Equal(t, wasmnodev1.KvGetResponse{Value: []byte("one"), Version: set.Version}, got)

	stale := w.kv(t, abi.FuncKVSet, &wasmnodev1.KvSetRequest{Key: "k", Version: new(set.Version - 1)}, &set)
	require.Equal(t, abi.Aborted, stale.Code)
	stale = w.kv(t, abi.FuncKVDelete, &wasmnodev1.KvDeleteRequest{Key: "k", Version: new(uint64(0))}, &wasmnodev1.KvDeleteResponse{})
	require.Equal(t, abi.Aborted, stale.Code)
	require.Nil(t, w.kv(t, abi.FuncKVDelete, &wasmnodev1.KvDeleteRequest{Key: "k", Version: new(got.Version)}, &wasmnodev1.KvDeleteResponse{}))
	require.Nil(t, w.kv(t, abi.FuncKVDelete, &wasmnodev1.KvDeleteRequest{Key: "k"}, &wasmnodev1.KvDeleteResponse{}))
	require.Empty(t, w.store.values["driver/test"])
	require.Nil(t, w.kv(t, abi.FuncKVSet, &wasmnodev1.KvSetRequest{Key: "k"}, &set))
	require.Greater(t, set.Version, got.Version, "a version does not come back")

	for _, key := range []string{"a/1", "a/2", "b"} {
		require.Nil(t, w.kv(t, abi.FuncKVSet, &wasmnodev1.KvSetRequest{Key: key, Value: []byte(key)}, &set))
	}
	var list wasmnodev1.KvListResponse
	require.Nil(t, w.kv(t, abi.FuncKVList, &wasmnodev1.KvListRequest{Prefix: "a/", Limit: 1}, &list))
	require.True(t, list.More)
	require.Equal(t, "a/1 3", list.Entries[0].Key+" "+string('0'+rune(list.Entries[0].Size)))
	var rest wasmnodev1.KvListResponse
	require.Nil(t, w.kv(t, abi.FuncKVList, &wasmnodev1.KvListRequest{Prefix: "a/", After: "a/1"}, &rest))
	require.Len(t, rest.Entries, 1)
	require.Equal(t, "a/2", rest.Entries[0].Key)
	require.False(t, rest.More)

	m := guest(nil, nil)
	m.Imports[fnStart].Module, m.Imports[fnStart].Name = abi.ModuleKV, abi.FuncKVGet
	err := w.load(t, m.Bytes()).Configure(t.Context(), host.Grants{}, []byte("{}"))
	require.EqualError(t, err, `needs grant wasmnode:kv/v1: add plugin "test" { grant { kv { enabled = true } } }`)
}

func TestWhatAPluginKeepsIsBounded(t *testing.T) {
	w := newWorld(t, host.Limits{})
	full := map[string]host.Kept{}
	for i := range 1023 {
		full[strings.Repeat("k", 8)+string(rune('A'+i))] = host.Kept{Version: 1}
	}
	w.store.values = map[string]map[string]host.Kept{"driver/test": full}
	set := func(key string, bytes int) *abi.Error {
		return w.kv(t, abi.FuncKVSet, &wasmnodev1.KvSetRequest{Key: key, Value: make([]byte, bytes)}, &wasmnodev1.KvSetResponse{})
	}
	for _, key := range []string{"", strings.Repeat("k", 257), "a\xff"} {
		if refused := set(key, 0); key != "a\xff" || refused != nil { // what is not UTF-8 may not even be a message
			require.Equal(t, abi.InvalidArgument, refused.Code, key)
		}
	}
	require.Equal(t, abi.InvalidArgument, set("k", 64<<10+1).Code)
	require.Nil(t, set(strings.Repeat("k", 256), 64<<10))
	require.Equal(t, abi.ResourceExhausted, set("one more", 0).Code, "1,024 keys")
	require.Nil(t, set(strings.Repeat("k", 256), 1), "of one that is there")

	w = newWorld(t, host.Limits{})
	w.store.values = map[string]map[string]host.Kept{"driver/test": {"big": {Version: 1, Value: make([]byte, 1<<20-3-10)}}}
	require.Equal(t, abi.ResourceExhausted, set("k", 10).Code)
	require.Nil(t, set("k", 9), "exactly 1 MiB")
	require.Nil(t, set("big", 0))
	require.Nil(t, set("l", 64<<10))

	host.SpendChanges(w.Host, "driver/test")
	refused := set("k", 1)
	require.NotNil(t, refused, "the rate of changes")
	require.Equal(t, abi.ResourceExhausted, refused.Code)
	require.True(t, refused.Recoverable)
}

// A guest that lists all the time has used its processor time up like any other that works.
func TestLookingAtWhatIsKeptTakesTheGuestsTime(t *testing.T) {
	w := newWorld(t, host.Limits{})
	full := map[string]host.Kept{}
	for i := range 1024 {
		full[strings.Repeat("k", 240)+strconv.Itoa(i)] = host.Kept{Version: 1}
	}
	w.store.values = map[string]map[string]host.Kept{"driver/test": full}
	message := mustMarshal(&wasmnodev1.KvListRequest{Limit: 1})
	m := guest(message, map[string][]byte{abi.OpDriverFingerprint: ask(fnStart, len(message))})
	m.Imports[fnStart].Module, m.Imports[fnStart].Name = abi.ModuleKV, abi.FuncKVList
	p := w.ready(t, m.Bytes(), keeps)
	list := func() {
		out, err := p.Call(t.Context(), abi.OpDriverFingerprint, nil, nil)
		require.NoError(t, err)
		code, _ := decodeAnswer(t, out)
		require.Zero(t, code)
	}
	list() // which reads the disk
	before, began := p.Stats().GuestTime, time.Now()
	for range 50 {
		list()
	}
	require.Greater(t, p.Stats().GuestTime-before, time.Since(began)/2)
}

func TestADiskThatFailsOrHangsIsTold(t *testing.T) {
	w := newWorld(t, host.Limits{})
	set := func() *abi.Error {
		return w.kv(t, abi.FuncKVSet, &wasmnodev1.KvSetRequest{Key: "k", Value: []byte("v")}, &wasmnodev1.KvSetResponse{})
	}
	w.store.fails = errors.New("no space left")
	for range 2 { // reading, and writing
		refused := set()
		require.Equal(t, abi.Unavailable, refused.Code)
		require.True(t, refused.Recoverable)
		require.Contains(t, refused.Message, "no space left")
	}
	w.store.fails = nil
	require.Nil(t, set())

	stuck := make(chan struct{})
	w.store.mu.Lock()
	w.store.stuck = stuck
	w.store.mu.Unlock()
	message := mustMarshal(&wasmnodev1.KvSetRequest{Key: "k"})
	m := guest(message, map[string][]byte{abi.OpDriverFingerprint: ask(fnStart, len(message))})
	m.Imports[fnStart].Module, m.Imports[fnStart].Name = abi.ModuleKV, abi.FuncKVSet
	p := w.ready(t, m.Bytes(), keeps)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := p.Call(ctx, abi.OpDriverFingerprint, nil, nil)
		ended <- err
	}()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	close(stuck)
}
