package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/toolchain"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginDoctorCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginDoctorCommand) Synopsis() string {
	return "Say what keeps a plugin from being built, loaded or used, and what to type next"
}

// Help implements [subcommand].
func (*pluginDoctorCommand) Help() string {
	return `Usage: wasmnode plugin doctor [options] [FILE]

  Looks at what a plugin needs from its code to a node, and says of each thing whether it
  is well, and what to type where it is not: the machine, the compilers of each language,
  a plugin's file, its grants and its configuration, and the node.

  The exit code is 1 when something is wrong that is needed. With a FILE that is what the
  file needs to be used: a node that runs and has the file is looked for, but need not be
  there. Without one, a compiler: the one of -lang, or else any.

Options:

  -lang=LANGUAGE   Look for the compiler of this language only: assemblyscript, c, go,
                   rust or zig.
  -config=PATH     A file or directory of an agent's configuration: the plugin's block
                   in it has what it is granted and its own configuration.
  -grant=TEXT      What the plugin is granted, as in the grant block of a configuration:
                   'kv { enabled = true }'. It may be given several times.` + commonOptions
}

// diagnosis is what is found of a plugin, and of what it needs.
type diagnosis struct{ agent.Findings }

// Run implements [subcommand].
func (c *pluginDoctorCommand) Run(args []string) int {
	f := c.flags("plugin doctor")
	set := trialFlags(f.FlagSet)
	language := f.String("lang", "", "")
	if !c.parse(f, args, 0, 1, c.Help()) {
		return 1
	}
	if *language != "" && !slices.Contains(toolchain.Languages(), *language) {
		return c.fail(f, fmt.Errorf("-lang %q: there is an SDK for each of %s", *language, strings.Join(toolchain.Languages(), ", ")))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*compileTime)
	defer cancel()
	d := &diagnosis{}
	d.machine()
	d.toolchains(ctx, *language, f.NArg() > 0)
	digest := ""
	if f.NArg() > 0 {
		digest = d.file(ctx, set, f.Arg(0))
	}
	c.node(f, d, f.Arg(0), digest)
	return c.printFindings(f, &d.Findings)
}

// machine looks at what every plugin runs on.
func (d *diagnosis) machine() {
	d.Platform()
	if dir := codeDir(); dir == "" {
		d.Add(agent.FindingWarning, "machine", "cache", "there is no directory for compiled code that you and nobody else can write to, so that each command compiles anew", "export XDG_CACHE_HOME=/a/directory/of/your/own")
	} else {
		d.Add(agent.FindingOK, "machine", "cache", dir, "")
	}
}

// toolchains looks for the compiler of the language, or without one for all. One that is needed is
// that of the language or, without one and without a file, any.
func (d *diagnosis) toolchains(ctx context.Context, language string, hasFile bool) {
	here := toolchain.Here()
	languages := toolchain.Languages()
	if language != "" {
		languages = []string{language}
	}
	var found []toolchain.Finding
	for _, l := range languages {
		found = append(found, toolchain.Check(ctx, here, l))
	}
	none := !slices.ContainsFunc(found, func(f toolchain.Finding) bool { return f.OK })
	for _, f := range append(found, toolchain.Make(here)) {
		status := agent.FindingWarning
		switch {
		case f.OK:
			status = agent.FindingOK
		case f.Name == language, language == "" && none && !hasFile && f.Name != "make":
			status = agent.FindingFailed
		}
		d.Add(status, "toolchain", f.Name, f.Text, f.Next)
	}
}

// file looks at a plugin's file as a node would, and returns its digest; empty: it is no plugin.
func (d *diagnosis) file(ctx context.Context, set *trialSet, file string) string {
	wrong := func(name string, err error, next string) string {
		d.Add(agent.FindingFailed, "file", name, firstLine(err), next)
		return ""
	}
	wasm, err := trial.ReadFile(file)
	if err != nil {
		return wrong("file", err, "wasmnode plugin test DIR")
	}
	spec, err := host.Inspect(wasm, len(wasm))
	if err != nil {
		return wrong("file", err, "wasmnode plugin test DIR")
	}
	d.Add(agent.FindingOK, "file", "file", fmt.Sprintf("a %s plugin, %s, SHA-256 %s", spec.Kind, humanize.IBytes(uint64(spec.Size)), spec.Digest[:12]), "")
	t, err := set.open(ctx, file, trial.Config{}, false)
	if err != nil {
		return wrong("describe", err, "wasmnode plugin conform "+shellWord(file))
	}
	defer t.Close() //nolint:errcheck,contextcheck // it has been looked at, and closing is not given up
	name := t.Plugin().Name()
	d.Add(agent.FindingOK, "file", "describe", strings.TrimSpace(name+" "+t.Plugin().Version()), "")
	if base := strings.TrimSuffix(filepath.Base(file), ".wasm"); base != name {
		d.Add(agent.FindingWarning, "file", "name", "a plugin that an agent's configuration has a block for is in a file of its name", "mv "+shellWord(file)+" "+shellWord(filepath.Join(filepath.Dir(file), name+".wasm")))
	}
	d.configuration(ctx, set, t, file)
	return spec.Digest
}

