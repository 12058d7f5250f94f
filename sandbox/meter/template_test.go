package meter_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/sandbox/meter"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
)

// stateful is a module with data and globals, changed as a test wants it.
func stateful(change func(*w.Program)) []byte {
	p := function(0, "")
	p.Globals = []string{"\x7f\x01\x41\x07\x0b", "\x7f\x00\x41\x01\x0b", "\x7e\x01\x42\x03\x0b"}
	p.Data = []string{segment(2, "abc"), segment(3, "z")}
	change(&p)
	return w.Build(p)
}

func TestATemplateHasTheDataOutsideAndTheGlobalsOpen(t *testing.T) {
	b := stateful(func(*w.Program) {})
	out, info, err := rewriteWithin(b, wasmbin.Limits{}, meter.Options{Template: true})
	require.NoError(t, err)
	require.NoError(t, info.NoTemplate)
	require.Zero(t, info.Segments)
	require.Len(t, info.Template.Image, 1<<16)
	require.Equal(t, "\x00\x00azc\x00", string(info.Template.Image[:6]), "the later segment wins")
	require.Len(t, info.Template.Globals, 2)

	m := instantiate(t, newRuntime(t, wazero.NewRuntimeConfig()), out)
	var values []uint64
	for _, name := range info.Template.Globals {
		values = append(values, m.ExportedGlobal(name).Get())
	}
	require.Equal(t, []uint64{7, 3}, values)
	results, err := m.ExportedFunction("f").Call(context.Background(), 5)
	require.NoError(t, err)
	require.Equal(t, []uint64{5}, results)
}

func TestOnlyStateThatCanBeCopiedMakesATemplate(t *testing.T) {
	table := func(code string) func(*w.Program) {
		return func(p *w.Program) {
			p.Tables = []string{"\x70\x00\x02"}
			p.Elements = []string{"\x01\x00\x01\x00"}
			p.Funcs[0].Code = code + get(0)
		}
	}
	for name, c := range map[string]struct {
		change func(*w.Program)
		reason string
	}{
		"no memory":                {func(p *w.Program) { p.Pages, p.Data = 0, nil }, "no memory"},
		"a large memory":           {func(p *w.Program) { p.Pages = 1025 }, "begins with more than 67108864 bytes"},
		"a memory at the limit":    {func(p *w.Program) { p.Pages = 1024 }, ""},
		"a start function":         {func(p *w.Program) { p.Funcs = append(p.Funcs, w.Func{}); p.Start = 1 }, "start function"},
		"data out of bounds":       {func(p *w.Program) { p.Data = []string{segment(1<<16-1, "ab")} }, "no constant place"},
		"data dropped":             {func(p *w.Program) { p.Funcs[0].Code = "\xfc\x09\x00" + get(0) }, "names its data"},
		"table.set":                {table(i32Const0 + "\xd0\x70\x26\x00"), "changes its tables"},
		"table.grow":               {table("\xd0\x70" + i32Const0 + "\xfc\x0f\x00\x1a"), "changes its tables"},
		"table.fill":               {table(i32Const0 + "\xd0\x70" + i32Const0 + "\xfc\x11\x00"), "changes its tables"},
		"table.copy":               {table(i32Const0 + i32Const0 + i32Const0 + "\xfc\x0e\x00\x00"), "changes its tables"},
		"table.init":               {table(i32Const0 + i32Const0 + i32Const0 + "\xfc\x0c\x00\x00"), "changes its tables"},
		"table.get":                {table(i32Const0 + "\x25\x00\x1a"), ""},
		"a mutable reference":      {func(p *w.Program) { p.Globals = []string{"\x70\x01\xd0\x70\x0b"} }, "mutable global of type funcref"},
		"a shared mutable global":  {func(p *w.Program) { p.Imports = []string{w.Bytes("a") + w.Bytes("b") + "\x03\x7f\x01"} }, "shares state: the import a.b"},
		"a shared constant":        {func(p *w.Program) { p.Imports = []string{w.Bytes("a") + w.Bytes("b") + "\x03\x7f\x00"} }, ""},
		"a shared table":           {func(p *w.Program) { p.Imports = []string{w.Bytes("a") + w.Bytes("t") + "\x01\x70\x00\x01"} }, "shares state: the import a.t"},
		"all that a template does": {func(*w.Program) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, info, err := rewriteWithin(stateful(c.change), wasmbin.Limits{}, meter.Options{Template: true})
			require.NoError(t, err)
			require.Equal(t, c.reason == "", info.Template != nil, "%v", info.NoTemplate)
			if c.reason != "" {
				require.ErrorContains(t, info.NoTemplate, c.reason)
			}
		})
	}
}
