package drivers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/catalog/owed"
	"github.com/wasmnode/wasmnode/structs"
)

// Bounds of what a fingerprint puts on the node.
const (
	maxAttributes         = 256
	maxAttributeNameBytes = 128
	maxAttributeBytes     = 1 << 10
)

// plugin is one version of a driver.
type plugin struct {
	*catalog.Unit
	m          *Manager
	taskSchema *configschema.Schema
	networks   owed.Pace // of letting go of those that are owed
	left       sync.Map  // the operations that it leaves to the host, see [Driver.leaves]

	mu   sync.Mutex
	last *wasmnodev1.DriverFingerprintResponse // not changed; nil: none yet
}

// newPlugin returns the driver that a unit is.
func (m *Manager) newPlugin(u *catalog.Unit) (catalog.Kind, error) {
	taskSchema, err := configschema.Compile(u.Plugin().Description().GetTaskConfigSchema())
	if err != nil {
		return nil, fmt.Errorf("describe: task_config_%w", err)
	}
	return &plugin{Unit: u, m: m, taskSchema: taskSchema}, nil
}

// pluginOf returns the driver that a unit of the manager's registry is.
func pluginOf(u *catalog.Unit) *plugin { return u.Kind().(*plugin) }

// Fingerprint implements [catalog.Kind].
func (u *plugin) Fingerprint(ctx context.Context) (catalog.Answer, error) {
	answer := &wasmnodev1.DriverFingerprintResponse{}
	err := u.Plugin().Invoke(ctx, host.Call{
		Op: abi.OpDriverFingerprint, Request: &wasmnodev1.DriverFingerprintRequest{}, Answer: answer,
		Events: func(e *wasmnodev1.TaskEvent) error { return u.m.tasks.event(u.Name(), e) },
	})
	if err != nil {
		return catalog.Answer{}, err
	}
	if answer.Health < wasmnodev1.HealthState_HEALTH_STATE_UNDETECTED || answer.Health > wasmnodev1.HealthState_HEALTH_STATE_HEALTHY {
		return catalog.Answer{}, fmt.Errorf("the answer's health is %d, which is none", answer.Health)
	}
	u.mu.Lock()
	u.last = answer
	u.mu.Unlock()
	healthy := answer.Health == wasmnodev1.HealthState_HEALTH_STATE_HEALTHY
	return catalog.Answer{Healthy: healthy, Text: describe(answer), NextPoll: time.Duration(answer.NextPollMs) * time.Millisecond}, nil
}

// describe is the plugin's own line on its health.
func describe(answer *wasmnodev1.DriverFingerprintResponse) string {
	if text := catalog.Printable(answer.Description); text != "" {
		return text
	}
	switch answer.Health {
	case wasmnodev1.HealthState_HEALTH_STATE_HEALTHY:
		return "Healthy"
	case wasmnodev1.HealthState_HEALTH_STATE_UNDETECTED:
		return "undetected"
	}
	return "unhealthy"
}

// info is the driver's state as the node shows it.
func (u *plugin) info() *structs.DriverInfo {
	health, _ := u.Health()
	u.mu.Lock()
	last := u.last
	u.mu.Unlock()
	info := &structs.DriverInfo{Attributes: map[string]string{}, UpdateTime: time.Now()}
	if last != nil {
		info.Detected = last.Health != wasmnodev1.HealthState_HEALTH_STATE_UNDETECTED
		info.Attributes = u.attributes(last)
		info.HealthDescription = describe(last)
	}
	info.Healthy = health.State == catalog.StateHealthy
	if !info.Healthy && health.Reason != "" {
		info.HealthDescription = health.Reason
	}
	if info.Healthy && info.HealthDescription == "" {
		info.HealthDescription = "Healthy"
	}
	return info
}

// attributes are those of a fingerprint, as text. A driver sets its own attributes only:
// names that are not below "driver.NAME" are left out.
func (u *plugin) attributes(answer *wasmnodev1.DriverFingerprintResponse) map[string]string {
	own := "driver." + u.Name()
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(answer.Attributes)) {
		value := attributeText(answer.Attributes[name])
		switch {
		case name != own && !strings.HasPrefix(name, own+"."):
			u.Logger().Debug("left out an attribute that is not the driver's own", "attribute", catalog.Printable(name))
		case len(all) == maxAttributes || len(name) > maxAttributeNameBytes || len(value) > maxAttributeBytes:
			u.Logger().Debug("left out an attribute beyond the limits", "attribute", catalog.Printable(name))
		default:
			all[catalog.Printable(name)] = catalog.Printable(value)
		}
	}
	return all
}

func attributeText(a *wasmnodev1.Attribute) string {
	var text string
	switch v := a.GetValue().(type) {
	case *wasmnodev1.Attribute_StringValue:
		return v.StringValue
	case *wasmnodev1.Attribute_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *wasmnodev1.Attribute_IntValue:
		text = fmt.Sprint(v.IntValue)
	case *wasmnodev1.Attribute_FloatValue:
		text = fmt.Sprint(v.FloatValue)
	}
	return text + a.GetUnit()
}
