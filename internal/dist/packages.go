package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers itself
)

const description = `Node agent whose drivers are sandboxed
Runs jobs in the manner of HashiCorp Nomad: job files, HTTP API and command line
are Nomad's. Task drivers and device plugins are WebAssembly modules that may do
what they are granted, and nothing else.`

func debian(t tree, r release, arch, out string) error { return pack("deb", t, r, arch, out) }

func redHat(t tree, r release, arch, out string) error { return pack("rpm", t, r, arch, out) }

// pack makes a package of a tree, with the scripts that run when it comes and goes.
func pack(format string, t tree, r release, arch, out string) error {
	work, err := os.MkdirTemp("", "wasmnode-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := t.write(filepath.Join(work, "tree")); err != nil {
		return err
	}
	info := &nfpm.Info{
		Name: "wasmnode", Arch: arch, Platform: "linux", Version: r.Version, Release: "1", Section: "admin", Priority: "optional",
		Maintainer: "The wasmnode maintainers <wasmnode@users.noreply.github.com>", Vendor: "wasmnode", Description: description,
		Homepage: "https://github.com/wasmnode/wasmnode", License: "MPL-2.0", DisableGlobbing: true, MTime: r.Time,
	}
	info.RPM.BuildHost, info.RPM.Summary = "localhost", strings.SplitN(description, "\n", 2)[0]
	for _, f := range t {
		kind := files.TypeFile
		if f.Config {
			kind = files.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, &files.Content{
			Source: filepath.Join(work, "tree", f.Path), Destination: f.Path, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.Mode, MTime: r.Time},
		})
	}
	for _, dir := range t.ownDirectories() { // rpm leaves those that no package has
		info.Contents = append(info.Contents, &files.Content{
			Destination: dir, Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: r.Time},
		})
	}
	if err := addScripts(info, r, format, work); err != nil {
		return err
	}
	return writePackage(format, info, out)
}

// addScripts adds what runs when a package comes and goes.
func addScripts(info *nfpm.Info, r release, format, work string) error {
	s := &info.Scripts
	for name, to := range map[string]*string{"preinst": &s.PreInstall, "postinst": &s.PostInstall, "prerm": &s.PreRemove, "postrm": &s.PostRemove, "templates": &info.Deb.Scripts.Templates} {
		if name == "templates" && format != "deb" {
			continue
		}
		*to = filepath.Join(work, name)
		if err := os.WriteFile(*to, []byte(filled(name, r)), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// filled is a script that knows what its package reads.
func filled(name string, r release) string {
	return strings.NewReplacer("@CLIENT_SCHEMA@", strconv.Itoa(r.ClientSchema), "@SERVER_SCHEMA@", strconv.Itoa(r.ServerSchema),
		"@VERSION@", r.Version).Replace(string(packaged(name)))
}

// writePackage writes a package under the name that its kind has.
func writePackage(format string, info *nfpm.Info, out string) error {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return fmt.Errorf("%s: %w", format, err)
	}
	return os.WriteFile(filepath.Join(out, packager.ConventionalFileName(info)), b.Bytes(), 0o644)
}
