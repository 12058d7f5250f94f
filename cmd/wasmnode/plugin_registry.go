package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginregistry"
)

// registrySet is how a command talks to a registry.
type registrySet struct {
	plain   *bool
	timeout *time.Duration
}

// registryFlags adds the options of a command that talks to a registry.
func registryFlags(f *flag.FlagSet) registrySet {
	return registrySet{f.Bool("plain-http", false, ""), f.Duration("timeout", 5*time.Minute, "")}
}

// registryOptions documents them.
const registryOptions = `  -timeout=5m    How long the registry may take in all.
  -plain-http    Talk to a registry on this machine without TLS.

  Credentials are those of "docker login", or of the variables WASMNODE_REGISTRY_USER and
  WASMNODE_REGISTRY_PASSWORD.`

func (s registrySet) config() pluginregistry.Config {
	return pluginregistry.Config{PlainHTTP: *s.plain, MaxBytes: int64(host.DefaultLimits().FileBytes)}
}

// pull fetches a plugin's file, and reads what it is: nothing of it runs.
func (s registrySet) pull(ctx context.Context, r pluginregistry.Reference) (*pluginregistry.Pulled, error) {
	ctx, cancel := context.WithTimeout(ctx, *s.timeout)
	defer cancel()
	p, err := r.Pull(ctx, s.config())
	if err != nil {
		return nil, err
	}
	if _, err := host.Inspect(p.Wasm, len(p.Wasm)); err != nil {
		return nil, fmt.Errorf("%s%s: %w", pluginregistry.Scheme, r, err)
	}
	return p, nil
}
