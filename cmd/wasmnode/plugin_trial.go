package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/trial"
)

// trialSet is what a plugin is granted that is tried without a node, and its configuration.
type trialSet struct {
	config *string
	grants list
	file   string // the plugin's
}

// trialFlags adds the options of a command that tries a plugin.
func trialFlags(f *flag.FlagSet) *trialSet {
	s := &trialSet{config: f.String("config", "", "")}
	f.Var(&s.grants, "grant", "")
	return s
}

// open loads a plugin's file, as cfg says, which has no logger yet. Whoever called it closes it.
// The plugin's log is shown, or is not.
func (s *trialSet) open(ctx context.Context, file string, cfg trial.Config, logged bool) (*trial.Trial, error) {
	s.file = file
	wasm, err := trial.ReadFile(file)
	if err != nil {
		return nil, err
	}
	cfg.Logger, cfg.CacheDir, cfg.Version = hclog.NewNullLogger(), codeDir(), agent.Version
	if logged {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: "plugin", Output: os.Stderr, Level: hclog.Info})
	}
	node, err := s.node()
	if err != nil {
		return nil, err
	}
	cfg.Chroot = node.Client.ChrootEnv
	t, err := trial.Open(ctx, wasm, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// systemCodeDir is where root's compiled code is kept when its home is another's, as with sudo.
const systemCodeDir = "/var/cache/wasmnode/code"

// codeDir is where this person's compiled code is kept; empty: nowhere, since there is no
// directory that nobody else can write to.
func codeDir() string {
	var dirs []string
	if dir, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(dir, "wasmnode", "code"))
	}
	if os.Geteuid() == 0 {
		dirs = append(dirs, systemCodeDir)
	}
	for _, dir := range dirs {
		if sandbox.CheckCacheDir(dir) == nil {
			return dir
		}
	}
	return ""
}

// node is the agent's configuration; without -config, what one has by itself.
func (s *trialSet) node() (config.Config, error) {
	c := config.Default()
	if *s.config == "" {
		return c, nil
	}
	err := c.Load(*s.config)
	return c, err
}

// settings are what the plugin of that name is granted and configured with.
func (s *trialSet) settings(name string) (config.Plugin, error) {
	var p config.Plugin
	if *s.config != "" {
		c, err := s.node()
		if err != nil {
			return p, err
		}
		var configured bool
		if p, configured = c.Plugins[name]; !configured {
			return p, fmt.Errorf("%s: it has no block for this plugin: add plugin %q { }", *s.config, name)
		}
	}
	for _, text := range s.grants {
		if err := p.Permit("-grant", text); err != nil {
			return p, err
		}
	}
	return p, nil
}

// configure grants the plugin what was asked for, and hands it its configuration. An error
// says which option is missing.
func (s *trialSet) configure(ctx context.Context, t *trial.Trial) error {
	p, err := s.settings(t.Plugin().Name())
	if err != nil {
		return err
	}
	return s.explain(t, t.Configure(ctx, p.Grant, p.Config))
}

// configurePlayed is configure for a plugin whose capabilities are recorded ones. Of what is
// granted, files are real.
func (s *trialSet) configurePlayed(t *trial.Trial) error {
	p, err := s.settings(t.Plugin().Name())
	if err != nil {
		return err
	}
	return s.explain(t, t.ConfigurePlayed(p.Grant.FS, p.Config))
}

// explain says which option is missing.
func (s *trialSet) explain(t *trial.Trial, err error) error {
	var missing *host.MissingGrantError
	var faults *configschema.FaultsError
	switch {
	case errors.As(err, &missing):
		grant, more := inside(missing.Fix)
		return fmt.Errorf("%s needs grant %s: add -grant %s%s", s.file, missing.Capability, grant, more)
	case errors.As(err, &faults):
		return fmt.Errorf("%w (set it in plugin %q { config { } }, in a file that -config names)", err, t.Plugin().Name())
	case err != nil:
		return fmt.Errorf("configure: %w", err)
	}
	return nil
}

// inside is what a configuration that a message tells to add has in the plugin's grant block, as
// a word of the shell's, and what the message says of it; empty: it tells of none.
func inside(message string) (grant, more string) {
	_, text, ok := strings.Cut(message, "{ grant { ")
	end := strings.LastIndex(text, " } }")
	if !ok || end < 0 {
		return "", ""
	}
	return shellWord(text[:end]), text[end+len(" } }"):]
}
