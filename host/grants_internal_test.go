package host

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host/outbound"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/workload"
)

// everyGrant has something in each list.
func everyGrant() Grants {
	return Grants{
		FS:   FSGrant{ReadOnly: []string{"/a"}, ReadWrite: []string{"/b"}},
		Wasm: WasmGrant{Directories: []string{"/c"}},
		Process: ProcessGrant{
			Commands: []string{"/bin/a"}, Users: []string{"nobody"}, Capabilities: []string{"net_raw"},
			Helpers: []HelperGrant{{Command: "/bin/b", Args: []string{"x"}, User: "nobody", Env: map[string]string{"A": "1"}}},
		},
		Devices: DeviceGrant{Nodes: []string{"/dev/a"}},
		Net:     NetGrant{Addresses: []string{"h:1"}, Sockets: []string{"/run/a"}},
		HTTP:    HTTPGrant{Endpoints: []HTTPEndpoint{{Endpoint: "http://h:1", Methods: []string{"GET"}, Paths: []string{"/"}}}},
	}
}

// What is granted stays so, whatever becomes of the configuration that it was read from.
func TestAGrantIsNoOneElsesToChange(t *testing.T) {
	whole := func() Grants {
		g := everyGrant()
		g.Process.Paths = []string{"rx:/usr"}
		return g
	}
	given := whole()
	kept := given.clone()
	change(reflect.ValueOf(&given).Elem())
	require.Equal(t, whole(), kept)
}

// change changes every text that a value refers to.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			change(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			change(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.ValueOf("changed"))
		}
	case reflect.String:
		v.SetString("changed")
	}
}

func TestWhichImportsNeedWhichGrant(t *testing.T) {
	some := everyGrant()
	helpers := []scan.Import{{Module: abi.ModuleProcess, Name: abi.FuncProcessRun}}
	for name, c := range map[string]struct {
		module  string
		kind    Kind
		grants  Grants
		imports []scan.Import
		fix     string // empty: nothing is missing
	}{
		"programs":             {module: abi.ModuleWasm},
		"programs denied":      {module: abi.ModuleWasm, grants: Grants{Wasm: WasmGrant{Denied: true}}, fix: "wasm { enabled = true }"},
		"logs":                 {module: abi.ModuleLog, grants: Grants{Wasm: WasmGrant{Denied: true}}},
		"processes":            {module: abi.ModuleProcess, fix: `process { commands = [`},
		"processes granted":    {module: abi.ModuleProcess, grants: Grants{Process: ProcessGrant{Commands: []string{"*"}}}},
		"helpers":              {module: abi.ModuleProcess, imports: helpers, fix: `process { helper "/path`},
		"helpers granted":      {module: abi.ModuleProcess, imports: helpers, grants: Grants{Process: ProcessGrant{Helpers: some.Process.Helpers}}},
		"connections":          {module: abi.ModuleNet, kind: KindDevice, fix: "net { addresses"},
		"a driver's":           {module: abi.ModuleNet, kind: KindDriver},
		"addresses":            {module: abi.ModuleNet, kind: KindDevice, grants: Grants{Net: NetGrant{Addresses: []string{"h:1"}}}},
		"sockets":              {module: abi.ModuleNet, kind: KindDevice, grants: Grants{Net: NetGrant{Sockets: []string{"/run/a"}}}},
		"requests":             {module: abi.ModuleHTTP, kind: KindDriver, grants: Grants{Net: some.Net}, fix: "http { endpoint"},
		"requests granted":     {module: abi.ModuleHTTP, kind: KindDriver, grants: Grants{HTTP: some.HTTP}},
		"values to be kept":    {module: abi.ModuleKV, grants: some, fix: "kv { enabled = true }"},
		"values that are kept": {module: abi.ModuleKV, grants: Grants{KV: KVGrant{Enabled: true}}},
	} {
		spec := &Spec{Spec: &scan.Spec{Imports: c.imports}, Kind: c.kind, Capabilities: []string{c.module}}
		err := spec.missing("test", c.module, c.grants)
		if c.fix == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, `plugin "test" { grant { `+c.fix, name)
		without := &wasmnodev1.DriverDescribeResponse{Name: "test", OptionalCapabilities: []string{c.module}}
		require.Empty(t, spec.Needs(without), name)
		if needs := spec.Needs(&wasmnodev1.DriverDescribeResponse{Name: "test"}); c.module != abi.ModuleWasm { // which is only taken away
			require.Len(t, needs, 1, name)
			require.Equal(t, c.module, needs[0].Capability)
		}
	}
}