// configuration looks at a plugin's schemas, its grants and its configuration, and at its own
// word on its health.
func (d *diagnosis) configuration(ctx context.Context, set *trialSet, t *trial.Trial, file string) {
	said := t.Plugin().Description()
	_, err := newPluginSchema(descriptionOf(t.Plugin().Spec(), said))
	if err != nil {
		d.Add(agent.FindingFailed, "file", "schema", firstLine(err), "wasmnode plugin schema "+shellWord(file))
		return
	}
	d.Add(agent.FindingOK, "file", "schema", "those of its configuration can be read", "")
	if err := set.configure(ctx, t); err != nil {
		next := "wasmnode plugin schema -hcl " + shellWord(file)
		for _, need := range t.Plugin().Spec().Needs(said) {
			if strings.Contains(err.Error(), "needs grant "+need.Capability+":") {
				grant, _ := inside(need.Fix)
				next = "wasmnode plugin doctor -grant " + grant + " " + shellWord(file)
			}
		}
		d.Add(agent.FindingFailed, "file", "configure", firstLine(err), next)
		return
	}
	d.Add(agent.FindingOK, "file", "configure", "its grants and its configuration are enough to use it", "")
	status, text := agent.FindingOK, "it says that it can work here"
	if why := unhealthy(ctx, t); why != "" {
		status, text = agent.FindingFailed, why
	}
	d.Add(status, "file", "fingerprint", text, map[string]string{agent.FindingFailed: "wasmnode plugin call " + shellWord(file) + " fingerprint"}[status])
}

// unhealthy is why a plugin cannot work here; empty: it can.
func unhealthy(ctx context.Context, t *trial.Trial) string {
	op := abi.OpDriverFingerprint
	if t.Plugin().Spec().Kind == host.KindDevice {
		op = abi.OpDeviceFingerprint
	}
	r := t.Call(ctx, trial.Call{Op: op})
	if r.Err != nil {
		return firstLine(r.Err)
	}
	if op == abi.OpDeviceFingerprint {
		return ""
	}
	var answer wasmnodev1.DriverFingerprintResponse
	if err := answer.UnmarshalVT(r.Answer); err != nil {
		return "its fingerprint is no message of the contract"
	}
	if answer.Health == wasmnodev1.HealthState_HEALTH_STATE_HEALTHY {
		return ""
	}
	return "it says that it cannot work here: " + cmp.Or(answer.Description, "without a word on why")
}

// node looks at the node, and at what it makes of the file.
func (m meta) node(f *flags, d *diagnosis, file, digest string) {
	var plugins []catalog.PluginStatus
	client, err := m.client(f)
	if err == nil {
		_, err = client.Raw().Query("/v1/agent/plugins", &plugins, nil)
	}
	if err != nil {
		dir := "plugins"
		if file != "" {
			dir = filepath.Dir(file)
		}
		text := firstLine(err)
		if client != nil {
			text = unanswered(f, err)
		}
		d.Add(agent.FindingWarning, "node", "agent", text, "wasmnode agent -dev -plugin-dir "+shellWord(dir))
		return
	}
	d.Add(agent.FindingOK, "node", "agent", fmt.Sprintf("it answers; files of plugins: %d", len(plugins)), "")
	for _, p := range plugins {
		if p.State != catalog.StateHealthy && (digest == "" || p.Digest == digest) {
			d.Add(statusOfPlugin(p, digest), "node", filepath.Base(p.File), fmt.Sprintf("%s: %s", p.State, p.Reason), "wasmnode plugin status")
		}
	}
	if digest == "" {
		return
	}
	has := slices.IndexFunc(plugins, func(p catalog.PluginStatus) bool { return p.Digest == digest })
	switch {
	case has < 0:
		dir := "PLUGIN_DIR/"
		if len(plugins) > 0 {
			dir = shellWord(filepath.Dir(plugins[0].File) + "/")
		}
		d.Add(agent.FindingWarning, "node", "file", "the node does not have this file", "cp "+shellWord(file)+" "+dir)
	case plugins[has].State == catalog.StateHealthy:
		d.Add(agent.FindingOK, "node", "file", "the node uses it", "")
	}
}

// statusOfPlugin is needed of the file that is looked at, and of others a note.
func statusOfPlugin(p catalog.PluginStatus, digest string) string {
	if p.Digest == digest && p.State != catalog.StateLoading {
		return agent.FindingFailed
	}
	return agent.FindingWarning
}

// firstLine is an error on one line.
func firstLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
