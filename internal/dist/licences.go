package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is one that is compiled into what is published.
type module struct {
	Path, Version string
	Licences      []string // their identifiers in SPDX, sorted; at least one
	Texts         []text   // sorted by name
}

// text is a file that has to go with what is compiled of a module.
type text struct {
	Name    string // its path from the module's directory
	Content []byte
}

// standard is how the inventory calls what comes with the compiler.
const standard = "std"

// listedPackage is what the go command tells of a package.
type listedPackage struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Version, Dir, GoVersion string
		Main                          bool
	}
}

// modules are all that the binary for a processor and the plugins are compiled of, but for our
// own, sorted by path. One whose licence is not found, or not known, is an error.
func (b *builder) modules(ctx context.Context, arch string) ([]module, error) {
	var list []listedPackage
	examples := []string{"./guest-examples/programs/wordcount"}
	for name, kind := range plugins {
		examples = append(examples, "./guest-examples/"+kind+"/"+name)
	}
	for _, of := range []struct {
		os, arch string
		packages []string
	}{{"linux", arch, []string{"./cmd/wasmnode"}}, {"wasip1", "wasm", examples}} {
		out, err := b.run(ctx, []string{"GOOS=" + of.os, "GOARCH=" + of.arch, "CGO_ENABLED=0"},
			"go", append([]string{"list", "-deps", "-json=Dir,Standard,Module"}, of.packages...)...)
		if err != nil {
			return nil, err
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p listedPackage
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			list = append(list, p)
		}
	}
	out, err := b.run(ctx, nil, "go", "env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	goroot, goversion, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return inventory(list, goroot, goversion)
}

// inventory finds the licences of the modules that packages are of: in the packages' directories
// and those above, up to the module's.
func inventory(list []listedPackage, goroot, goversion string) ([]module, error) {
	found, dirs := map[string]*module{}, map[string]string{}
	texts := map[string]map[string][]byte{} // by module and name
	for _, p := range list {
		path, version, top := standard, goversion, goroot
		switch {
		case p.Standard:
			p.Dir = goroot
		case p.Module == nil:
			return nil, fmt.Errorf("%s is of no module", p.Dir)
		case p.Module.Main:
			continue
		default:
			path, version, top = p.Module.Path, p.Module.Version, p.Module.Dir
		}
		if found[path] == nil {
			found[path], texts[path], dirs[path] = &module{Path: path, Version: version}, map[string][]byte{}, top
		}
		for dir := p.Dir; ; dir = filepath.Dir(dir) {
			if err := addTexts(texts[path], dir, top); err != nil {
				return nil, err
			}
			if dir == top || len(dir) <= len(top) {
				break
			}
		}
	}
	for path, m := range found {
		for _, name := range slices.Sorted(maps.Keys(texts[path])) {
			m.Texts = append(m.Texts, text{name, texts[path][name]})
		}
		var err error
		if m.Licences, err = licencesOf(m.Texts); err != nil {
			return nil, fmt.Errorf("%s %s, in %s: %w", path, m.Version, dirs[path], err)
		}
	}
	var all []module
	for _, m := range found {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b module) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

// legal are the names of files that go with a module. Those of notices are no licences, and what
// documentation has is not compiled.
var (
	legal  = regexp.MustCompile(`(?i)^(licen[sc]es?|copying|copyright|unlicense|notices?|patents)([.-].*)?$`)
	ofDocs = regexp.MustCompile(`(?i)\.docs$`)
	notice = regexp.MustCompile(`(?i)^(notices?|patents)([.-].*)?$`)
)

// addTexts adds the files of a directory that go with a module.
func addTexts(texts map[string][]byte, dir, top string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !legal.MatchString(e.Name()) || !e.Type().IsRegular() || ofDocs.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		at := filepath.Join(dir, e.Name())
		name, err := filepath.Rel(top, at)
		if err != nil {
			return err
		}
		if texts[name], err = os.ReadFile(at); err != nil {
			return err
		}
	}
	return nil
}

// licences are known by words of theirs, in SPDX's names.
var licences = []struct{ id, words, without string }{
	{"Apache-2.0", "Apache License Version 2.0", ""},
	{"Apache-2.0", "Licensed under the Apache License, Version 2.0", ""},
	{"MPL-2.0", "Mozilla Public License, version 2.0", ""},
	{"MPL-2.0", "Mozilla Public License Version 2.0", ""},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy", ""},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose", ""},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose", ""},
	{"BSD-3-Clause", "used to endorse or promote products derived from", ""},
	{"BSD-2-Clause", "Redistribution and use in source and binary forms", "to endorse or promote"},
	{"Unlicense", "This is free and unencumbered software released into the public domain", ""},
	{"CC0-1.0", "CC0 1.0 Universal", ""},
}

// licencesOf are the identifiers of a module's licences. A file that is none that is known is an
// error, and so is a module without one.
func licencesOf(texts []text) ([]string, error) {
	ids := map[string]bool{}
	for _, t := range texts {
		if notice.MatchString(filepath.Base(t.Name)) {
			continue
		}
		plain, known := strings.Join(strings.Fields(string(t.Content)), " "), false
		for _, l := range licences {
			if strings.Contains(plain, l.words) && (l.without == "" || !strings.Contains(plain, l.without)) {
				ids[l.id], known = true, true
			}
		}
		if !known {
			return nil, fmt.Errorf("%s is no licence that is known here: read it, and add it to licences.go if what is published may have it", t.Name)
		}
	}
	if len(ids) == 0 {
		return nil, errors.New("there is no licence: what is published may not have it")
	}
	return slices.Sorted(maps.Keys(ids)), nil
}

// copyright is the inventory for people: our own licence, a list, and all texts.
func copyright(own []byte, modules []module) []byte {
	var b bytes.Buffer
	const line = "--------------------------------------------------------------------------------\n"
	fmt.Fprintf(&b, "wasmnode is licensed under the Mozilla Public License 2.0, at the end of this file.\nIts source is at https://github.com/wasmnode/wasmnode\n\n"+
		"The binary and the plugins have these in them, with the licences behind them:\n\n")
	for _, m := range modules {
		fmt.Fprintf(&b, "  %s %s: %s\n", m.Path, m.Version, strings.Join(m.Licences, ", "))
	}
	for _, m := range modules {
		for _, t := range m.Texts {
			fmt.Fprintf(&b, "\n%s%s %s: %s\n\n%s\n", line, m.Path, m.Version, filepath.ToSlash(t.Name), bytes.TrimSpace(t.Content))
		}
	}
	fmt.Fprintf(&b, "\n%swasmnode: LICENSE\n\n%s", line, own)
	return b.Bytes()
}
