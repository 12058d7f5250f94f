package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

const (
	// maxMetadata bounds the section of a file's metadata, in bytes.
	maxMetadata = 4 << 10
	// maxMetadataText bounds each text in it.
	maxMetadataText = 256
)

// Metadata is what a plugin's file says of itself, for people and for registries: the custom
// section [abi.SectionMetadata], a JSON object. Each may be missing. Only MinABI decides
// anything.
type Metadata struct {
	Name    string `json:"name,omitempty"`    // as the plugin describes itself
	Version string `json:"version,omitempty"` // likewise
	License string `json:"license,omitempty"` // such as "MPL-2.0"
	Source  string `json:"source,omitempty"`  // where its source is
	// MinABI is the oldest version of the ABI that has all that the plugin relies on, as
	// "1.0": a node of an older one refuses the file.
	MinABI string `json:"min_abi,omitempty"`
}

// readMetadata returns what a file says of itself; nil: nothing.
func readMetadata(m *scan.Module) (*Metadata, error) {
	var out *Metadata
	for _, c := range m.Customs {
		switch {
		case c.Name != abi.SectionMetadata:
			continue
		case out != nil:
			return nil, fmt.Errorf("section %s is there twice", abi.SectionMetadata)
		}
		var err error
		if out, err = parseMetadata(m.Binary.Content(c)); err != nil {
			return nil, fmt.Errorf("section %s: %w", abi.SectionMetadata, err)
		}
	}
	return out, nil
}

// parseMetadata reads a section. What it does not know is left out: an older node reads what a
// newer one writes.
func parseMetadata(section []byte) (*Metadata, error) {
	if len(section) > maxMetadata {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(section), maxMetadata)
	}
	m := &Metadata{}
	if !bytes.HasPrefix(bytes.TrimLeft(section, " \t\r\n"), []byte("{")) {
		return nil, errors.New("it is not a JSON object")
	}
	if err := json.Unmarshal(section, m); err != nil {
		return nil, errors.New(plaintext.Line(err.Error(), maxMetadataText))
	}
	return m, m.check()
}

// check reports a text that is not one of metadata.
func (m *Metadata) check() error {
	for _, t := range []struct{ name, text string }{
		{"name", m.Name}, {"version", m.Version}, {"license", m.License}, {"source", m.Source}, {"min_abi", m.MinABI},
	} {
		if len(t.text) > maxMetadataText {
			return fmt.Errorf("%s has %d bytes, at most %d are allowed", t.name, len(t.text), maxMetadataText)
		}
		if plaintext.Line(t.text, maxMetadataText) != t.text {
			return fmt.Errorf("%s has what is not printable: %s", t.name, plaintext.Line(t.text, maxMetadataText))
		}
	}
	_, _, err := m.minABI()
	return err
}

// minABI returns the version of the ABI that is needed; 0.0: any.
func (m *Metadata) minABI() (major, minor int, err error) {
	if m.MinABI == "" {
		return 0, 0, nil
	}
	number := func(s string) int {
		n, failed := strconv.ParseUint(s, 10, 16)
		if failed != nil || strconv.FormatUint(n, 10) != s {
			err = fmt.Errorf("min_abi %q is not a version of the ABI, such as %q", m.MinABI, abiVersion())
		}
		return int(n)
	}
	a, b, _ := strings.Cut(m.MinABI, ".")
	return number(a), number(b), err
}

// abiVersion is the version of the ABI that this node has.
func abiVersion() string { return fmt.Sprintf("%d.%d", abi.Major, abi.Minor) }

// checkABI refuses a plugin that needs another version of the ABI than this node has.
func (m *Metadata) checkABI() error {
	if m == nil {
		return nil
	}
	major, minor, err := m.minABI()
	if err != nil || m.MinABI == "" || major == abi.Major && minor <= abi.Minor {
		return err
	}
	return fmt.Errorf("the plugin needs version %s of the plugin ABI, this node has %s: take a newer node, or a plugin that is built for this one", m.MinABI, abiVersion())
}

// agrees reports a name or version that is not the one that the plugin describes itself with.
func (m *Metadata) agrees(name, version string) error {
	switch {
	case m == nil:
	case m.Name != "" && m.Name != name:
		return fmt.Errorf("its metadata calls it %q, describe answers %q: write it anew with wasmnode plugin annotate", m.Name, name)
	case m.Version != "" && m.Version != version:
		return fmt.Errorf("plugin %s: its metadata says version %q, describe answers %q: write it anew with wasmnode plugin annotate", name, m.Version, version)
	}
	return nil
}

// Annotate returns a plugin's file with metadata, in the place of what it has. Everything else
// in it stays as it is, and the same input gives the same file.
func Annotate(wasm []byte, m Metadata) ([]byte, error) {
	section, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if _, err := parseMetadata(section); err != nil {
		return nil, err
	}
	return wasmbin.SetCustom(wasm, abi.SectionMetadata, section)
}
