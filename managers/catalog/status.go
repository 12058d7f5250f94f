package catalog

import (
	"time"

	"github.com/wasmnode/wasmnode/host"
)

// State is the state of a plugin file.
type State string

// The states of a plugin file.
const (
	// StateLoading: found, and being copied, compiled or described.
	StateLoading State = "loading"
	// StateHealthy: in service.
	StateHealthy State = "healthy"
	// StateUnhealthy: loaded, and it or its configuration reports that it cannot
	// work now. It is asked again.
	StateUnhealthy State = "unhealthy"
	// StateRestarting: it faulted and is brought up again after a pause.
	StateRestarting State = "restarting"
	// StateQuarantined: it faulted too often and is left alone until its file is
	// written or touched.
	StateQuarantined State = "quarantined"
	// StateRemoved: its file is gone, or must not have its name any more; tasks that it
	// runs go on.
	StateRemoved State = "removed"
	// StateRejected: the file is not a plugin that this node takes.
	StateRejected State = "rejected"
)

// PluginStatus is what people see of one file in the plugin directory.
type PluginStatus struct {
	// Name, Type and Version are the plugin's own words; empty until it has been
	// described.
	Name    string    `json:"Name"`
	Type    host.Kind `json:"Type"`
	Version string    `json:"Version"`
	State   State     `json:"State"`
	// Reason is why the state is not healthy, or, of a healthy plugin, why a
	// newer content of its file has not taken over. One line.
	Reason string `json:"Reason"`
	// WouldGrant is the configuration without which the plugin cannot be in service, where that is why
	// it is not. These are the node's words; in Reason there may be the plugin's.
	WouldGrant string    `json:"WouldGrant,omitempty"`
	Since      time.Time `json:"Since"` // when State was entered
	// Digest is the SHA-256, in hexadecimal, of the content in charge, or of the
	// content that was rejected when none is.
	Digest string `json:"Digest"`
	// SignedBy is with which key the content in charge is signed; empty: the configuration
	// trusts no key, so that nobody was asked for.
	SignedBy string `json:"SignedBy"`
	// CapabilitiesImported and CapabilitiesGranted are host modules, by name.
	CapabilitiesImported []string `json:"CapabilitiesImported"`
	CapabilitiesGranted  []string `json:"CapabilitiesGranted"`
	File                 string   `json:"File"` // path
	// Stats is what the version in charge did since it was loaded.
	Stats host.Stats `json:"Stats"`
}

// DirectoryStatus is the plugin directory's own state.
type DirectoryStatus struct {
	Path string `json:"Path"`
	// Problem is why the directory cannot be read now; empty: it can. It is
	// tried again, and plugins that were loaded from it stay in service.
	Problem string    `json:"Problem"`
	Since   time.Time `json:"Since"` // when Problem last changed
}

// Description is what a plugin says of itself.
type Description struct {
	Name    string    `json:"Name"`
	Type    host.Kind `json:"Type"`
	Version string    `json:"Version"`
	Digest  string    `json:"Digest"` // SHA-256 of the file, in hexadecimal
	// PluginConfigSchema and TaskConfigSchema are JSON Schema; empty: it takes no configuration.
	PluginConfigSchema string `json:"PluginConfigSchema"`
	TaskConfigSchema   string `json:"TaskConfigSchema"`
}

// Description returns what the plugin in charge of a name says of itself, a driver before a
// device plugin; false: there is none.
func (c *Catalog) Description(name string) (Description, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range []host.Kind{host.KindDriver, host.KindDevice} {
		for _, f := range c.files.byName {
			if f.has(claim{kind, name}) {
				d := f.unit.plugin.Description()
				return Description{
					Name: d.GetName(), Type: kind, Version: d.GetVersion(), Digest: f.content.digest,
					PluginConfigSchema: d.GetPluginConfigSchema(), TaskConfigSchema: d.GetTaskConfigSchema(),
				}, true
			}
		}
	}
	return Description{}, false
}
