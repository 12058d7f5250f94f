// Package plugintest gives tests the mock driver as it is in production: compiled to wasm,
// in the sandbox, behind the catalog and the driver manager. All of that keeps time by the
// clock of the caller of [Dispense], so that it can be a synctest bubble's.
//
// It is for tests only.
package plugintest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/codetest"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/drivers"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/workload/wasi"
)

// compiled is what all tests of a process share: the engine with the plugin's code.
var compiled struct {
	once   sync.Once
	err    error
	dir    string
	engine *sandbox.Engine
}

func codeCache() string { return filepath.Join(compiled.dir, "cache") }

// prepare compiles the plugin, once in a process. It is called outside of any bubble.
func prepare(t testing.TB) {
	t.Helper()
	compiled.once.Do(func() {
		module := guestbuild.Plugin(t, "guest-examples/drivers/mock")
		if compiled.dir, compiled.err = os.MkdirTemp("", "plugged"); compiled.err != nil {
			return
		}
		compiled.err = os.WriteFile(filepath.Join(compiled.dir, "mock.wasm"), module, 0o600)
		if compiled.err == nil {
			codetest.Restore(codeCache())
			compiled.engine, compiled.err = sandbox.Open(sandbox.Config{CacheDir: codeCache()})
		}
	})
	require.NoError(t, compiled.err, "preparing the mock driver")
}

// release gives back what prepare took, if it was called: in TestMain, after the tests.
func release() error {
	if compiled.dir == "" {
		return nil
	}
	var err error
	if compiled.engine != nil {
		err = compiled.engine.Close(context.Background())
		codetest.Save(codeCache())
	}
	return errors.Join(err, os.RemoveAll(compiled.dir))
}

// Dispense returns the drivers of a node that has the mock driver, "mock_driver", and no
// other, once it is healthy. They last as long as the test.
func Dispense(t testing.TB) task.Dispense {
	t.Helper()
	prepare(t)
	log := hclog.NewNullLogger()
	workloads := wasi.New(wasi.Config{Logger: log, Engine: compiled.engine})
	t.Cleanup(func() { require.NoError(t, workloads.Close()) })
	h := host.New(host.Config{Logger: log, Engine: compiled.engine, Workloads: workloads, Version: "0.0.0"})
	plugins, err := catalog.New(catalog.Config{
		Dir: compiled.dir, Logger: log,
		LookEvery: time.Hour, // the kernel's notifications would keep a bubble's clock from moving
		Loader:    catalog.HostLoader{Host: h},
	})
	require.NoError(t, err)
	manager := drivers.New(drivers.Config{
		Catalog: plugins, Workloads: workloads, Logger: log,
	})
	plugins.Start()
	t.Cleanup(func() {
		manager.Shutdown()
		plugins.Shutdown()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	require.NoError(t, manager.WaitForFirstFingerprint(ctx))
	return task.DispenseFrom(manager.Dispense)
}
