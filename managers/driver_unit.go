package managers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/structs"
)

// Bounds of what a fingerprint puts on the node.
const (
	maxAttributes         = 256
	maxAttributeNameBytes = 128
	maxAttributeBytes     = 1 << 10
)

// driverUnit is one version of a driver.
type driverUnit struct {
	*unit
	m          *DriverManager
	taskSchema *configschema.Schema
	last       *wasmnodev1.DriverFingerprintResponse // guarded by the unit's mu; nil: none yet
}

func newDriverUnit(m *DriverManager, c candidate) (*driverUnit, error) {
	u, err := newUnit(&m.fleet, c)
	if err != nil {
		return nil, err
	}
	d := &driverUnit{unit: u, m: m}
	u.kind = d
	if d.taskSchema, err = configschema.Compile(c.plugin.Description().GetTaskConfigSchema()); err != nil {
		return nil, fmt.Errorf("describe: task_config_%w", err)
	}
	return d, nil
}

// driverOf returns the driver that a unit of the driver manager's fleet is.
func driverOf(u *unit) *driverUnit { return u.kind.(*driverUnit) }

// fingerprint implements kind.
func (u *driverUnit) fingerprint(ctx context.Context) (answered, error) {
	answer := &wasmnodev1.DriverFingerprintResponse{}
	err := u.plugin.Call(ctx, Call{Op: abi.OpDriverFingerprint, Request: &wasmnodev1.DriverFingerprintRequest{}, Answer: answer})
	if err != nil {
		return answered{}, err
	}
	if answer.Health < wasmnodev1.HealthState_HEALTH_STATE_UNDETECTED || answer.Health > wasmnodev1.HealthState_HEALTH_STATE_HEALTHY {
		return answered{}, fmt.Errorf("the answer's health is %d, which is none", answer.Health)
	}
	u.mu.Lock()
	u.last = answer
	u.mu.Unlock()
	healthy := answer.Health == wasmnodev1.HealthState_HEALTH_STATE_HEALTHY
	return answered{healthy: healthy, text: describe(answer), next: time.Duration(answer.NextPollMs) * time.Millisecond}, nil
}

// attend implements kind: there is nothing more to do.
func (u *driverUnit) attend(context.Context) {}

// describe is the plugin's own line on its health.
func describe(answer *wasmnodev1.DriverFingerprintResponse) string {
	if text := printable(answer.Description); text != "" {
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
func (u *driverUnit) info() *structs.DriverInfo {
	u.mu.Lock()
	defer u.mu.Unlock()
	info := &structs.DriverInfo{Attributes: map[string]string{}, UpdateTime: time.Now()}
	if u.last != nil {
		info.Detected = u.last.Health != wasmnodev1.HealthState_HEALTH_STATE_UNDETECTED
		info.Attributes = u.attributes(u.last)
		info.HealthDescription = describe(u.last)
	}
	info.Healthy = u.life.state == StateHealthy
	if !info.Healthy && u.life.reason != "" {
		info.HealthDescription = u.life.reason
	}
	if info.Healthy && info.HealthDescription == "" {
		info.HealthDescription = "Healthy"
	}
	return info
}

// attributes are those of a fingerprint, as text. A driver speaks for itself only:
// names that are not below "driver.NAME" are left out.
func (u *driverUnit) attributes(answer *wasmnodev1.DriverFingerprintResponse) map[string]string {
	own := "driver." + u.name
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(answer.Attributes)) {
		value := attributeText(answer.Attributes[name])
		switch {
		case name != own && !strings.HasPrefix(name, own+"."):
			u.logger.Debug("left out an attribute that is not the driver's own", "attribute", printable(name))
		case len(all) == maxAttributes || len(name) > maxAttributeNameBytes || len(value) > maxAttributeBytes:
			u.logger.Debug("left out an attribute beyond the limits", "attribute", printable(name))
		default:
			all[printable(name)] = printable(value)
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
