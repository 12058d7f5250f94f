package kv_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
	"github.com/wasmnode/wasmnode/sdk/go/kv"
)

// probe is a driver whose fingerprint does something with what it keeps.
type probe struct {
	do func(ctx context.Context) (string, error)
}

func (probe) Describe() *driver.Description {
	return &driver.Description{Name: "probe", Version: "1.0.0"}
}
func (probe) Configure(context.Context, []byte) error { return nil }
func (p *probe) Fingerprint(ctx context.Context) (*driver.Fingerprint, error) {
	said, err := p.do(ctx)
	return &driver.Fingerprint{Health: driver.Healthy, Description: said}, err
}
func (*probe) StartTask(context.Context, *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	return nil, nil, abi.NewError(abi.Unimplemented, "not this one")
}

func TestWhatADriverKeepsIsThereInTheNextCall(t *testing.T) {
	p := &probe{}
	node := drivertest.New(t, func() driver.Driver { return p })
	ask := func(do func(ctx context.Context) (string, error)) (string, error) {
		p.do = do
		f, err := node.Fingerprint()
		if err != nil {
			return "", err
		}
		return f.Description, nil
	}
	var first, second uint64
	_, err := ask(func(ctx context.Context) (_ string, err error) {
		first, err = kv.SetIf(ctx, "a/1", []byte("one"), 0)
		return "", err
	})
	expect.NoError(t, err)
	said, err := ask(func(ctx context.Context) (string, error) {
		value, version, err := kv.Get(ctx, "a/1")
		return fmt.Sprintf("%s %v", value, version == first), err
	})
	expect.NoError(t, err)
	expect.Equal(t, said, "one true")
	_, err = ask(func(ctx context.Context) (_ string, err error) {
		second, err = kv.Set(ctx, "a/1", []byte("two"))
		if err == nil && second == first {
			t.Error("two values have one version")
		}
		return "", err
	})
	expect.NoError(t, err)
	for _, stale := range []func(ctx context.Context) (string, error){
		func(ctx context.Context) (string, error) { return "", kv.DeleteIf(ctx, "a/1", first) },
		func(ctx context.Context) (string, error) { _, err := kv.SetIf(ctx, "a/1", nil, first); return "", err },
		func(ctx context.Context) (string, error) { _, err := kv.SetIf(ctx, "a/1", nil, 0); return "", err },
	} {
		_, err = ask(stale)
		expect.Code(t, err, abi.Aborted)
	}
	said, err = ask(func(ctx context.Context) (string, error) {
		if _, err := kv.Set(ctx, "b", nil); err != nil {
			return "", err
		}
		all, err := kv.List(ctx, "")
		return fmt.Sprintf("%d %s %d %v", len(all), all[0].Key, all[0].Size, all[0].Version == second), err
	})
	expect.NoError(t, err)
	expect.Equal(t, said, "2 a/1 3 true")
	said, err = ask(func(ctx context.Context) (string, error) {
		if err := kv.DeleteIf(ctx, "a/1", second); err != nil {
			return "", err
		}
		if err := kv.Delete(ctx, "a/1"); err != nil {
			return "", err
		}
		_, version, err := kv.Get(ctx, "a/1")
		some, _ := kv.List(ctx, "a")
		return fmt.Sprintf("%d %d", version, len(some)), err
	})
	expect.NoError(t, err)
	expect.Equal(t, said, "0 0")
	for _, key := range []string{"", strings.Repeat("k", 257)} {
		_, err = ask(func(ctx context.Context) (string, error) { _, err := kv.Set(ctx, key, nil); return "", err })
		expect.Code(t, err, abi.InvalidArgument)
	}
	_, err = ask(func(ctx context.Context) (string, error) {
		_, err := kv.Set(ctx, "k", make([]byte, 64<<10+1))
		return "", err
	})
	expect.Code(t, err, abi.InvalidArgument)
}
