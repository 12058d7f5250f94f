package meter

import (
	"errors"
	"fmt"

	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

// Template is what [Rewrite] takes out of a module so that its instances can begin
// as copies of one that has begun already: the data, and a way to the globals.
type Template struct {
	// Image is what the memory begins with.
	Image []byte
	// Globals are the names under which the mutable globals are exported, the fuel
	// counter excepted.
	Globals []string
}

// maxImage bounds the memory that a template begins with, in bytes.
const maxImage = 64 << 20

// globalPrefix begins the names of the exports that a template adds.
const globalPrefix = "wasmnode:global/"

// template makes the module one for a template, or returns why it cannot be: all state
// that its functions can change has to be in its memory and its numeric globals.
func (p *pass) template(m *wasmbin.Module) (*Template, error) {
	switch {
	case m.Memory == nil:
		return nil, errors.New("it has no memory of its own")
	case uint64(m.Memory.Min)<<pageShift > maxImage:
		return nil, fmt.Errorf("its memory begins with more than %d bytes", maxImage)
	case m.Start >= 0:
		return nil, errors.New("it has a start function")
	case p.namesSegments:
		return nil, errors.New("it names its data segments")
	case p.changesTables:
		return nil, errors.New("it changes its tables")
	}
	if err := noSharedState(m.Imports); err != nil {
		return nil, err
	}
	t := &Template{Image: make([]byte, uint64(m.Memory.Min)<<pageShift)}
	for _, s := range m.Segments() {
		at, ok := s.At()
		if !ok || uint64(at)+uint64(len(s.Init)) > uint64(len(t.Image)) {
			return nil, errors.New("its data has no constant place within the memory")
		}
		copy(t.Image[at:], s.Init)
	}
	exports, err := exportGlobals(m)
	if err != nil {
		return nil, err
	}
	for _, x := range exports {
		t.Globals = append(t.Globals, x.Name)
		p.edit.AddExport(x)
	}
	p.edit.SetSegments(nil)
	return t, nil
}

func noSharedState(imports []wasmbin.Import) error {
	for _, i := range imports {
		if i.Table != nil || i.Memory != nil || i.Global != nil && i.Global.Mutable {
			return fmt.Errorf("it shares state: the import %s.%s", i.Module, i.Name)
		}
	}
	return nil
}

// exportGlobals returns an export for each mutable global of the module's own.
func exportGlobals(m *wasmbin.Module) ([]wasmbin.Export, error) {
	index := uint32(0)
	for _, i := range m.Imports {
		if i.Global != nil {
			index++
		}
	}
	taken := map[string]bool{}
	for _, x := range m.Exports {
		taken[x.Name] = true
	}
	var exports []wasmbin.Export
	for i, g := range m.Globals {
		if !g.Mutable {
			continue
		}
		name := fmt.Sprintf("%s%d", globalPrefix, i)
		if !g.Type.Numeric() {
			return nil, fmt.Errorf("it has a mutable global of type %v", g.Type)
		}
		if taken[name] {
			return nil, fmt.Errorf("it exports %q itself", name)
		}
		exports = append(exports, wasmbin.Export{Name: name, Kind: wasmbin.KindGlobal, Index: index + uint32(i)})
	}
	return exports, nil
}
