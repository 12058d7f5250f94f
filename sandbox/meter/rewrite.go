package meter

import (
	"fmt"

	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

// Version changes whenever the same module is rewritten differently, or the
// meaning of the import changes. It belongs into the key of every cache of
// compiled code.
const Version = "2"

// The import that a metered module has. It is of type () -> i32; the result is the
// fuel until the next call.
const (
	ImportModule = "wasmnode:meter/v1"
	ImportFunc   = "yield"
)

// Options of [Rewrite]; the zero value is what is meant for use.
type Options struct {
	// Template asks for a module whose instances can be copies of one: see
	// [Template].
	Template bool
	// Origins asks for a module in whose stacks the engine tells where each function was: see
	// [Origins].
	Origins bool
}

// Info describes what [Rewrite] wrote.
type Info struct {
	// Segments is how many data segments there are.
	Segments int
	// Template is set when one was asked for and can be had, NoTemplate when not.
	Template   *Template
	NoTemplate error
	// Origins is set when they were asked for.
	Origins *Origins
}

// Rewrite returns the module with fuel metering. It returns an error of type
// [*wasmbin.Error] for a function body that is not structurally valid, exceeds a limit
// of those that the module was decoded with or uses a feature outside them, and one
// that matches [ErrImportsMeter] for a module that claims to be metered. A module of
// the right structure but with type errors is rewritten into one that the engine
// refuses.
//
// Data segments that lie close together are joined, which halves the time that an
// instance of a Go program takes to make. The result behaves as the module does,
// except that growing a table beyond the limit on table elements fails.
func Rewrite(m *wasmbin.Module, opts Options) ([]byte, *Info, error) {
	for _, p := range m.Imports {
		if p.Module == ImportModule {
			return nil, nil, fmt.Errorf("import %q: %w", p.Module+"."+p.Name, ErrImportsMeter)
		}
	}
	info, p := &Info{}, newPass(m)
	for i := range m.Funcs {
		if err := p.function(i); err != nil {
			return nil, nil, err
		}
	}
	if opts.Template {
		info.Template, info.NoTemplate = p.template(m)
	}
	if info.Template == nil && !p.namesSegments {
		p.edit.SetSegments(joinSegments(m))
	}
	p.edit.LimitTables(m.Limits().TableElements)
	if opts.Origins {
		p.tellOffsets()
	}
	out, err := p.edit.Encode()
	if err != nil {
		return nil, nil, err
	}
	info.Segments = p.edit.Segments()
	if opts.Origins {
		info.Origins = &Origins{m: m, starts: p.edit.BodyOffsets()}
	}
	return out, info, nil
}
