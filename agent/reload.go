package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/structs"
)

// reloadable are the keys of the configuration that take effect without a restart.
var reloadable = []string{"client.drivers.allow", "client.drivers.block", "event_log_level", "log_level", "plugin", "require_lock", "require_pinned", "require_signed", "trusted_keys"}

// reloadOn reads the configuration again whenever it is asked to, until ctx is done.
func (a *agent) reloadOn(ctx context.Context, o Options) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.Reload:
			_ = a.reload(o) // it is logged, and a condition
		case answer := <-a.reloads:
			answer <- a.reload(o)
		}
		a.node.RefreshVolumes(ctx)
	}
}

// askReload has the configuration read again, and waits until that is done.
func (a *agent) askReload(ctx context.Context) error {
	answer := make(chan error, 1) // whoever asks may be gone
	select {
	case a.reloads <- answer:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reload puts the configuration in force that is in the files now: the whole of it, or
// nothing when any of it is wrong. What cannot change while the agent runs is named.
func (a *agent) reload(o Options) error {
	const condition = "reload"
	a.service.Reloading()
	defer a.service.Ready()
	cfg, err := load(a.defaults, o)
	var decided catalog.Settings
	if err == nil {
		decided, err = settings(cfg, a.dev)
	}
	if err == nil {
		err = a.catalog.Apply(decided)
	}
	if err != nil {
		text := fmt.Sprintf("the configuration was not reloaded, the one before stays in force: %s", oneLine(err))
		a.logger.Error(text)
		a.conditions.set(structs.Condition{Name: condition, Text: text, Remedy: "mend the configuration, try it with wasmnode config validate, and have it read again: wasmnode operator api -X PUT /v1/agent/reload"})
		a.service.Status(text)
		return err
	}
	a.service.Status("the API answers at " + a.address)
	a.conditions.clear(condition)
	a.node.Refingerprint()
	if a.certificates != nil {
		_ = a.certificates.reload() // it logs, and is a condition of its own
	}
	a.logger.SetLevel(hclog.LevelFromString(cfg.LogLevel))
	a.eventLog.setLevel(cfg.EventLogLevel)
	for _, key := range config.Changes(a.cfg, cfg) {
		if !slices.Contains(reloadable, key) {
			a.logger.Warn("a setting that was changed takes effect after a restart", "key", key)
		}
	}
	a.warn(cfg)
	a.logger.Info("the configuration was reloaded", "changed", config.Changes(a.inForce, cfg))
	a.inForce = cfg
	return nil
}
