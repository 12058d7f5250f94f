package agent

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/internal/readtest"
)

// What the configuration file can say is read by the agent: a key that is taken and then
// ignored would be believed.
func TestEveryKeyOfTheConfigurationIsActedOn(t *testing.T) {
	if testing.Short() {
		t.Skip("it type-checks the agent")
	}
	const module = "github.com/wasmnode/wasmnode/"
	reads := readtest.Fields(t, module+"agent/config", []string{module + "agent"})
	// What the configuration itself refuses or warns by is acted on before the agent has it.
	for name, by := range readtest.Fields(t, module+"agent/config", []string{module + "agent/config"}) {
		if name == "Config.RequireSigned" || name == "Server.Enabled" {
			reads[name] = by
		}
	}
	seen := map[reflect.Type]bool{}
	var each func(of reflect.Type)
	each = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || of.PkgPath() != module+"agent/config" || seen[of] {
			return
		}
		seen[of] = true
		for f := range of.Fields() {
			name := of.Name() + "." + f.Name
			assert.NotEmpty(t, reads[name], "%s is taken and nobody reads it", name)
			each(f.Type)
		}
	}
	each(reflect.TypeFor[config.Config]())
}
