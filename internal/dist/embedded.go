package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pageDir is where the files of the node's page are, of which some are parts of others.
const pageDir = "httpapi/ui"

// embedded are the parts of others that the binary has for browsers, as the list of the page names
// them: packages of npm, each with its licence.
func (b *builder) embedded() (all []module, err error) {
	content, err := os.ReadFile(filepath.Join(b.root, pageDir, "parts.json"))
	if err != nil {
		return nil, err
	}
	var parts []struct{ Name, Version, Dir string }
	if err := json.Unmarshal(content, &parts); err != nil {
		return nil, fmt.Errorf("the parts of the page: %w", err)
	}
	for _, p := range parts {
		licence, err := os.ReadFile(filepath.Join(b.root, pageDir, "static", p.Dir, "LICENSE"))
		if err != nil {
			return nil, err
		}
		m := module{Path: p.Name, Version: p.Version, Texts: []text{{"LICENSE", licence}}}
		if m.Licences, err = licencesOf(m.Texts); err != nil {
			return nil, fmt.Errorf("%s %s: %w", p.Name, p.Version, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// purl is how a bill of materials names a module. Names of npm that have an at sign are those of
// an organization; no path of Go begins with one.
func (m module) purl() string {
	version := "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	if of, is := strings.CutPrefix(m.Path, "@"); is {
		return "pkg:npm/%40" + of + version
	}
	return "pkg:golang/" + m.Path + version
}
