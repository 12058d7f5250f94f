package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// packaging has the files of packages that are written by hand.
//
//go:embed packaging
var packaging embed.FS

func packaged(name string) []byte {
	content, err := packaging.ReadFile("packaging/" + name)
	if err != nil {
		panic(err) // it is part of this program
	}
	return content
}

// plugins are those of the examples that are of use on a node, by their folders.
var plugins = map[string]string{
	"docker": "drivers", "exec": "drivers", "java": "drivers", "qemu": "drivers", "raw_exec": "drivers", "wasi": "drivers",
	"gpu": "devices", "usb": "devices",
}

// builder compiles what is published.
type builder struct {
	root, work string
	release    release

	examples string            // the directory of what runs on any processor; empty: not built yet
	binaries map[string]string // by processor
	commands []command         // of the binary; nil: not asked yet
}

// tree is all that is installed on a machine with that processor.
func (b *builder) tree(ctx context.Context, arch string) (tree, error) {
	var t tree
	binary, err := b.binary(ctx, arch)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	t.add("/usr/bin/wasmnode", 0o755, content)
	t.addUnits()
	for _, add := range []func(context.Context, *tree, string) error{b.addExamples, b.addManual, b.addDocuments} {
		if err := add(ctx, &t, arch); err != nil {
			return nil, err
		}
	}
	return t.sorted(), nil
}

// addUnits adds what the machine's service manager and shells read, and the configuration.
func (t *tree) addUnits() {
	for path, name := range map[string]string{
		"/usr/lib/systemd/system/wasmnode.service":                 "wasmnode.service",
		"/usr/lib/systemd/system/wasmnode-compile.service":         "wasmnode-compile.service",
		"/usr/lib/sysusers.d/wasmnode.conf":                        "sysusers.conf",
		"/usr/lib/tmpfiles.d/wasmnode.conf":                        "tmpfiles.conf",
		"/usr/share/wasmnode/hardened.conf":                        "hardened.conf",
		"/usr/share/bash-completion/completions/wasmnode":          "completion.bash",
		"/usr/share/zsh/site-functions/_wasmnode":                  "completion.zsh",
		"/usr/share/fish/vendor_completions.d/wasmnode.completion": "completion.fish",
	} {
		t.add(strings.Replace(path, "wasmnode.completion", "wasmnode.fish", 1), 0o644, packaged(name))
	}
	t.addConfig("/etc/wasmnode/wasmnode.hcl", packaged("wasmnode.hcl"))
	t.addConfig("/etc/wasmnode/environment", packaged("environment"))
}

// binary compiles the node, without C and without a path of this machine in it.
func (b *builder) binary(ctx context.Context, arch string) (string, error) {
	if at := b.binaries[arch]; at != "" {
		return at, nil
	}
	at := filepath.Join(b.work, "wasmnode-"+arch)
	const variables = "github.com/wasmnode/wasmnode/agent."
	flags := fmt.Sprintf("-s -w -X %sVersion=%s -X %sCommit=%s", variables, b.release.Version, variables, b.release.Commit)
	if _, err := b.run(ctx, []string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0"},
		"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", at, "./cmd/wasmnode"); err != nil {
		return "", err
	}
	if b.binaries == nil {
		b.binaries = map[string]string{}
	}
	b.binaries[arch] = at
	return at, nil
}

// addExamples adds the plugins, and a job to try with what it runs.
func (b *builder) addExamples(ctx context.Context, t *tree, _ string) error {
	if b.examples == "" {
		at := filepath.Join(b.work, "examples")
		targets := []string{"-s", "-C", "guest-examples", "OUT=" + at, "go-program-wordcount"}
		for name, kind := range plugins {
			targets = append(targets, fmt.Sprintf("go-%s-%s", map[string]string{"drivers": "plugin", "devices": "device"}[kind], name))
		}
		if _, err := b.run(ctx, nil, "make", targets...); err != nil {
			return err
		}
		b.examples = at
	}
	for name := range plugins {
		if err := t.addFile("/usr/share/wasmnode/plugins/"+name+".wasm", filepath.Join(b.examples, "plugins", name+".wasm")); err != nil {
			return err
		}
	}
	for to, from := range map[string]string{
		"programs/wordcount.wasm":  filepath.Join(b.examples, "programs", "wordcount.wasm"),
		"programs/texts/ferry.txt": filepath.Join(b.root, "guest-examples", "programs", "texts", "ferry.txt"),
	} {
		if err := t.addFile("/usr/share/wasmnode/"+to, from); err != nil {
			return err
		}
	}
	job, err := os.ReadFile(filepath.Join(b.root, "guest-examples", "jobs", "hello.nomad.hcl"))
	if err != nil {
		return err
	}
	installed := strings.NewReplacer("/opt/wasmnode", "/usr/share/wasmnode", " -var programs=$PWD/bin/programs guest-examples/jobs/", " /usr/share/wasmnode/jobs/")
	t.add("/usr/share/wasmnode/jobs/hello.nomad.hcl", 0o644, []byte(installed.Replace(string(job))))
	return nil
}

func (t *tree) addFile(path, from string) error {
	content, err := os.ReadFile(from)
	if err == nil {
		t.add(path, 0o644, content)
	}
	return err
}

// addDocuments adds what a package has to tell: licences of all that is in it, and what changed.
func (b *builder) addDocuments(ctx context.Context, t *tree, arch string) error {
	const docs = "/usr/share/doc/wasmnode/"
	modules, err := b.modules(ctx, arch)
	if err != nil {
		return err
	}
	parts, err := b.embedded()
	if err != nil {
		return err
	}
	modules = append(modules, parts...)
	bill, err := spdxJSON(b.release, arch, modules)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(b.root, "LICENSE"))
	if err != nil {
		return err
	}
	t.add(docs+"copyright", 0o644, copyright(licence, modules))
	t.add(docs+"sbom.spdx.json", 0o644, bill)
	for _, name := range []string{"alerts.yml", "dashboard.json"} {
		if err := t.addFile("/usr/share/wasmnode/monitoring/"+name, filepath.Join(b.root, "docs/monitoring", name)); err != nil {
			return err
		}
	}
	return t.addFile(docs+"CHANGELOG.md", filepath.Join(b.root, "CHANGELOG.md"))
}

// run returns what a command prints that is started in the repository.
func (b *builder) run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-buildvcs=false")
	cmd.Env = append(cmd.Env, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, stderr.Bytes())
	}
	return out, nil
}

// native is the binary for this machine, which is asked for its commands.
func (b *builder) native(ctx context.Context) (string, error) { return b.binary(ctx, runtime.GOARCH) }

// askSchemas asks the binary which data it reads.
func (b *builder) askSchemas(ctx context.Context) error {
	binary, err := b.native(ctx)
	if err != nil {
		return err
	}
	out, err := b.run(ctx, nil, binary, "version", "-json")
	if err != nil {
		return err
	}
	var told struct{ ClientSchema, ServerSchema int }
	if err := json.Unmarshal(out, &told); err != nil {
		return err
	}
	if told.ClientSchema < 1 || told.ServerSchema < 1 {
		return fmt.Errorf("%s does not tell which data it reads: %s", binary, out)
	}
	b.release.ClientSchema, b.release.ServerSchema = told.ClientSchema, told.ServerSchema
	return nil
}
