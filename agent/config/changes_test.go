package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChangesAreNamedByTheirKeys(t *testing.T) {
	a := Default()
	require.Empty(t, Changes(a, Default()))
	b := Default()
	b.LogLevel, b.HTTPPort = "debug", 1
	b.Client.GCInterval, b.Client.Artifact.Timeout, b.Client.BlockedDrivers = time.Second, time.Second, []string{"x"}
	b.Plugins = map[string]Plugin{"x": {File: "y.wasm"}}
	require.Equal(t, []string{"client.artifact.timeout", "client.drivers.block", "client.gc_interval", "log_level", "plugin", "ports.http"}, Changes(a, b))
}

func TestEverySettingHasItsKey(t *testing.T) {
	var keyed func(of reflect.Type)
	keyed = func(of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			require.NotEmpty(t, f.Tag.Get("key"), "%s.%s: without it, a change of it is named by its Go name", of.Name(), f.Name)
			if f.Type.Kind() == reflect.Struct {
				keyed(f.Type)
			}
		}
	}
	keyed(reflect.TypeOf(Config{}))
}