func TestWhichRequestsAGrantStandsFor(t *testing.T) {
	for granted, c := range map[string]struct{ yes, not []string }{ // URLs, after the socket if there is one
		"http://h:1":         {[]string{"http://h:1/a"}, []string{"http://h:2/a", "https://h:1/a", "http://i:1/a", "http://h:1/b", "/run/x http://h:1/a"}},
		"http://h":           {[]string{"http://h/a", "http://h:80/a"}, []string{"http://h:81/a"}},
		"unix:/run/*/a.sock": {[]string{"/run/x/a.sock http://any/a"}, []string{"/run/x/b.sock http://any/a", "/run/x/y/a.sock http://any/a", "/run/x/a.sock http://any/b", "http://any/a"}},
		"unix:*":             {nil, []string{"http://any/a"}},
		"no endpoint":        {nil, []string{"http://any/a"}},
	} {
		grant := HTTPGrant{Endpoints: []HTTPEndpoint{{Endpoint: granted, Paths: []string{"/a"}}}}
		for i, text := range slices.Concat(c.yes, c.not) {
			socket, url, ok := strings.Cut(text, " ")
			if !ok {
				socket, url = "", text
			}
			target, err := outbound.ParseTarget(url, socket)
			require.NoError(t, err, text)
			require.Equal(t, i < len(c.yes), grant.request("GET", target), "%s: %s", granted, text)
			require.False(t, grant.request("POST", target), "%s: %s", granted, text)
		}
	}
}

// What a name means is not to lead to the machine itself, unless its address is granted.
func TestAnAddressIsGrantedByItself(t *testing.T) {
	grant := HTTPGrant{Endpoints: []HTTPEndpoint{{Endpoint: "http://localhost:80"}, {Endpoint: "http://127.0.0.1:80"}}}
	for address, granted := range map[string]bool{"127.0.0.1:80": true, "127.0.0.1:81": false, "127.0.0.2:80": false} {
		require.Equal(t, granted, grant.address(netip.MustParseAddrPort(address)), address)
	}
	require.False(t, HTTPGrant{Endpoints: []HTTPEndpoint{{Endpoint: "unix:/run/a"}}}.address(netip.AddrPort{}))
}

// A plugin writes nothing into what its operator copies that means more than it asked for.
func TestARefusalNamesTheGrantOfJustThat(t *testing.T) {
	for want, what := range map[string]string{
		`connecting to h:1 is not granted: add plugin "test" { grant { net { addresses = ["h:1"] } } }`: "h:1",
		`connecting to … is not granted: add plugin "test" { grant { net { addresses = ["…"] } } }`:     "h:*",
	} {
		require.EqualError(t, deniedNet("test", "addresses", what), want)
	}
	require.NotContains(t, deniedNet("test", "sockets", "/a\n"+strings.Repeat("b", 1000)).Error(), "\n")
	require.Less(t, len(deniedNet("test", "sockets", strings.Repeat("b", 1000)).Error()), 700)
	for url, fix := range map[string]string{
		"http://h/a":   `endpoint "http://h:80" { methods = ["PUT"] paths = ["/a"] }`,
		"http://h/a*":  `endpoint "http://h:80" { methods = ["PUT"] paths = ["/…"] }`,
		"http://h/a/*": `endpoint "http://h:80" { methods = ["PUT"] paths = ["/…"] }`,
	} {
		target, err := outbound.ParseTarget(url, "")
		require.NoError(t, err)
		require.ErrorContains(t, deniedHTTP("test", "PUT", target), fix)
		require.ErrorContains(t, deniedHTTP("test", "GET", target), strings.Replace(fix, `methods = ["PUT"] `, "", 1))
	}
	require.ErrorContains(t, deniedHelper("test", "/x", slices.Repeat([]string{"a"}, 32)), `"a", "a"] }`)
	require.ErrorContains(t, deniedHelper("test", "/x", slices.Repeat([]string{"a"}, 33)), `"a", "a", "…"] }`)
}

func TestAHelperIsOneClearPermission(t *testing.T) {
	helper := func(change func(*ProcessGrant, *HelperGrant)) Grants {
		g := everyGrant()
		change(&g.Process, &g.Process.Helpers[0])
		return g
	}
	for want, g := range map[string]Grants{
		"":                         everyGrant(),
		"bin/b":                    helper(func(_ *ProcessGrant, h *HelperGrant) { h.Command = "bin/b" }),
		"...":                      helper(func(_ *ProcessGrant, h *HelperGrant) { h.Args = []string{"...", "a"} }),
		"*":                        helper(func(_ *ProcessGrant, h *HelperGrant) { h.User = "*" }),
		"A=B":                      helper(func(_ *ProcessGrant, h *HelperGrant) { h.Env["A=B"] = "1" }),
		"helpers are not isolated": helper(func(p *ProcessGrant, _ *HelperGrant) { p.Isolation = workload.IsolationFull }),
		"isolation = \"paths\"":    helper(func(p *ProcessGrant, _ *HelperGrant) { p.Paths = []string{"rx:/usr"} }),
		"grant.http.endpoint":      {HTTP: HTTPGrant{Endpoints: []HTTPEndpoint{{Endpoint: "http://h:1"}}}},
	} {
		errs := g.Faults()
		if want == "" {
			require.Empty(t, errs)
			continue
		}
		require.Len(t, errs, 1, want)
		require.ErrorContains(t, errs[0], "grant.")
		require.ErrorContains(t, errs[0], want)
	}
	require.Empty(t, helper(func(p *ProcessGrant, h *HelperGrant) { h.User = "" }).Faults())
	require.Empty(t, helper(func(p *ProcessGrant, h *HelperGrant) { p.Isolation, p.Helpers = workload.IsolationFull, nil }).Faults())
	require.Equal(t, `"/bin/b x as nobody"`, everyGrant().Process.Helpers[0].text())
	require.Equal(t, `"/bin/b"`, HelperGrant{Command: "/bin/b"}.text())
}
