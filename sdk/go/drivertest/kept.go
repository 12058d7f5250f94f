package drivertest

import (
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// The bounds of what a plugin keeps, see abi/ABI.md.
const (
	maxKey   = 256
	maxValue = 64 << 10
)

// keptValue is a value that the driver keeps.
type keptValue struct {
	value   []byte
	version uint64
}

// kept is what the driver keeps. It belongs to records, whose lock guards it.
type kept struct {
	values map[string]keptValue
	newest uint64
}

// Kept returns what the driver keeps, by key.
func (n *core) Kept() map[string][]byte {
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	out := map[string][]byte{}
	for key, v := range n.records.kept.values {
		out[key] = slices.Clone(v.value)
	}
	return out
}

// meant refuses a change of another version.
func (k *kept) meant(key string, version *uint64) error {
	if version != nil && *version != k.values[key].version {
		return abi.NewError(abi.Aborted, "the value has another version")
	}
	return nil
}

// keeping does something with what is kept.
func (h *callHost) keeping(
	request []byte, into interface{ UnmarshalVT(b []byte) error }, do func(k *kept) (interface{ MarshalVT() ([]byte, error) }, error),
) ([]byte, error) {
	if err := h.denied(); err != nil {
		return nil, err
	}
	if err := into.UnmarshalVT(request); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "kv: "+err.Error())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	answer, err := do(&h.kept)
	if err != nil {
		return nil, err
	}
	return answer.MarshalVT()
}

func (h *callHost) KVGet(request []byte) ([]byte, error) {
	r := &wasmnodev1.KvGetRequest{}
	return h.keeping(request, r, func(k *kept) (interface{ MarshalVT() ([]byte, error) }, error) {
		v := k.values[r.Key]
		return &wasmnodev1.KvGetResponse{Value: v.value, Version: v.version}, nil
	})
}

func (h *callHost) KVSet(request []byte) ([]byte, error) {
	r := &wasmnodev1.KvSetRequest{}
	return h.keeping(request, r, func(k *kept) (interface{ MarshalVT() ([]byte, error) }, error) {
		if len(r.Key) == 0 || len(r.Key) > maxKey || len(r.Value) > maxValue {
			return nil, abi.NewError(abi.InvalidArgument, "kv: beyond a bound of abi/ABI.md")
		}
		if err := k.meant(r.Key, r.Version); err != nil {
			return nil, err
		}
		if k.values == nil {
			k.values = map[string]keptValue{}
		}
		k.newest++
		k.values[r.Key] = keptValue{r.Value, k.newest}
		return &wasmnodev1.KvSetResponse{Version: k.newest}, nil
	})
}

func (h *callHost) KVDelete(request []byte) ([]byte, error) {
	r := &wasmnodev1.KvDeleteRequest{}
	return h.keeping(request, r, func(k *kept) (interface{ MarshalVT() ([]byte, error) }, error) {
		if err := k.meant(r.Key, r.Version); err != nil {
			return nil, err
		}
		delete(k.values, r.Key)
		return &wasmnodev1.KvDeleteResponse{}, nil
	})
}

func (h *callHost) KVList(request []byte) ([]byte, error) {
	r := &wasmnodev1.KvListRequest{}
	return h.keeping(request, r, func(k *kept) (interface{ MarshalVT() ([]byte, error) }, error) {
		out := &wasmnodev1.KvListResponse{}
		for key, v := range k.values {
			if strings.HasPrefix(key, r.Prefix) && key > r.After {
				out.Entries = append(out.Entries, &wasmnodev1.KvEntry{Key: key, Version: v.version, Size: uint64(len(v.value))})
			}
		}
		slices.SortFunc(out.Entries, func(a, b *wasmnodev1.KvEntry) int { return strings.Compare(a.Key, b.Key) })
		if r.Limit > 0 && len(out.Entries) > int(r.Limit) {
			out.Entries, out.More = out.Entries[:r.Limit], true
		}
		return out, nil
	})
}
