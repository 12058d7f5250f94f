// Command dist makes what is published of a commit: archives, packages for Debian and Red Hat,
// images of containers, an inventory of licences, checksums and their signature. The same commit
// gives the same bytes. It is a module of its own: what makes packages does not belong among the
// node's dependencies.
//
// It starts the go command and make, and no other program; nothing needs root.
//
//	go run . -out DIR [-key FILE] [-arch amd64,arm64]
//	go run . -install DIR [-prefix /usr]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// options are those of the command line.
type options struct {
	root    string // of the repository
	out     string // where what is published goes
	install string // or below which directory it is installed
	prefix  string
	key     string // of the signature; empty: there is none
	archs   []string
	release release
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("dist", flag.ContinueOnError)
	f.StringVar(&o.root, "root", "../..", "the repository")
	f.StringVar(&o.out, "out", "", "where what is published goes")
	f.StringVar(&o.install, "install", "", "install for this machine's processor, below this directory")
	f.StringVar(&o.prefix, "prefix", "/usr", "of what is installed")
	f.StringVar(&o.key, "key", "", "the private key of the signature; its password is that of WASMNODE_KEY_PASSWORD")
	archs := f.String("arch", "amd64,arm64", "processors")
	f.StringVar(&o.release.Version, "version", "", "the semantic version")
	f.StringVar(&o.release.Commit, "commit", "", "the commit")
	epoch := f.String("epoch", "", "the time of all files, in seconds since 1970: the commit's")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.archs = strings.Split(*archs, ",")
	seconds, err := strconv.ParseInt(*epoch, 10, 64)
	switch {
	case (o.out == "") == (o.install == ""):
		return nil, fmt.Errorf("one of -out and -install")
	case o.release.Version == "" || err != nil:
		return nil, fmt.Errorf("-version and -epoch are required: make dist gives them")
	}
	o.release.Time = time.Unix(seconds, 0).UTC()
	for _, path := range []*string{&o.root, &o.out, &o.install, &o.key} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// release is what is published.
type release struct {
	Version string // semantic, without a "v"
	Commit  string
	Time    time.Time // of the commit, and of every file
	// The newest schemas of data that it reads.
	ClientSchema, ServerSchema int
}

func run(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	work, err := os.MkdirTemp("", "wasmnode-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := &builder{root: o.root, work: work, release: o.release}
	if o.install != "" {
		t, err := b.tree(ctx, runtime.GOARCH)
		if err != nil {
			return err
		}
		return t.moved(o.prefix).write(o.install)
	}
	if err := b.askSchemas(ctx); err != nil {
		return err
	}
	return publish(ctx, b, o)
}

// publish makes what is published, in a directory that has nothing else in it then.
func publish(ctx context.Context, b *builder, o *options) error {
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, arch := range o.archs {
		t, err := b.tree(ctx, arch)
		if err != nil {
			return err
		}
		for _, make := range []func(tree, release, string, string) error{archive, image, debian, redHat} {
			if err := make(t, b.release, arch, o.out); err != nil {
				return err
			}
		}
		sbom := t.at("/usr/share/doc/wasmnode/sbom.spdx.json")
		if err := os.WriteFile(filepath.Join(o.out, fmt.Sprintf("wasmnode_%s_linux_%s.spdx.json", o.release.Version, arch)), sbom.Content, 0o644); err != nil {
			return err
		}
	}
	if err := sums(o.out); err != nil {
		return err
	}
	return sign(o.out, o.key)
}
